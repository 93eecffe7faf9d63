package agent

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// Metadata may be any text. As a header and a variable it is one line of printable ASCII,
// and any reader of JSON gets it back.
func TestMetadataIsOneLineOfASCII(t *testing.T) {
	for _, m := range []rota.Meta{
		nil, {}, {"a": "1"}, {"b": "2", "a": "1"}, {"größe": "日本", "clef": "𝄞"}, {"lines": "a\nb\r\x00\x7f", `"`: `\`}, {"html": "<&>"},
	} {
		text := metaText(m)
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
			t.Errorf("%q has a character that no header can have", text)
		}
		var back rota.Meta
		if err := json.Unmarshal([]byte(text), &back); err != nil || !maps.Equal(back, m) {
			t.Errorf("%q: %v, and %v comes back", text, err, back)
		}
	}
	if got := metaText(rota.Meta{"b": "<2>", "a": "1"}); got != `{"a":"1","b":"<2>"}` {
		t.Errorf("it reads %s", got)
	}
}

// A function follows the metadata of its partition in a file, which is gone when it ends.
func TestMetadataIsFollowedInAFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var files metaFiles
	ready, stopped := make(chan string, 1), make(chan struct{})
	src := rota.Func([]string{"a/b"}, func(ctx context.Context, own rota.Ownership) error {
		file, forget := files.follow(own)
		ready <- file
		<-own.Stop()
		forget()
		close(stopped)
		return nil
	})
	store := rotatest.NewMemStore()
	m, err := rota.New(rota.Config{Group: "g", Store: store, Source: src, NewGroup: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	file := <-ready
	shows := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			b, err := os.ReadFile(file)
			if err == nil && string(b) == want+"\n" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the file shows %q, %v, want %s", b, err, want)
			}
		}
	}
	shows("{}")
	o := &record.Orders{Ver: 1, Meta: []record.Meta{{Partition: "a/b", Pairs: []record.Pair{{Key: "win", Value: "7"}}}}}
	b, err := record.Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), "g/orders", b, 0); err != nil {
		t.Fatal(err)
	}
	shows(`{"win":"7"}`)
	if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", info, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-stopped
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	files.close()
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A folder that cannot be made costs the file and nothing else.
func TestWithoutAFolderThereIsNoFile(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	var files metaFiles
	file, forget := files.follow(rota.Message{}.Ownership())
	forget()
	files.close()
	if file != "" {
		t.Errorf("there is a file %s", file)
	}
}
