package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// outageWork is how long the handler takes. Messages arrive at half the rate that this
// permits.
const outageWork = 4 * time.Millisecond

// An outageSink is away for one partition. It checks order and tokens, and counts.
type outageSink struct {
	t    *testing.T
	mu   sync.Mutex
	away string // partition whose writes fail
	done map[string]int
	last map[string]rota.Message

	again int // messages that were handled before
	ended int // ownerships that ended, and calls of Consume that failed
}

// trace counts what may make handled messages come again.
func (s *outageSink) trace(e rota.Event) {
	if e.Kind == rota.EventLapsed || e.Kind == rota.EventStopped || e.Condition == rota.ConditionSourceFailed {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended++
	}
}

func (s *outageSink) handle(_ context.Context, msg rota.Message) error {
	time.Sleep(outageWork)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == msg.Partition {
		return errors.New("connection refused")
	}
	was, next := s.last[msg.Partition], s.done[msg.Partition]+1
	n, err := strconv.Atoi(string(msg.Value))
	if err != nil || n > next || msg.Token < was.Token {
		s.t.Errorf("%s: message %s under token %d, want message %d; the last had token %d", msg.Partition, msg.Value, msg.Token, next, was.Token)
	}
	if n < next {
		s.again++ // on a busy machine a lease may end between an effect and its settlement
		return nil
	}
	s.done[msg.Partition] = n
	s.last[msg.Partition] = msg
	return nil
}

func (s *outageSink) setAway(partition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = partition
}

func (s *outageSink) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.done)
}

// TestOutageOfTheSink takes the sink of one partition away under load, on a real server.
// Nothing is dead-lettered, the order is kept, the backlog is worked off, and the other
// partitions do not notice. `make outage` has it last for five minutes, and asks the
// others for 0.98 of what arrives in every window of 10 s.
func TestOutageOfTheSink(t *testing.T) {
	long := 2 * time.Second
	timed := os.Getenv("ROTA_OUTAGE") != ""
	if text := os.Getenv("ROTA_OUTAGE"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatalf("ROTA_OUTAGE: %v", err)
		}
	} else {
		t.Parallel()
	}
	b := newBroker(t, rotatest.StartNATS(t).URL())
	sink := &outageSink{t: t, done: map[string]int{}, last: map[string]rota.Message{}}
	store, l := rotatest.NewMemStore(), newLedger(t)
	for _, name := range []string{"a", "b"} {
		l.member(name, store.Open(), b.Source(), func(c *rota.Config) { c.Handle, c.Trace = sink.handle, sink.trace })
	}
	sent := map[string]int{}
	window := min(10*time.Second, long/2)
	flow := func(d time.Duration, judge bool) {
		t.Helper()
		end, tick := time.Now().Add(d), time.NewTicker(2*outageWork)
		defer tick.Stop()
		for from := time.Now(); time.Now().Before(end); {
			wasDone, wasSent := sink.counts(), maps.Clone(sent)
			for next := from.Add(window); from.Before(next); from = from.Add(2 * outageWork) {
				<-tick.C
				for _, p := range b.names {
					sent[p]++
					if _, err := b.js.PublishAsync(p, fmt.Append(nil, sent[p])); err != nil {
						t.Fatal(err)
					}
				}
			}
			is := sink.counts()
			for _, p := range b.names {
				share := float64(is[p]-wasDone[p]) / float64(sent[p]-wasSent[p])
				t.Logf("%s: %.3f of what arrived in %v, %d behind", p, share, window, sent[p]-is[p])
				if judge && p != b.names[0] && timed && share < 0.98 {
					t.Errorf("%s: %.3f of what arrived in %v was handled", p, share, window)
				}
			}
		}
	}
	flow(window, false)
	sink.setAway(b.names[0])
	flow(long, true)
	other := sink.counts()[b.names[1]]
	sink.setAway("")
	back := time.Now()
	const inFlight = 30                                                  // of 125 that arrive in a second
	for timed && sent[b.names[0]]-sink.counts()[b.names[0]] > inFlight { // while more arrives, which a busy machine may not keep up with
		if time.Since(back) > 30*time.Second+4*long {
			t.Fatalf("%d of %d are handled %v after the sink came back", sink.counts()[b.names[0]], sent[b.names[0]], time.Since(back))
		}
		flow(window, true)
	}
	t.Logf("the backlog was worked off %v after the sink came back", time.Since(back).Round(time.Second))
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(outageWork) {
		if is := sink.counts(); maps.Equal(is, sent) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("handled are %v of %v", is, sent)
		}
	}
	sink.mu.Lock()
	if sink.again > 0 && (timed || sink.ended == 0) {
		t.Errorf("%d messages came again, and %d ownerships ended", sink.again, sink.ended)
	}
	sink.mu.Unlock()
	if other == 0 {
		t.Errorf("%s was not handled during the outage", b.names[1])
	}
	if _, err := b.js.Stream(t.Context(), b.stream+"_dead"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("there are dead letters: %v", err)
	}
}
