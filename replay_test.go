package rota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// TestAReplayRunsBetweenMessages replays a letter while messages are handled, and while
// one of them fails: never are two handled at once, and metadata shows nothing of it.
func TestAReplayRunsBetweenMessages(t *testing.T) {
	for _, batch := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 1)
			running := 0
			var fixed, stuck atomic.Bool
			var seen []string
			handle := func(_ context.Context, msg rota.Message) error {
				if running++; running > 1 {
					t.Errorf("batch %v: two are handled at once", batch)
				}
				time.Sleep(10 * time.Millisecond)
				running--
				if meta, _ := msg.Ownership().Meta(); len(meta) != 0 || msg.Ownership().Check() != nil {
					t.Errorf("batch %v: metadata %v, lease %v", batch, meta, msg.Ownership().Check())
				}
				switch {
				case string(msg.Value) == "bad" && !fixed.Load():
					return fmt.Errorf("%w: no good", rota.ErrBad)
				case string(msg.Value) == "stuck" && stuck.Load():
					return errors.New("not yet")
				}
				seen = append(seen, fmt.Sprintf("%s/%d", msg.Value, msg.Attempt))
				return nil
			}
			_, leave := g.start("c1", func(c *rota.Config) {
				c.Handle = handle
				if batch {
					c.Handle, c.HandleBatch = nil, func(ctx context.Context, msgs []rota.Message) (int, error) {
						if err := handle(ctx, msgs[0]); err != nil {
							return 0, err
						}
						return 1, nil
					}
				}
			})
			g.src.Publish("q0", []byte("bad"))
			pass(5 * time.Second)
			fixed.Store(true)
			stuck.Store(true)
			g.src.Publish("q0", []byte("a"), []byte("stuck"), []byte("b"))
			pass(5 * time.Second)
			if err := rota.Replay(t.Context(), g.store, "test", "q0", "1"); err != nil {
				t.Fatal(err)
			}
			pass(5 * time.Second)
			stuck.Store(false)
			pass(15 * time.Second)
			if got := seen; len(got) != 4 || got[0] != "a/1" || got[1] != "bad/2" || !strings.HasPrefix(got[2], "stuck/") || got[3] != "b/1" {
				t.Errorf("batch %v: handled %q", batch, got)
			}
			if d := g.src.Dead(); len(d) != 0 {
				t.Errorf("batch %v: %d letters are left", batch, len(d))
			}
			st, err := rota.Inspect(t.Context(), g.store, "test")
			if err != nil || len(st.Partitions[0].Meta) != 0 {
				t.Errorf("the store shows metadata %v, %v", st.Partitions[0].Meta, err)
			}
			if err := leave(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAReplayIsOfOneGroup: two groups read one stream, and letters of both have the
// same partition. An owner does not handle what another group's handler failed at.
func TestAReplayIsOfOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		var handled []string
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = func(_ context.Context, msg rota.Message) error {
				handled = append(handled, string(msg.Value))
				return nil
			}
		})
		for _, group := range []string{"other", "test", ""} {
			l := rota.Letter{Message: rota.Message{Partition: "q0", ID: "m", Value: []byte(group)}, Group: group, Reason: "no good"}
			if err := g.src.RenewLetter(t.Context(), l); err != nil && !errors.Is(err, rota.ErrNotFound) {
				t.Fatal(err)
			}
		}
		pass(5 * time.Second)
		if err := rota.Replay(t.Context(), g.store, "test", "q0", "1", "2", "3"); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		if want := []string{"test", ""}; !slices.Equal(handled, want) {
			t.Errorf("handled %q, want %q", handled, want)
		}
		if d := g.src.Dead(); len(d) != 1 || string(d[0].Value) != "other" {
			t.Errorf("letters left are %+v, want that of the other group", d)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}

// TestAStopWaitsForAReplay: the letter in hand is finished, and no other is begun.
func TestAStopWaitsForAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		var handled atomic.Int32
		var fixed atomic.Bool
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = func(context.Context, rota.Message) error {
				if !fixed.Load() {
					return rota.ErrBad
				}
				time.Sleep(time.Second)
				handled.Add(1)
				return nil
			}
		})
		g.src.Publish("q0", []byte("a"), []byte("b"), []byte("c"))
		pass(5 * time.Second)
		fixed.Store(true)
		if err := rota.Replay(t.Context(), g.store, "test", "q0", "1", "2", "3"); err != nil {
			t.Fatal(err)
		}
		for handled.Load() == 0 {
			pass(100 * time.Millisecond)
		}
		pass(500 * time.Millisecond)
		if err := leave(); err != nil {
			t.Error(err)
		}
		if left := len(g.src.Dead()); handled.Load() != 2 || left != 1 {
			t.Errorf("%d letters were handled and %d are left, want the second to be finished and the third to be left", handled.Load(), left)
		}
	})
}

// TestReservedMetadataIsRotas: neither a source nor an order can be mistaken for it.
func TestReservedMetadataIsRotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		told := ""
		src := &lists{Source: g.src, answers: []func() ([]rota.Partition, error){func() ([]rota.Partition, error) {
			return []rota.Partition{{Name: "q0", Meta: rota.Meta{"rota.replay": "1", "region": "eu"}}}, nil
		}}}
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Source = src
			c.Trace = func(e rota.Event) {
				if e.Condition == rota.ConditionNotServed {
					told = string(e.Condition)
				}
			}
		})
		pass(5 * time.Second)
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil || len(st.Partitions) != 1 || len(st.Partitions[0].Meta) != 1 || st.Partitions[0].Meta["region"] != "eu" || told == "" {
			t.Errorf("partitions %v, told %q, %v", st.Partitions, told, err)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
	for _, bad := range []string{"", "a b", "a\n", strings.Repeat("x", 65), "ü"} {
		if err := rota.Replay(t.Context(), nil, "test", "q0", bad); err == nil || !strings.Contains(err.Error(), "not the ID") {
			t.Errorf("ID %q: %v", bad, err)
		}
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint(i))
	}
	if err := rota.Replay(t.Context(), nil, "test", "q0", many...); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("1000 IDs: %v", err)
	}
}

// TestAReplayIsOneAtATimeWithMessages replays a letter while a backlog is worked off.
func TestAReplayIsOneAtATimeWithMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		running := 0
		var fixed atomic.Bool
		var seen []string
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = func(_ context.Context, msg rota.Message) error {
				if string(msg.Value) == "bad" && !fixed.Load() {
					return rota.ErrBad
				}
				if running++; running > 1 {
					t.Errorf("%s is handled beside another", msg.Value)
				}
				time.Sleep(100 * time.Millisecond)
				running--
				seen = append(seen, string(msg.Value))
				return nil
			}
		})
		g.src.Publish("q0", []byte("bad"))
		pass(5 * time.Second)
		fixed.Store(true)
		for range 100 {
			g.src.Publish("q0", []byte("m"))
		}
		pass(time.Second)
		if err := rota.Replay(t.Context(), g.store, "test", "q0", "1"); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		if at := slices.Index(seen, "bad"); len(seen) != 101 || at < 5 || at > 50 {
			t.Errorf("%d were handled, the letter as number %d", len(seen), at+1)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}
