package pace

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// handle lets one message of a partition through, with a handler that takes the
// given time.
func handle(t *testing.T, turn *Turn, takes time.Duration) {
	t.Helper()
	at, err := turn.Wait(t.Context(), nil)
	if err != nil {
		t.Error(err)
	}
	time.Sleep(takes)
	turn.Done(at, 1)
}

// passing says how many messages a partition gets through until it has to wait,
// up to most. Its handler takes no time.
func passing(turn *Turn, most int) (n int) {
	for ; n < most; n++ {
		if turn.pass(time.Now(), true) != nil {
			return n
		}
		turn.Done(time.Now(), 1)
	}
	return n
}

func TestFastPartitionIsHeldNearTheSlowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast, slow := g.Join(), g.Join()
		if n := passing(fast, 1000); n != defaultAhead+1 {
			t.Errorf("%d messages before the wait, want %d", n, defaultAhead+1)
		}
		waited := make(chan time.Duration)
		go func() {
			began := time.Now()
			handle(t, fast, 0)
			waited <- time.Since(began)
		}()
		synctest.Wait()
		for range defaultAhead / 2 {
			handle(t, slow, time.Millisecond/10)
		}
		if d := <-waited; d != defaultAhead/2*time.Millisecond/10 {
			t.Errorf("waited %v for half of what it was ahead", d)
		}
	})
}

func TestAheadIsTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Gate{Ahead: 7}
		fast := g.Join()
		g.Join()
		if n := passing(fast, 1000); n != 8 {
			t.Errorf("%d messages before the wait, want 8", n)
		}
	})
}

// TestTheLeadIsAPartOfTheRate lets a partition go as far ahead as it may of one that handles
// some messages every millisecond.
func TestTheLeadIsAPartOfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast, even := g.Join(), g.Join()
		lead := func(each, until int) int64 {
			for even.count < int64(until) {
				time.Sleep(time.Millisecond)
				at, _ := even.Wait(t.Context(), nil)
				even.Done(at, each)
				passing(fast, 10_000)
			}
			return fast.count - even.count
		}
		for _, c := range []struct {
			each, until int
			want        int64
			because     string
		}{
			{20, 1000, defaultAhead, "few were handled"},
			{20, 4000, 4000 / aheadPart, "that is a part of what was handled"},
			{20, 40_000, 20 * int64(aheadTime/time.Millisecond), "that is aheadTime at its rate"},
			{1, 41_500, defaultAhead, "it has become slow"},
			{30, 80_000, mostAhead, "that is the most"},
		} {
			if got := lead(c.each, c.until); got < c.want*9/10 || got > c.want+c.want/10+1 {
				t.Errorf("after %d: %d ahead, want about %d: %s", c.until, got, c.want, c.because)
			}
		}
	})
}

// TestTheRateIsThatOfNow has a partition far ahead of a quick one, which becomes slow: what
// it might have been ahead before is forgotten.
func TestTheRateIsThatOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast, other := g.Join(), g.Join()
		handles := func(each int) {
			time.Sleep(time.Millisecond)
			at, _ := other.Wait(t.Context(), nil)
			other.Done(at, each)
		}
		for range 2000 {
			handles(20)
			passing(fast, 10_000)
		}
		if lead := fast.count - other.count; lead < 4*defaultAhead {
			t.Fatalf("%d ahead of a quick one", lead)
		}
		for fast.count-other.count > 2*defaultAhead {
			handles(1)
		}
		if n := passing(fast, 1000); n > 0 {
			t.Errorf("%d messages before the wait, though the other is slow, and it is %d ahead", n, 2*defaultAhead)
		}
	})
}

func TestAPartitionAloneNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		if n := passing(g.Join(), 1000); n != 1000 {
			t.Errorf("waits for nobody after %d", n)
		}
	})
}

func TestTheAbsentAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast := g.Join()
		g.Join() // and never comes to the gate
		passing(fast, 1000)
		began := time.Now()
		handle(t, fast, 0)
		if d := time.Since(began); d < absent || d > absent+recheck {
			t.Errorf("waited %v for a partition that is absent after %v", d, absent)
		}
	})
}

func TestSlowHandlersAreNotWaitedFor(t *testing.T) {
	for _, c := range []struct {
		claim         string
		takes, others time.Duration
		waitedFor     bool
	}{
		{"quick", slow, 0, true},
		{"slow", slow + 1, 0, false},
		{"as slow as the others", 4 * slow, 2 * slow, true},
		{"much slower than the slow others", 2*slowFactor*slow + 1, 2 * slow, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			fast, odd := g.Join(), g.Join()
			handle(t, fast, c.others)
			handle(t, odd, c.takes)
			if n := passing(fast, 1000); (n < 1000) != c.waitedFor {
				t.Errorf("%s: %d messages pass, waited for: want %v", c.claim, n, c.waitedFor)
			}
		})
	}
}

