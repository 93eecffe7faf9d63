package agent

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/line"
)

func TestWhatOthersWroteIsTameInWords(t *testing.T) {
	for _, event := range []string{"joined", "leader", "plan", "start", "stop", "stopped", "lapsed", "dead", "evicted", "fenced", "store_lost", "condition", "error", "dead_letter", "missed", "gone"} {
		l := line.Line{Event: event, Member: trial.Hostile, Session: trial.Hostile, Partition: trial.Hostile, Because: trial.Hostile, About: trial.Hostile, Message: trial.Hostile}
		text := l.Say(func(s string) string { return "session " + s })
		if trial.Tame(t, event, text); text == "" || strings.Contains(text, "\n") {
			t.Errorf("%s: %q", event, text)
		}
	}
	var out trial.Buffer
	s := line.NewSpeaker(&out, false)
	s.Take(rota.Event{Kind: rota.EventCondition, Member: trial.Hostile, Because: trial.Hostile})
	s.Close()
	s.Take(rota.Event{Kind: rota.EventCondition}) // too late, and no panic
	trial.Tame(t, "the speaker", out.String())
	h := &handler{out: &out}
	if err := h.log(t.Context(), rota.Message{Partition: trial.Hostile, ID: trial.Hostile}); err != nil {
		t.Fatal(err)
	}
	if trial.Tame(t, "--handle log", out.String()); strings.Count(out.String(), "\n") != 2 {
		t.Errorf("wrote %q", &out)
	}
	trial.Tame(t, "an escape", escapeWords(1, trial.Hostile))
}

// answering is a server that says this to every request, and nothing more.
func answering(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				bufio.NewReader(c).ReadString('\n')
				fmt.Fprint(c, answer)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

func TestAServersStatusTextIsTame(t *testing.T) {
	h := &handler{deed: deed{kind: "http", url: answering(t, "HTTP/1.1 500 \x1b]0;x\x07\u202e\r\nContent-Length: 0\r\n\r\n")}}
	err := h.handle()(t.Context(), rota.Message{ID: trial.Hostile, Partition: trial.Hostile})
	if err == nil {
		t.Fatal("settled")
	}
	trial.Tame(t, "post", err.Error())
}

// A server that says 200 and never sends the body it promised has settled the
// message, and holds up nobody.
func TestABodyThatNeverComesHoldsUpNobody(t *testing.T) {
	for status, well := range map[string]bool{"200 OK": true, "500 No": false} {
		h := &handler{deed: deed{kind: "http", url: answering(t, "HTTP/1.1 "+status+"\r\nContent-Length: 10\r\n\r\n")}}
		done := make(chan error, 1)
		go func() { done <- h.handle()(t.Context(), rota.Message{ID: "1"}) }()
		select {
		case err := <-done:
			if (err == nil) != well {
				t.Errorf("%s: %v", status, err)
			}
		case <-time.After(trial.Patience):
			t.Errorf("%s: the handler had not returned after %v", status, trial.Patience)
		}
	}
}
