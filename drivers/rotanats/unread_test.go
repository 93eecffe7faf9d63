package rotanats_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// TestDamagedFilesAreNamed damages one file of a bucket after another. The server is not
// started if it could not serve the bucket; if it can serve a part of it, it says what is
// lost. In any case it names the files and what to do, and removes nothing.
func TestDamagedFilesAreNamed(t *testing.T) {
	t.Parallel()
	flip := func(b []byte, at int) []byte { b[at] ^= 0xff; return b }
	middle := func(b []byte) []byte { return flip(b, len(b)/2) }
	end := func(b []byte) []byte { return flip(b, len(b)-1) }
	empty := func([]byte) []byte { return []byte{} }
	gone := func([]byte) []byte { return nil }
	const refused, lost = true, false
	for _, c := range []struct {
		name, file string
		damage     func([]byte) []byte
		refused    bool
		says       string
	}{
		{"description", "meta.inf", middle, refused, "the stream KV_rota cannot be read"},
		{"empty description", "meta.inf", empty, refused, "the stream KV_rota cannot be read"},
		{"no description", "meta.inf", gone, refused, "the stream KV_rota cannot be read"},
		{"checksum", "meta.sum", middle, refused, "the stream KV_rota cannot be read"},
		{"no checksum", "meta.sum", gone, refused, "the stream KV_rota cannot be read"},
		{"block", "msgs/1.blk", middle, lost, "a file of a stream is damaged"},
		{"end of a block", "msgs/1.blk", end, lost, "a file of a stream is damaged"},
		{"no block", "msgs/1.blk", gone, lost, "a file of a stream is damaged"},
		{"empty block", "msgs/1.blk", empty, lost, "a bucket holds nothing"},
		{"summary", "msgs/index.db", middle, lost, "state checksum did not match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			bucket := filledBucket(t, dir)
			file := filepath.Join(bucket, c.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if text = c.damage(text); text == nil {
				err = os.Remove(file)
			} else {
				err = os.WriteFile(file, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			told, err := serveDamaged(t, dir)
			if (err != nil) != c.refused || !strings.Contains(told, c.says) || c.name != "summary" && !strings.Contains(told, bucket) {
				t.Errorf("serving returns %v and says %s", err, told)
			}
			if c.refused {
				if _, err := os.Stat(filepath.Join(bucket, "msgs", "1.blk")); err != nil {
					t.Errorf("a file that was not damaged is gone: %v", err)
				}
			}
		})
	}
}

// TestUnreadableBlockIsNotRemoved: nats-server removes a stream if it cannot read a file
// of its messages. The folder is not given to it.
func TestUnreadableBlockIsNotRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	bucket := filledBucket(t, dir)
	block := filepath.Join(bucket, "msgs", "1.blk")
	if err := os.Rename(block, block+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(block, 0o700); err != nil { // reading it fails, for root as well
		t.Fatal(err)
	}
	if told, err := serveDamaged(t, dir); err == nil || !strings.Contains(told, block) || !strings.Contains(told, "back from a backup") {
		t.Errorf("serving returns %v and says %s", err, told)
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(block+".old", block); err != nil {
		t.Fatal(err)
	}
	s := embedded.Store("embed:" + dir)
	defer s.Close()
	if _, err := s.Get(t.Context(), "g/member/19"); err != nil {
		t.Errorf("the file is back, but not its record: %v", err)
	}
}

// filledBucket makes a folder with a bucket of twenty records, and returns the folder of
// its stream.
func filledBucket(t *testing.T, dir string) string {
	t.Helper()
	s := embedded.Store("embed:" + dir)
	defer s.Close()
	for i := range 20 {
		if _, err := s.Put(t.Context(), fmt.Sprintf("g/member/%d", i), make([]byte, 300), 0); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "jetstream", "$G", "streams", "KV_rota")
}

// serveDamaged serves a folder for a moment, and returns what is said about it.
func serveDamaged(t *testing.T, dir string) (told string, err error) {
	t.Helper()
	var said logged
	s, err := embedded.Serve("embed:"+dir, "", rotanats.Log(slog.New(slog.NewTextHandler(&said, nil))))
	if err == nil {
		s.Close()
		return said.String(), nil
	}
	return err.Error() + "\n" + said.String(), err
}

// logged is what was logged.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) until(t *testing.T, what string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(l.String(), what); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nobody says %q:\n%s", what, l)
		}
	}
}
