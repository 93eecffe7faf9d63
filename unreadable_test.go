package rota_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// TestUnreadableRecordsAreLeftOut shows that members and Inspect go on without a record
// that cannot be decoded, or that a newer rota wrote. Each version of it is reported
// once, however often it is read.
func TestUnreadableRecordsAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		m, leave := g.start("c1", nil)
		told := map[string]int{}
		events := m.Events(context.Background())
		g.wg.Go(func() {
			for e := range events {
				if e.Kind == rota.EventCondition {
					told[e.Because]++
				}
			}
		})
		pass(3 * time.Second)
		put := func(key, value string, prev rota.Rev) rota.Rev {
			rev, err := g.store.Put(t.Context(), key, []byte(value), prev)
			if err != nil {
				t.Fatal(err)
			}
			return rev
		}
		junk := put("test/member/0000000000000abc", "junk", 0)
		put("test/future", "something new", 0)
		put("test/orders", "O\x7f", 0)
		pass(2 * time.Minute)
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil || len(st.Members) != 1 || len(st.Partitions) != 2 || len(st.Conditions) != 3 {
			t.Fatalf("%v: %+v", err, st)
		}
		for i, key := range []string{"test/future", "test/member/0000000000000abc", "test/orders"} {
			if !strings.Contains(fmt.Sprint(st.Conditions), key) {
				t.Errorf("condition %d: %s is not in %v", i, key, st.Conditions)
			}
		}
		put("test/member/0000000000000abc", "other junk", junk)
		pass(time.Minute)
		if err := leave(); err != nil {
			t.Error(err)
		}
		g.wg.Wait()
		junks := 0
		for text, n := range told {
			if n > 2 {
				t.Errorf("%d times: %s", n, text)
			}
			if strings.Contains(text, "0000000000000abc") {
				junks += n
			}
		}
		if junks != 2 {
			t.Errorf("two versions of one key were told %d times", junks)
		}
	})
}
