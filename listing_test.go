package rota_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// row is the index of a partition in a member's status, which is its ID, and what the
// status says of it.
func row(st rota.Status, name string) (id int, p rota.PartitionInfo) {
	id = slices.IndexFunc(st.Partitions, func(p rota.PartitionInfo) bool { return p.Name == name })
	if id >= 0 {
		p = st.Partitions[id]
	}
	return id, p
}

func listOften(c *rota.Config) { c.ListEvery = time.Second }

// TestS1_Topic_ByWholeMembers adds a partition to a broker under load, removes one and
// brings it back. The new one is consumed with the next listing; the removed one is let
// go with the third listing that lacks it; the returning one has its ID and a higher
// token, and nothing of it is lost. The others do not notice.
func TestS1_Topic_ByWholeMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		m1, leave1 := g.start("c1", listOften)
		_, leave2 := g.start("c2", listOften)
		sent := map[string]int{}
		flow := func(d time.Duration, names ...string) {
			for range d / (100 * time.Millisecond) {
				for _, n := range names {
					g.src.Publish(n, []byte("x"))
					sent[n]++
				}
				pass(100 * time.Millisecond)
			}
		}
		flow(2*time.Second, "q0", "q1", "q2", "q3")
		tokens := map[string]rota.Token{}
		for _, p := range m1.Status().Partitions {
			tokens[p.Name] = p.Token
		}

		g.src.Add("q4")
		flow(1500*time.Millisecond, "q0", "q1", "q2", "q3", "q4")
		if id, p := row(m1.Status(), "q4"); id != 4 || p.State != rota.PartitionOwned || g.src.Backlog("q4") > 0 {
			t.Errorf("a new partition after a listing: row %d, %+v, backlog %d", id, p, g.src.Backlog("q4"))
		}

		id, was := row(m1.Status(), "q1")
		g.src.Remove("q1")
		flow(1900*time.Millisecond, "q0", "q2", "q3", "q4") // two listings lack it
		if _, p := row(m1.Status(), "q1"); p.Reason == rota.ReasonRemoved {
			t.Errorf("after two listings: %+v", p)
		}
		flow(1600*time.Millisecond, "q0", "q2", "q3", "q4")
		if at, p := row(m1.Status(), "q1"); at != id || p.State != rota.PartitionFree || p.Reason != rota.ReasonRemoved || p.Token < was.Token {
			t.Errorf("after three listings: row %d, %+v", at, p)
		}

		g.src.Add("q1")
		sent["q1"] = 0
		g.mu.Lock()
		before := g.count["q1"]
		g.mu.Unlock()
		flow(2*time.Second, "q0", "q1", "q2", "q3", "q4")
		if at, p := row(m1.Status(), "q1"); at != id || p.State != rota.PartitionOwned || p.Token <= was.Token {
			t.Errorf("it came back: row %d, want %d; %+v, before that %+v", at, id, p, was)
		}
		pass(time.Second)
		g.mu.Lock()
		if n := g.count["q1"] - before; n != sent["q1"] {
			t.Errorf("%d of %d messages of the returned partition were handled", n, sent["q1"])
		}
		for _, n := range []string{"q0", "q2", "q3", "q4"} {
			if g.count[n] != sent[n] {
				t.Errorf("%s: %d of %d messages were handled", n, g.count[n], sent[n])
			}
		}
		g.mu.Unlock()
		for _, p := range m1.Status().Partitions {
			if was := tokens[p.Name]; p.Name != "q1" && was != 0 && p.Token > was+1 { // one hand-over evens the counts out
				t.Errorf("%s had token %d and has %d", p.Name, was, p.Token)
			}
		}
		leave1()
		leave2()
		g.wg.Wait()
	})
}

