package scenario

import (
	"strings"
	"testing"
)

// FuzzParse: whatever a file holds, it is read as blocks of known verbs or refused in
// one line that says where. What was read can be played, and written anew with what
// was seen; that is then a story that comes true.
func FuzzParse(f *testing.F) {
	all, err := All()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range all {
		f.Add(s.text)
	}
	for _, s := range []string{"", "#", "----", "join\n----\n----", "join\n---- c1 leads", "join c1\n----\nx # y\n\n# z", "catches\nas-is\njoin", "join\r\n----\r\n#\r\n", "join c1 # a\nstabilize\n----\nsaw join c1 # b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("story", text)
		if err != nil {
			if msg := err.Error(); !strings.HasPrefix(msg, "story:") || strings.Contains(msg, "\n") {
				t.Errorf("refused with %q", msg)
			}
			return
		}
		for _, b := range s.Blocks {
			for _, c := range b.Commands {
				if Verbs[c.Verb] == "" || c.Line < 1 || c.Line > strings.Count(text, "\n")+1 {
					t.Errorf("command %q of line %d", c, c.Line)
				}
			}
			if len(b.Commands) == 0 {
				t.Error("a block without commands")
			}
		}
		again, err := s.Rewrite(&echo{})
		if err != nil {
			t.Fatalf("it cannot be written anew: %v", err)
		}
		if strings.Contains(text, "#") { // a comment goes with a line, which may be gone
			return
		}
		told, err := Parse("story", again)
		if err != nil {
			t.Fatalf("what was seen is refused: %v\n%s", err, again)
		}
		if err := told.Run(&echo{}); err != nil {
			t.Errorf("what was seen does not come true: %v\n%s", err, again)
		}
	})
}
