package core

import "testing"

// After a jump of a clock that does not count suspend, a heartbeat that was in
// flight gives no lease: how long ago it was sent is unknown.
func TestJumpForgetsWhatWasSentBefore(t *testing.T) {
	for _, counts := range []bool{true, false} {
		n := New(&Config{Session: 1, Name: "c1", Timing: DefaultTiming(), Fresh: true, Era: 1})
		now := Time(1e9)
		var put *Action
		for _, a := range n.Step(now, Event{Kind: Begin}) {
			if a.Do == DoCall && a.Verb == Put {
				put = &a
			}
		}
		if put == nil {
			t.Fatal("no heartbeat")
		}
		now = now.Add(1e6)
		n.Step(now, Event{Kind: Jumped, CountsSuspend: counts})
		n.Step(now, Event{Kind: Answer, Verb: Put, Key: put.Key, Rev: 1})
		if got := n.Lease() > now; got != counts {
			t.Errorf("a clock that counts suspend: %v; a lease: %v", counts, got)
		}
	}
}
