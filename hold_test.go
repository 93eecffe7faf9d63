package rota_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// codes are the codes of the conditions that a member's record has.
func codes(t *testing.T, store rota.Store, member string) (out []rota.Condition, texts string) {
	t.Helper()
	st, err := rota.Inspect(t.Context(), store, "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range st.Members {
		for _, c := range m.Conditions {
			if m.Name == member {
				out, texts = append(out, c.Code), texts+c.Text
			}
		}
	}
	return out, texts
}

// A new group in a store that may be an emptied one says that it waits when the wait
// begins, how long it takes, how much of that remains, and nothing once it is over.
func TestHoldIsReportedWhenItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		m, leave := g.start("c1", func(c *rota.Config) { c.NewGroup = false })
		began := time.Now()
		var held, over time.Duration
		go func() {
			for e := range m.Events(t.Context()) {
				switch e.Condition {
				case rota.ConditionHold:
					held = time.Since(began)
					if !strings.Contains(e.Because, "new group") || !strings.Contains(e.Because, "5.2 s") {
						t.Errorf("the event says %q", e.Because)
					}
				case rota.ConditionHoldOver:
					over = time.Since(began)
				}
			}
		}()
		time.Sleep(3 * time.Second)
		if got, text := codes(t, g.store, "c1"); fmt.Sprint(got) != "[hold]" || !strings.Contains(text, "another 3.") {
			t.Errorf("after 3 s of waiting the conditions are %v: %s", got, text)
		}
		synctest.Wait()
		if held == 0 || held > time.Second {
			t.Errorf("the hold was reported after %v", held)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if st := m.Status(); over < 5*time.Second || st.Hold || counts(st) != "map[c1:2]" {
			t.Errorf("the hold was over after %v; %s", over, counts(st))
		}
		time.Sleep(2 * time.Second)
		if got, text := codes(t, g.store, "c1"); len(got) != 0 {
			t.Errorf("after the hold the conditions are %v: %s", got, text)
		}
		leave()
		g.wg.Wait()
	})
}
