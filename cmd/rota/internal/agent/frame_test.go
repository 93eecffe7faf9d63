package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// FuzzAnswer reads anything that a worker may write: what is taken for an answer has a
// message and a known word, and no reason reaches a terminal as it is.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"seq":1,"is":"done"}`, `{"seq":1,"is":"failed","reason":"x\u001b[2J\u202e"}`, `{"seq":-1,"is":"done"}`, `{"seq":1e3,"is":"done"}`, `{"seq":1}`, `{"is":"done"}`,
		`{"seq":18446744073709551616,"is":"bad"}`, `{"seq":"1","is":"done"}`, `[]`, `null`, `{"seq":1,"is":"later","reason":["x"]}`, `{"seq":1,"is":"refused"} x`, "\x00\xff", `{"seq":2,"seq":1,"is":"done"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := parseAnswer(line)
		if err != nil {
			trial.Tame(t, "an error", err.Error())
			if len(err.Error()) > 1000 {
				t.Errorf("a sentence of %d bytes", len(err.Error()))
			}
			return
		}
		word, known := answerWords[a.Is]
		if !known || a.Seq == 0 {
			t.Errorf("taken for an answer: %+v", a)
		}
		said := a.err()
		if (word == nil) != (said == nil) {
			t.Errorf("%q means %v", a.Is, said)
		}
		if said != nil {
			trial.Tame(t, "a reason", said.Error())
			if len(said.Error()) > 4*maxReason {
				t.Errorf("a reason of %d bytes", len(said.Error()))
			}
		}
	})
}

// What a worker answers is found in the middle of others' answers, whatever the order.
func TestAnswersMayComeInAnyOrder(t *testing.T) {
	w := &worker{}
	var calls []*call
	for seq := range uint64(3) {
		calls = append(calls, &call{seq: seq + 1, answer: make(chan error, 1)})
	}
	w.calls = append(w.calls, calls...)
	for _, seq := range []uint64{2, 3, 1} {
		a, err := parseAnswer(fmt.Appendf(nil, `{"seq":%d,"is":"failed","reason":"n%d"}`, seq, seq))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.answered(a); err != nil {
			t.Fatal(err)
		}
		if err := <-calls[seq-1].answer; !strings.Contains(err.Error(), fmt.Sprintf("n%d", seq)) {
			t.Errorf("message %d: %v", seq, err)
		}
		if w.answered(a) == nil {
			t.Error("answered twice")
		}
	}
}
