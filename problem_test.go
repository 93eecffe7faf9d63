package rota_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// observe is Observe, with the time it took.
func observe(t *testing.T, store rota.Store) (st rota.Status, took time.Duration) {
	t.Helper()
	began := time.Now()
	st, err := rota.Observe(t.Context(), store, "test")
	if err != nil {
		t.Fatal(err)
	}
	return st, time.Since(began)
}

// problems is what an observer finds wrong, without the sentences.
func problems(st rota.Status) string {
	var out []string
	for _, p := range st.Problems {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Code, p.Member, strings.Join(p.Partitions, ","))))
	}
	return strings.Join(out, "; ")
}

func TestAWellGroupHasNoProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		_, leave1 := g.start("c1", nil)
		_, leave2 := g.start("c2", nil)
		time.Sleep(10 * time.Second)
		for range 20 { // at every phase of a heartbeat
			if st, took := observe(t, g.store); problems(st) != "" || st.Phase != rota.Sentinel || took > 0 {
				t.Errorf("%s, %s, found out in %v", problems(st), st.Phase, took)
			}
			time.Sleep(170 * time.Millisecond)
		}
		leave1()
		leave2()
		g.wg.Wait()
		st, took := observe(t, g.store)
		if problems(st) != "no-member c2" && problems(st) != "no-member c1" || st.Phase != rota.Vacant || took > 0 {
			t.Errorf("after all have left: %q, %s, found out in %v", problems(st), st.Phase, took)
		}
	})
}

// A member that is cut off stays LIVE in its record. An observer that looks for one and
// a half heartbeats knows better.
func TestSilenceIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		cut := rotatest.Faulty(g.store, 1)
		_, leave := g.start("c1", func(c *rota.Config) { c.Store, c.Orphan = cut, time.Hour })
		time.Sleep(10 * time.Second)
		cut.Cut()
		time.Sleep(4 * time.Second)
		st, took := observe(t, g.store)
		if problems(st) != "silent c1" || !st.Members[0].Silent || took < time.Second || took > 4*time.Second {
			t.Errorf("cut off: %q, found out in %v", problems(st), took)
		}
		// Others put it right: that is no problem.
		_, leave2 := g.start("c2", nil)
		time.Sleep(time.Second)
		if st, _ := observe(t, g.store); strings.Contains(problems(st), "c2") {
			t.Errorf("with another member: %q", problems(st))
		}
		time.Sleep(15 * time.Second)
		if st, took := observe(t, g.store); problems(st) != "" || took > 0 {
			t.Errorf("after the other has taken over: %q, found out in %v", problems(st), took)
		}
		cut.Heal()
		leave()
		leave2()
		g.wg.Wait()
	})
}

// skewed shows the members' heartbeats as their clocks would date them.
type skewed struct {
	rota.Store
	by time.Duration
}

func (s skewed) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		for batch, err := range s.Store.Watch(ctx, prefix) {
			for i := range batch {
				if m, bad := record.DecodeMember(batch[i].Value); bad == nil && strings.Contains(batch[i].Key, "/member/") {
					m.Sent += s.by.Milliseconds()
					batch[i].Value, _ = record.Encode(m)
				}
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// The clocks of other machines prove nothing, neither that a member is silent nor that
// it is not.
func TestClocksOfOthersProveNothing(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 2)
			cut := rotatest.Faulty(g.store, 1)
			_, leave := g.start("c1", func(c *rota.Config) { c.Store, c.Orphan = cut, time.Hour })
			time.Sleep(10 * time.Second)
			if st, took := observe(t, skewed{g.store, by}); problems(st) != "" || took > 3*time.Second {
				t.Errorf("%v off: %q, found out in %v", by, problems(st), took)
			}
			cut.Cut()
			time.Sleep(10 * time.Second)
			if st, took := observe(t, skewed{g.store, by}); problems(st) != "silent c1" {
				t.Errorf("%v off and cut off: %q, found out in %v", by, problems(st), took)
			}
			cut.Heal()
			leave()
			g.wg.Wait()
		})
	}
}

func order(t *testing.T, store rota.Store, words ...string) {
	t.Helper()
	o := &record.Orders{Ver: 1}
	if _, err := o.Give(words[0], words[1:]...); err != nil {
		t.Fatal(err)
	}
	b, err := record.Encode(o)
	if err == nil {
		_, err = store.Put(t.Context(), "test/orders", b, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAllDrainedIsAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		_, leave := g.start("c1", nil)
		time.Sleep(time.Second)
		order(t, g.store, "drain", "c1")
		time.Sleep(10 * time.Second)
		st, _ := observe(t, g.store)
		if problems(st) != "unplaced  q0,q1" || !strings.Contains(st.Problems[0].Text, "every member is drained") {
			t.Errorf("%q: %v", problems(st), st.Problems)
		}
		leave()
		g.wg.Wait()
	})
}

// A source that fails is a problem while its partition does not run, not for as long as
// the condition is shown.
func TestAFailedSourceIsAProblemUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		src := &troubled{MemSource: g.src}
		_, leave := g.start("c1", func(c *rota.Config) { c.Source = src })
		time.Sleep(10 * time.Second)
		src.err.Store(&errGone)
		for i := 0; ; i++ {
			st, _ := observe(t, g.store)
			if strings.Contains(problems(st), "source-failed c1 q0") {
				break
			}
			if i == 100 {
				t.Fatalf("the problems are %q", problems(st))
			}
			time.Sleep(time.Second)
		}
		src.err.Store(nil)
		time.Sleep(20 * time.Second)
		st, _ := observe(t, g.store)
		if got, _ := codes(t, g.store, "c1"); problems(st) != "" || len(got) == 0 {
			t.Errorf("it works: %q, with the conditions %v", problems(st), got)
		}
		leave()
		g.wg.Wait()
	})
}
