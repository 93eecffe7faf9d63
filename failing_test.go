package rota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// A broker refuses every partition to everybody, for one reason, in words that name the
// partition. Nothing wanders: there is the plan for the members and one that tries
// somebody else, and then only tries after growing pauses. The reason is reported with a
// count, not once for each partition and try.
func TestFailingSourcesDoNotWander(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions = 40
		names := make([]string, partitions)
		for i := range names {
			names[i] = fmt.Sprintf("q%d", i)
		}
		g := newGroup(t, 1)
		note := func(f func()) {
			g.mu.Lock()
			defer g.mu.Unlock()
			f()
		}
		refuses, works := true, 0
		var told []rota.Event
		var leave []func() error
		for _, name := range []string{"c1", "c2", "c3"} {
			_, end := g.start(name, func(c *rota.Config) {
				c.Handle = nil
				c.Source = rota.Func(names, func(ctx context.Context, o rota.Ownership) error {
					var refused bool
					if note(func() { works++; refused = refuses }); refused {
						return errors.New("create a consumer of " + o.Partition() + ": no room")
					}
					select {
					case <-o.Stop():
					case <-ctx.Done():
					}
					return nil
				})
				c.Trace = func(e rota.Event) { note(func() { told = append(told, e) }) }
			})
			leave = append(leave, end)
		}
		pass(10 * time.Minute)
		count := func(of func(rota.Event) bool) (n int) {
			note(func() { n = len(slices.DeleteFunc(slices.Clone(told), func(e rota.Event) bool { return !of(e) })) })
			return n
		}
		if n := count(func(e rota.Event) bool { return e.Kind == rota.EventPlan }); n > 4 {
			t.Errorf("%d plans for sources that fail everywhere", n)
		}
		if n := count(func(e rota.Event) bool { return e.Condition == rota.ConditionSourceFailed }); n == 0 || n > 3*8 {
			t.Errorf("the reason was reported %d times by 3 members in 10 minutes", n)
		}
		// Ten minutes have 75 pauses of 8 s, and a grant is tried 5 times.
		if most := partitions * 5 * 80; works > most {
			t.Errorf("%d calls, want at most %d", works, most)
		}
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, m := range st.Members {
			for _, c := range m.Conditions {
				said = append(said, c.String())
			}
		}
		if len(said) == 0 || slices.ContainsFunc(said, func(s string) bool {
			return !strings.Contains(s, "partitions, such as q") || !strings.HasSuffix(s, "its function failed: create a consumer of it: no room")
		}) {
			t.Errorf("conditions: %q", said)
		}
		note(func() { refuses = false })
		pass(2 * time.Minute)
		st, _ = rota.Inspect(t.Context(), g.store, "test")
		for _, p := range st.Partitions {
			if p.State != rota.PartitionOwned {
				t.Errorf("%s is %s, although its source works again", p.Name, p.State)
			}
		}
		for _, end := range leave {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
}
