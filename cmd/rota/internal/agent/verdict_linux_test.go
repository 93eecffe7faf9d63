package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// script makes the command exit by what the message says, until the file ready exists.
const script = `#!/bin/sh
read message
echo $message/$ROTA_ATTEMPT >>%noted
case $message in bad) exit 65 ;; esac
[ -e %noted.ready ] && exit 0
case $message in later) exit 75 ;; stale) exit 77 ;; fails) exit 1 ;; esac
`

// noted counts the calls of the command that noted this line.
func (tr *tryout) count(line string) int {
	b, _ := os.ReadFile(tr.noted)
	return strings.Count("\n"+string(b), "\n"+line+"\n")
}

// TestACommandSaysWhatItsExitMeans checks the table of docs/cli.md with a real member.
func TestACommandSaysWhatItsExitMeans(t *testing.T) {
	t.Parallel()
	tr := newTryout(t)
	text := strings.ReplaceAll(script, "%noted", tr.noted)
	if err := os.WriteFile(tr.command+".new", []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tr.command+".new", tr.command); err != nil {
		t.Fatal(err)
	}
	tr.publish("bad")
	tr.publish("sound")
	tr.handled("sound/1")
	st, err := tr.js.Stream(t.Context(), "S_dead")
	if err != nil {
		t.Fatal(err)
	}
	letter, err := st.GetMsg(t.Context(), 1)
	if err != nil || string(letter.Data) != "bad\n" || tr.count("bad/1") != 1 {
		t.Errorf("dead-lettered is %v, %v, after %d calls", letter, err, tr.count("bad/1"))
	}
	for _, c := range []struct{ message, again, never string }{
		{"later", "later/1", "later/2"},
		{"stale", "stale/1", "stale/2"},
		{"fails", "fails/3", "fails/0"},
	} {
		tr.publish(c.message)
		trial.Until(t, c.message+" again", func() bool {
			return tr.count(c.again) >= 1 && tr.count(c.message+"/1")+tr.count(c.message+"/2") >= 2
		})
		if err := os.WriteFile(tr.noted+".ready", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		tr.publish("after " + c.message)
		tr.handled("after " + c.message + "/1")
		if n := tr.count(c.never); n > 0 {
			t.Errorf("%s was counted as an attempt: %d times %s", c.message, n, c.never)
		}
		if err := os.Remove(tr.noted + ".ready"); err != nil {
			t.Fatal(err)
		}
	}
}
