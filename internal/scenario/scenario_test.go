package scenario

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// echo is a world in which every command is seen and nothing else happens.
type echo struct {
	seen  []string
	stuck string
}

func (e *echo) Do(c Command) error {
	if c.Verb == e.stuck {
		return errors.New("cannot")
	}
	e.seen = append(e.seen, "saw "+c.String())
	return nil
}

func (e *echo) Seen() ([]string, error) {
	s := e.seen
	e.seen = nil
	return s, nil
}

const story = `# a story
catches stop-ack self-stop
join c1   c2   # two of them
advance 1s
----
saw   advance 1s  # what for
saw join c1 c2
kill c1
`

func TestBlocksAreComparedAsSets(t *testing.T) {
	s, err := Parse("story", story)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Catches, len(s.Blocks), s.Blocks[0].Commands); got != "[stop-ack self-stop] 2 [join c1 c2 advance 1s]" {
		t.Errorf("parsed as %s", got)
	}
	err = s.Run(&echo{})
	if err == nil || !strings.Contains(err.Error(), "seen:    saw kill c1") {
		t.Errorf("what nobody expected goes unnoticed: %v", err)
	}
	s.Blocks[1].Want = []string{"saw kill c1", "saw nothing"}
	err = s.Run(&echo{})
	if err == nil || !strings.Contains(err.Error(), "missing: saw nothing") {
		t.Errorf("what is missing goes unnoticed: %v", err)
	}
	s.Blocks[1].Want = []string{"saw kill c1"}
	if err := s.Run(&echo{}); err != nil {
		t.Errorf("a true story fails: %v", err)
	}
	if err := s.Run(&echo{stuck: "kill"}); err == nil || !strings.Contains(err.Error(), "story:8: kill c1: cannot") {
		t.Errorf("a command that cannot be done: %v", err)
	}
}

func TestRewriteKeepsCommentsAndBecomesTrue(t *testing.T) {
	s, _ := Parse("story", story)
	text, err := s.Rewrite(&echo{})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(story, "saw   advance 1s  # what for\nsaw join c1 c2\n", "saw join c1 c2\nsaw advance 1s  # what for\n", 1) + "----\nsaw kill c1\n"
	if text != want {
		t.Errorf("rewritten as\n%s\nwant\n%s", text, want)
	}
	again, err := Parse("story", text)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Run(&echo{}); err != nil {
		t.Errorf("what was seen is not what is expected: %v", err)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no commands",
		"# nothing\n":         "no commands",
		"fly c1\n":            `unknown verb "fly"`,
		"----\nsaw\n":         "bad:1: ---- without commands",
		"join c1\n----\n----": "bad:3: ---- without commands",
		"catches M1\njoin c1": "bad:1: catches: M1 is called stop-ack now",
		"catches it\njoin c1": `bad:1: catches: no rule is called "it"`,
	} {
		if _, err := Parse("bad", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestEveryFileParses(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Errorf("only %d scenarios", len(all))
	}
	for _, s := range all {
		if !strings.HasPrefix(s.text, "#") {
			t.Errorf("%s does not say what it is about", s.Name)
		}
	}
}