func TestASlowPartitionIsWaitedForAgainOnceItIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast, odd := g.Join(), g.Join()
		handle(t, odd, slow+1)
		passing(fast, 1000)
		handle(t, odd, 0) // level with the fast one now, and quick
		if n := passing(fast, 1000); n != defaultAhead+2 {
			t.Errorf("%d messages pass, want %d", n, defaultAhead+2)
		}
	})
}

func TestLeaveAndRestLetTheOthersPass(t *testing.T) {
	for name, act := range map[string]func(*Turn){"leave": (*Turn).Leave, "rest": (*Turn).Rest} {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			fast, other := g.Join(), g.Join()
			passing(fast, 1000)
			passed := make(chan time.Time)
			go func() {
				handle(t, fast, 0)
				passed <- time.Now()
			}()
			synctest.Wait()
			now := time.Now()
			act(other)
			if at := <-passed; !at.Equal(now) {
				t.Errorf("%s: the other one waited for %v more", name, at.Sub(now))
			}
		})
	}
}

func TestAJoinerIsLevelWithTheSlowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		a, b := g.Join(), g.Join()
		for range 1000 {
			handle(t, a, 0)
			handle(t, b, 0)
		}
		if n := passing(g.Join(), 1000); n != defaultAhead+1 {
			t.Errorf("a joiner passes %d times, want %d", n, defaultAhead+1)
		}
	})
}

func TestStopEndsTheWaitAndLetsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast := g.Join()
		g.Join()
		passing(fast, 1000)
		stop := make(chan struct{})
		close(stop)
		began := time.Now()
		if _, err := fast.Wait(t.Context(), stop); err != nil || time.Since(began) > 0 {
			t.Errorf("waited %v, %v", time.Since(began), err)
		}
	})
}

func TestCancelEndsTheWaitWithItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast := g.Join()
		g.Join()
		passing(fast, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := fast.Wait(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// A partition that has left is none of the others any more, whose handlers say
// what is slow.
func TestTheGoneAreNoMeasureOfSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast, odd, gone := g.Join(), g.Join(), g.Join()
		handle(t, gone, time.Second)
		gone.Leave()
		handle(t, odd, slow+1)
		if n := passing(fast, 1000); n < 1000 {
			t.Errorf("waits for the slow one after %d messages", n)
		}
	})
}

func TestWhereHandlersAreSlowTheAbsentHaveLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		fast, a, b := g.Join(), g.Join(), g.Join()
		for _, turn := range []*Turn{fast, a, b} {
			handle(t, turn, absent)
		}
		passing(fast, 1000)
		began := time.Now()
		handle(t, fast, 0)
		least := slowFactor * absent / 2 // the average of a handler that is quick now and one that is not
		if d := time.Since(began); d < least || d > least+2*recheck {
			t.Errorf("waited %v, want about %v", d, least)
		}
	})
}

// BenchmarkTurn is what the gate adds to each message of a partition that need
// not wait.
func BenchmarkTurn(b *testing.B) {
	var g Gate
	turn := g.Join()
	ctx := b.Context()
	for b.Loop() {
		at, err := turn.Wait(ctx, nil)
		if err != nil {
			b.Fatal(err)
		}
		turn.Done(at, 1)
	}
}

// TestABacklogIsWorkedOffBesideAFlow: messages of the other partition arrive one by one,
// and the one with the backlog must be faster than those arrive.
func TestABacklogIsWorkedOffBesideAFlow(t *testing.T) {
	for name, flow := range map[string]struct{ every, takes time.Duration }{
		"quick handlers": {10 * time.Millisecond, 10 * time.Microsecond},
		"fast arrivals":  {time.Millisecond, 10 * time.Microsecond},
		"slow handlers":  {40 * time.Millisecond, 20 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			var g Gate
			backlogged, flowing := g.Join(), g.Join()
			end := time.Now().Add(time.Second)
			serve := func(turn *Turn, batch int, rest time.Duration, n *int) {
				for time.Now().Before(end) {
					turn.Bring(batch)
					for range batch {
						at, _ := turn.Wait(t.Context(), nil)
						time.Sleep(flow.takes)
						turn.Done(at, 1)
						*n++
					}
					time.Sleep(rest)
				}
			}
			var fast, slow int
			batch := 1
			if flow.takes < time.Millisecond {
				batch = 16
			}
			var wg sync.WaitGroup
			wg.Go(func() { serve(backlogged, batch, 0, &fast) })
			wg.Go(func() { serve(flowing, 1, flow.every-flow.takes, &slow) })
			wg.Wait()
			if least := 9 * int(time.Second/flow.takes) / 10; fast < least {
				t.Errorf("%s: %d of a backlog were handled while %d arrived elsewhere, want %d", name, fast, slow, least)
			}
		})
	}
}
