package line

import (
	"encoding/json"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// A disk that is too slow costs lines, never a heartbeat, and the file says so.
func TestASlowJournalCountsWhatItMisses(t *testing.T) {
	r, w := io.Pipe()
	j, err := OpenJournal("-", "g", false, w)
	if err != nil {
		t.Fatal(err)
	}
	const all = 1<<16 + 5000
	for range all {
		j.Take(rota.Event{Kind: rota.EventStart, Time: time.Now(), Member: "c1", Session: "s", Partition: "q0", Token: 1, Remaining: time.Second})
	}
	got := make(chan int)
	go func() {
		n := 0
		for d := json.NewDecoder(r); ; {
			var l Line
			if d.Decode(&l) != nil {
				got <- n
				return
			}
			if l.Event == string(rota.EventMissed) {
				n += l.N
				continue
			}
			n++
			if l.V != Version || l.Boot <= 0 || l.Lease-l.Boot != int64(time.Second) || l.Group != "g" {
				t.Errorf("a line like %+v", l)
			}
		}
	}()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	j.Take(rota.Event{Kind: rota.EventStop, Time: time.Now()}) // too late, and harmless
	w.Close()
	if n := <-got; n != all {
		t.Errorf("%d lines written or counted as missed, of %d", n, all)
	}
}

func TestJournalTracesOnlyWhenAsked(t *testing.T) {
	for _, trace := range []bool{false, true} {
		var out strings.Builder // read after the journal is closed
		j, err := OpenJournal("-", "g", trace, &out)
		if err != nil {
			t.Fatal(err)
		}
		j.Take(rota.Event{Kind: rota.EventHandle, Time: time.Now(), Partition: "q0"})
		j.Take(rota.Event{Kind: rota.EventGrant, Time: time.Now(), Partition: "q0"})
		j.Close()
		if got := strings.Count(out.String(), "\n"); (got == 2) != trace {
			t.Errorf("trace %v: %s", trace, &out)
		}
	}
}

// docs/events.md knows every event and every field.
func TestEventLinesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []rota.EventKind{
		rota.EventJoined, rota.EventLeader, rota.EventPlan, rota.EventGrant, rota.EventStarting, rota.EventStart, rota.EventMeta, rota.EventRevoke, rota.EventStop,
		rota.EventStopped, rota.EventLapsed, rota.EventWorksOn, rota.EventResumed, rota.EventDead, rota.EventEvicted, rota.EventLeaving, rota.EventLeft, rota.EventFenced,
		rota.EventOrphaned, rota.EventStoreLost, rota.EventStoreBack, rota.EventError, rota.EventDeadLetter, rota.EventCondition, rota.EventMissed,
		rota.EventHandle, rota.EventHandled, rota.EventSettled, rota.EventRefused, rota.EventLease, "gone", "work",
	} {
		if !strings.Contains(string(b), "`"+string(k)+"`") {
			t.Errorf("docs/events.md does not tell of the event %s", k)
		}
	}
	for f := range reflect.TypeFor[Line]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(string(b), "`"+name+"`") {
			t.Errorf("docs/events.md does not tell of the field %s", name)
		}
	}
}
