package rota_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// Orders of a program are those of the command: obeyed, logged, refused if they
// contradict each other, and none is lost when many are given at once.
func TestOrdersAreGivenFromGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 8)
		slow := rotatest.Faulty(g.store, 1) // so that orders meet, and conflict
		slow.Delay(20 * time.Millisecond)
		give := func(do string, args ...string) error {
			_, _, err := rota.Give(t.Context(), slow, "test", rota.Order{Do: do, Args: args, Who: "me", Why: "because"})
			return err
		}
		if err := give("pause", "q0"); !errors.Is(err, rota.ErrNotFound) {
			t.Errorf("an order for a group that is not there: %v", err)
		}
		_, leave := g.start("c1", nil)
		time.Sleep(time.Second)
		var all sync.WaitGroup
		for _, q := range rotatest.Names(8) {
			all.Go(func() {
				if err := give("pause", q); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := errors.Join(give("resume", rotatest.Names(7)...), give("ban", "q1", "c9")); err != nil {
			t.Error(err)
		}
		for what, err := range map[string]error{
			`unknown order "dance"`:          give("dance"),
			"pin takes a partition":          give("pin", "q1"),
			"q1 is kept away from c9":        give("pin", "q1", "c9"),
			"bytes of keys and values, more": give("set", "q1", "k="+strings.Repeat("x", 5000)),
		} {
			if !errors.Is(err, rota.ErrOrder) || !strings.Contains(err.Error(), what) {
				t.Errorf("want ErrOrder with %q, got %v", what, err)
			}
		}
		for _, verb := range []string{"pin", "ban", "set", "release", ""} { // without what it is about
			if err := give(verb); !errors.Is(err, rota.ErrOrder) {
				t.Errorf("want ErrOrder of %q alone, got %v", verb, err)
			}
		}
		ver, changed, err := rota.Give(t.Context(), g.store, "test", rota.Order{Do: "pause", Args: []string{"q7"}})
		if err != nil || changed || ver != 10 {
			t.Errorf("an order that is in effect: version %d, changed %v, %v", ver, changed, err)
		}
		time.Sleep(time.Second)
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil || st.Orders.Obeyed != ver || !slices.Equal(st.Orders.Paused, []string{"q7"}) || st.Partitions[7].Reason != rota.ReasonPaused || len(st.Orders.Log) != 10 {
			t.Fatalf("%v, %+v", err, st.Orders)
		}
		if last := st.Orders.Log[9]; last.Who != "me" || last.What != "ban q1 c9" || last.Why != "because" {
			t.Errorf("the last order is %+v", last)
		}
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
}
