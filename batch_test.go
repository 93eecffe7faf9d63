package rota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

func TestBatchesGoOnBehindWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		for i := range 6 {
			g.src.Publish("q0", []byte(fmt.Sprint(i)))
		}
		var got []string
		began := time.Now()
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Attempts = 2
			c.HandleBatch = func(ctx context.Context, msgs []rota.Message) (int, error) {
				text := fmt.Sprintf("%v", time.Since(began).Round(100*time.Millisecond))
				for _, m := range msgs {
					text += fmt.Sprintf(" %s/%d", m.Value, m.Attempt)
				}
				got = append(got, text)
				switch string(msgs[0].Value) {
				case "0":
					return 2, nil // it wants the rest in another call
				case "2":
					if msgs[0].Attempt == 1 {
						return 0, errors.New("not yet")
					}
					return 1, errors.New("nor the next")
				case "3":
					return 0, errors.New("never")
				case "4":
					return -7, nil // nonsense counts as nothing
				}
				return 99, nil // nonsense counts as all
			}
			c.Handle = nil
		})
		pass(5 * time.Second)
		if err := leave(); err != nil {
			t.Error(err)
		}
		want := []string{
			"100ms 0/1 1/1 2/1 3/1 4/1 5/1",
			"100ms 2/1 3/1 4/1 5/1",
			"200ms 2/2 3/1 4/1 5/1",
			"300ms 3/2 4/1 5/1", // the failure of a call is that of the first not done
			"300ms 4/1 5/1",     // 3 is dead
			"400ms 4/2 5/1",
			"400ms 5/1", // 4 is dead
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		dead := g.src.Dead()
		if len(dead) != 2 || string(dead[0].Value) != "3" || string(dead[1].Value) != "4" || g.src.Backlog("q0") != 0 {
			t.Errorf("dead: %v, backlog %d", dead, g.src.Backlog("q0"))
		}
	})
}

// Parallel messages really are at work at once, no more than asked for, and what
// deliver returns is a prefix: 0 1 2 are done, 3 is dead, and what was done
// behind it is done again.
func TestParallelReturnsAPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		for i := range 12 {
			g.src.Publish("q0", []byte(fmt.Sprint(i)))
		}
		var mu sync.Mutex
		now, most := 0, 0
		done := map[string]int{}
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Parallel, c.Attempts = 4, 3
			c.Source = &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
				own.Started()
				msgs := make([]rota.Message, 12)
				for i := range msgs {
					msgs[i].Value = []byte(fmt.Sprint(i))
				}
				if n, err := deliver(ctx, msgs...); n != 3 || !errors.Is(err, rota.ErrDead) || !strings.Contains(err.Error(), "3 is bad") {
					t.Errorf("deliver returned %d, %v, want 3 and that 3 is dead", n, err)
				}
				if n, err := deliver(ctx, msgs[4:]...); n != 8 || err != nil {
					t.Errorf("behind it: %d, %v", n, err)
				}
				<-own.Stop()
				return nil
			}}
			c.Handle = func(ctx context.Context, msg rota.Message) error {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(50 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				now--
				if string(msg.Value) == "3" {
					return errors.New("3 is bad")
				}
				done[string(msg.Value)]++
				return nil
			}
		})
		pass(5 * time.Second)
		if err := leave(); err != nil {
			t.Error(err)
		}
		if most != 4 {
			t.Errorf("%d were at work at once, want 4", most)
		}
		for i := range 12 {
			n := done[fmt.Sprint(i)]
			if i < 3 && n != 1 || i == 3 && n != 0 || i > 3 && n < 1 {
				t.Errorf("message %d was done %d times", i, n)
			}
		}
	})
}

// Nothing more is begun once one of several messages failed for good.
func TestParallelBeginsNothingBehindAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		var mu sync.Mutex
		begun := 0
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Parallel, c.Attempts = 2, 1
			c.Source = &source{MemSource: g.src, consume: func(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
				own.Started()
				if n, err := deliver(ctx, make([]rota.Message, 100)...); n != 0 || !errors.Is(err, rota.ErrDead) {
					t.Errorf("deliver returned %d, %v", n, err)
				}
				<-own.Stop()
				return nil
			}}
			c.Handle = func(context.Context, rota.Message) error {
				mu.Lock()
				defer mu.Unlock()
				begun++
				return errors.New("bad")
			}
		})
		pass(time.Second)
		if err := leave(); err != nil {
			t.Error(err)
		}
		if begun > 3 {
			t.Errorf("%d messages were begun", begun)
		}
	})
}

// Quick messages enter together, and each asks the lease all the same: the machine sleeps
// while one of them is handled, and no clock but the lease's has gone on.
func TestQuickMessagesAskTheLeaseOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		for i := range 6 {
			g.src.Publish("q0", []byte(fmt.Sprint(i)))
		}
		var clock drowsy
		g.prepare = func(m *rota.Member) { m.Inexact(clock.apart) }
		var got []string
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = func(_ context.Context, msg rota.Message) error {
				own := msg.Ownership()
				if err := own.Check(); err != nil {
					t.Errorf("message %s is handled: %v", msg.Value, err)
				}
				if got = append(got, string(msg.Value)); len(got) == 3 {
					clock.sleep(time.Minute)
				}
				return nil
			}
		})
		pass(20 * time.Second)
		if err := leave(); err != nil {
			t.Error(err)
		}
		if slices.Sort(got); !slices.Equal(slices.Compact(got), []string{"0", "1", "2", "3", "4", "5"}) {
			t.Errorf("handled %q", got)
		}
	})
}
