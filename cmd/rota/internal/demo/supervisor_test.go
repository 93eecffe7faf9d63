package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/line"
)

// Whatever a member writes, rota up reads on: a pipe that nobody reads would stop the
// member.
func TestLongLinesOfAMemberAreReadOn(t *testing.T) {
	long := strings.Repeat("x", 3*line.MaxSize)
	s := &supervisor{events: make(chan happening, 1000)}
	s.readWords(&child{}, strings.NewReader("first\n"+long+"\nlast\n"))
	s.readEvents(&child{}, bytes.NewReader([]byte(long+"\n"+`{"v":2,"event":"joined","session":"s1"}`+"\n")))
	close(s.events)
	var words []string
	events := 0
	for h := range s.events {
		if h.line != nil {
			events++
		} else {
			words = append(words, h.says)
		}
	}
	if n := len(words); n < 3 || words[0] != "first" || words[n-1] != "last" || events != 1 {
		t.Errorf("%d words and %d events were read", n, events)
	}
}

// Event files tell partitions, message ids and errors: they are their owner's.
func TestEventFilesAreTheirOwners(t *testing.T) {
	dir := t.TempDir()
	j, err := line.OpenJournal(filepath.Join(dir, "events"), "g", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	f, err := newEventFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, name := range []string{"events", "events.jsonl"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v", name, st.Mode(), err)
		}
	}
}
