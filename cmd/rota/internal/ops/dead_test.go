package ops

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/rotatest"
)

// hostileLetter is a letter in which others may have written anything.
func hostileLetter() rota.Letter {
	return rota.Letter{ID: trial.Hostile, Group: trial.Hostile, Reason: trial.Hostile, Former: trial.Hostile,
		Message: rota.Message{ID: trial.Hostile, Partition: trial.Hostile, Value: []byte(trial.Hostile),
			Headers: []rota.Header{{Key: trial.Hostile, Value: []byte(trial.Hostile)}}}}
}

func TestALetterIsTame(t *testing.T) {
	l := hostileLetter()
	var list, value, about strings.Builder
	if err := printLetters(&list, []rota.Letter{l}, "table", time.Now()); err != nil {
		t.Fatal(err)
	}
	if trial.Tame(t, "dead list", list.String()); strings.Count(list.String(), "\n") != 2 {
		t.Errorf("dead list: %q", list.String())
	}
	if err := showLetter(&value, &about, &l, "table"); err != nil {
		t.Fatal(err)
	}
	trial.Tame(t, "dead show", about.String())
	if value.String() != trial.Hostile {
		t.Errorf("the value was changed on its way to a pipe: %q", value.String())
	}
	value.Reset()
	var shape letterShape
	if err := showLetter(&value, &about, &l, "json"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(value.String()), &shape); err != nil || string(shape.Value) != trial.Hostile {
		t.Errorf("dead show -o json: %q, %v", value.String(), err)
	}
	box := &oneLetter{rotatest.NewMemSource(1, "q0"), l}
	r := &replay{from: box, out: &about}
	about.Reset()
	if _, err := r.look(t.Context(), trial.Hostile, map[string]rota.Letter{"1": l}); err != nil {
		t.Fatal(err)
	}
	trial.Tame(t, "dead replay", about.String())
}

// TestAFailingHandlerIsExplained: the screen says what the messages wait for.
func TestAFailingHandlerIsExplained(t *testing.T) {
	now := time.Now()
	member := rota.MemberInfo{Name: "c1", Session: "1", State: rota.MemberLive, Sent: now, Heartbeat: time.Second, Lease: 3 * time.Second}
	st := &rota.Status{Partitions: []rota.PartitionInfo{{Name: "q0", State: rota.PartitionOwned, Owner: "1"}, {Name: "q1", State: rota.PartitionOwned, Owner: "1"}}}
	member.Conditions = []rota.ConditionInfo{{Code: rota.ConditionHandlerFails, Partition: "q0", Text: "its handler has failed since noon"}}
	st.Members = []rota.MemberInfo{member}
	for partition, want := range map[string][]string{
		"q0": {"It runs, and its messages wait", "c1 says: its handler has failed since noon."},
		"q1": {"It runs, and waits for nothing."},
	} {
		text, err := explain(st, partition, now)
		if err != nil {
			t.Fatal(err)
		}
		trial.In(t, text, want...)
	}
}

// oneLetter is a source with one letter, whatever it is asked for.
type oneLetter struct {
	*rotatest.MemSource
	letter rota.Letter
}

func (s *oneLetter) Letters(context.Context, string) iter.Seq2[rota.Letter, error] {
	return func(yield func(rota.Letter, error) bool) {
		l := s.letter
		l.Former = "1"
		yield(l, nil)
	}
}
