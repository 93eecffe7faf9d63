package rota_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// One partition's life as told by events: in this order, and the reader's loop
// ends with Run.
func TestEventsAreInOrderAndEndWithRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		m, leave := g.start("c1", nil)
		events := m.Events(context.Background())
		pass(time.Second)
		began := time.Now()
		if err := leave(); err != nil {
			t.Error(err)
		}
		var kinds []string
		var last time.Time
		for e := range events {
			kinds = append(kinds, string(e.Kind))
			if e.Time.Before(last) {
				t.Errorf("%s comes before what came before it", e.Kind)
			}
			last = e.Time
			if e.Member != "c1" || len(e.Session) != 16 {
				t.Errorf("%s is told of %q, session %q", e.Kind, e.Member, e.Session)
			}
			if p := slices.Contains([]rota.EventKind{rota.EventGrant, rota.EventStarting, rota.EventStart, rota.EventStop, rota.EventStopped}, e.Kind); p != (e.Partition == "q0" && e.Token != 0) {
				t.Errorf("%s is about %q@%d", e.Kind, e.Partition, e.Token)
			}
		}
		if got := strings.Join(kinds, " "); got != "joined leader plan grant starting start leaving stop stopped left" {
			t.Errorf("told: %s", got)
		}
		if last.Before(began) {
			t.Error("the end was not told")
		}
		n := 0
		for range m.Events(context.Background()) {
			n++
		}
		if n != 0 {
			t.Errorf("%d events after the end", n)
		}
	})
}

func TestEventsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		m, leave := g.start("c1", nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for range m.Events(ctx) {
		}
		if ctx.Err() == nil {
			t.Error("Events ended before its context")
		}
		leave()
	})
}

// A slow reader learns how many events it missed, blocks nobody, and gets the newest
// events without a gap.
func TestSlowReaderIsToldWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		m, leave := g.start("c1", func(c *rota.Config) {
			c.Source = &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
				deliver(ctx, rota.Message{})
				own.Settle(func() error { return nil }) // progress, so that it is not given up
				return errors.New("broken")             // told as a condition
			}}
		})
		quick, slow := m.Events(context.Background()), m.Events(context.Background())
		all := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e := range quick {
				if e.Kind == rota.EventMissed {
					t.Error("the quick reader missed something")
				}
				all++
			}
		}()
		pass(3 * time.Minute)
		if err := leave(); err != nil {
			t.Error(err)
		}
		<-done
		got, missed := 0, 0
		for e := range slow {
			if e.Kind != rota.EventMissed {
				got++
				continue
			}
			missed += e.N
			if got != 0 {
				t.Errorf("missed %d after %d events: the reader was asleep at first, not later", e.N, got)
			}
			if e.Member != "c1" || e.Time.IsZero() {
				t.Errorf("missed by %q at %v", e.Member, e.Time)
			}
		}
		if got+missed != all || missed == 0 || got < 1000 {
			t.Errorf("%d events: the slow reader got %d and missed %d", all, got, missed)
		}
	})
}
