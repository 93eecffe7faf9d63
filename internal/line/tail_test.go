package line

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTailReadsLinesWhenTheyAreWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "c1.jsonl")
	tail := Follow(name)
	defer tail.Close()
	var got []string
	read := func() {
		t.Helper()
		if err := tail.Read(func(l Line) { got = append(got, l.Event) }); err != nil {
			t.Fatal(err)
		}
	}
	read() // there is no file yet
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, step := range []struct {
		write string
		want  []string
	}{
		{"", nil},
		{`{"v":2,"event":"a"}` + "\n" + `{"v":2,"ev`, []string{"a"}},
		{`ent":"b"}`, []string{"a"}},
		{"\n\n", []string{"a", "b"}},
		{strings.Repeat(`{"v":2,"event":"c"}`+"\n", 10_000), append([]string{"a", "b"}, slices.Repeat([]string{"c"}, 10_000)...)},
		{`{"v":2,"event":"cut short`, nil},
	} {
		f.WriteString(step.write)
		read()
		if step.want != nil && !slices.Equal(got, step.want) {
			t.Errorf("after %.40q: %d lines, want %d", step.write, len(got), len(step.want))
		}
	}
	if len(got) != 10_002 {
		t.Errorf("%d lines", len(got))
	}
	for _, bad := range []string{"nonsense", `{"v":1,"event":"a"}`, `{"v":3,"event":"a"}`} {
		file := filepath.Join(t.TempDir(), "bad")
		os.WriteFile(file, []byte(bad+"\n"), 0o644)
		if err := Follow(file).Read(func(Line) {}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