// A broker may have nothing yet: members wait, say so, and consume what appears. When
// everything is gone again they wait once more.
func TestAnEmptyBrokerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 0)
		reported := 0
		_, leave1 := g.start("c1", func(c *rota.Config) {
			listOften(c)
			c.Trace = func(e rota.Event) {
				if e.Condition == rota.ConditionNoPartitions {
					reported++
				}
			}
		})
		pass(time.Second)
		_, leave2 := g.start("c2", listOften)
		says := func() (out []string) {
			st, err := rota.Inspect(t.Context(), g.store, "test")
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range st.Members {
				for _, c := range m.Conditions {
					if c.Code == rota.ConditionNoPartitions {
						out = append(out, m.Name+": "+c.Text)
					}
				}
			}
			if len(st.Problems) > 0 {
				t.Errorf("an empty broker is a problem: %v", st.Problems)
			}
			return out
		}
		const text = "c1: the source lists no partition: it is asked again every 1s until there is one"
		pass(10 * time.Minute)
		if got := says(); len(got) != 1 || got[0] != text || reported != 1 {
			t.Errorf("nothing is there: %q, reported %d times", got, reported)
		}
		g.src.Add("q0", "q1")
		g.src.Publish("q0", []byte("x"))
		pass(3 * time.Second)
		if got := says(); len(got) != 0 || g.src.Backlog("q0") != 0 {
			t.Errorf("something is there: %q, backlog %d", got, g.src.Backlog("q0"))
		}
		g.src.Remove("q0", "q1")
		pass(10 * time.Second)
		if got := says(); len(got) != 1 {
			t.Errorf("everything is gone: %q", got)
		}
		if err := leave1(); err != nil { // the next leader says it, and not the last one
			t.Error(err)
		}
		pass(5 * time.Second)
		if got := says(); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "c2: ") }) {
			t.Errorf("after a new leader: %q", got)
		}
		leave2()
		g.wg.Wait()
	})
}

// A source that does not list its broker must name something, unless it says that it
// leaves something out.
func TestAnEmptyListWithAReasonIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		none := func() ([]rota.Partition, error) {
			return nil, fmt.Errorf("%w: no message yet", rota.ErrPartial)
		}
		src := &lists{Source: g.src, answers: []func() ([]rota.Partition, error){none, none, none, listing("q0")}}
		m, leave := g.start("c1", func(c *rota.Config) {
			listOften(c)
			c.Source = src
		})
		pass(2500 * time.Millisecond)
		if st := m.Status(); len(st.Partitions) != 0 {
			t.Errorf("nothing is listed yet: %+v", st.Partitions)
		}
		pass(time.Second)
		if _, p := row(m.Status(), "q0"); p.State != rota.PartitionOwned {
			t.Errorf("q0 is listed: %+v", p)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
		g.wg.Wait()
	})
}

// repeats is a source that asks its broker with every third call, and returns what it knows
// with the others.
type repeats struct {
	rota.Source
	calls atomic.Int32
	known []rota.Partition
}

func (r *repeats) Partitions(ctx context.Context) (_ []rota.Partition, err error) {
	if r.calls.Add(1)%3 == 1 {
		r.known, err = r.Source.Partitions(ctx)
	}
	return r.known, err
}

func (r *repeats) ListsAll() bool { return r.calls.Load()%3 == 1 }

// A list that a source returns again does not count as another one that lacks a partition,
// nor does it make up for the one before it. An empty one is no mistake.
func TestARepeatedListDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		src := &repeats{Source: g.src}
		m, leave := g.start("c1", func(c *rota.Config) {
			listOften(c)
			c.Source = src
		})
		pass(500 * time.Millisecond)
		g.src.Remove("q0", "q1")
		removed := func() (n int) {
			for _, p := range m.Status().Partitions {
				if p.Reason == rota.ReasonRemoved {
					n++
				}
			}
			return n
		}
		pass(8 * time.Second) // eight calls, of which two asked
		if n := removed(); n != 0 || src.calls.Load() < 8 {
			t.Errorf("after %d calls, of which two lists are new, %d partitions are removed", src.calls.Load(), n)
		}
		pass(2 * time.Second)
		if n := removed(); n != 2 {
			t.Errorf("after %d calls, of which three lists are new, %d partitions are removed, want 2", src.calls.Load(), n)
		}
		pass(5 * time.Second)
		for _, c := range m.Status().Conditions {
			if c.Code == rota.ConditionNotServed {
				t.Errorf("a list without partitions is a mistake: %s", c.Text)
			}
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
		g.wg.Wait()
	})
}

// The source is asked as often as Config.ListEvery says, by the leader alone.
func TestTheSourceIsAskedEveryListEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		asked := map[string]int{}
		tune := func(every time.Duration) func(c *rota.Config) {
			return func(c *rota.Config) {
				c.ListEvery = every
				name := c.Name
				c.Source = &lists{Source: g.src, answers: []func() ([]rota.Partition, error){func() ([]rota.Partition, error) {
					asked[name]++
					return g.src.Partitions(context.Background())
				}}}
			}
		}
		_, leave1 := g.start("c1", tune(7*time.Second))
		pass(time.Second)
		_, leave2 := g.start("c2", tune(0))
		pass(time.Minute)
		if asked["c1"] != 9 || asked["c2"] != 0 {
			t.Errorf("in a minute the members asked %v", asked)
		}
		leave1()
		pass(time.Minute + time.Second)
		if asked["c2"] != 3 {
			t.Errorf("in the next minute, with another leader, they asked %v", asked)
		}
		leave2()
		g.wg.Wait()
	})
}
