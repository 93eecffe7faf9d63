package rota_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A tombstones store shows deletions where only what is there belongs: in the first
// batch of a watch, and in place of ErrNotFound.
type tombstones struct{ *rotatest.MemStore }

func (s tombstones) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		first := true
		for batch, err := range s.MemStore.Watch(ctx, prefix) {
			if first && err == nil && prefix == "test/member/" {
				batch = append([]rota.Entry{{Key: "test/member/00000000000000ff", Rev: 1, Deleted: true}}, batch...)
			}
			first = false
			if !yield(batch, err) {
				return
			}
		}
	}
}

func (s tombstones) Get(ctx context.Context, key string) (rota.Entry, error) {
	e, err := s.MemStore.Get(ctx, key)
	if err != nil {
		return rota.Entry{Key: key, Rev: 1, Deleted: true}, nil
	}
	return e, nil
}

// A driver that lists deleted records as such is wrong, and costs nobody the process.
func TestADeletionInAListIsNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		odd := func(c *rota.Config) { c.Store = tombstones{g.store} }
		m1, leave1 := g.start("c1", odd)
		_, leave2 := g.start("c2", odd)
		pass(time.Minute)
		if st := m1.Status(); len(st.Members) != 2 || len(st.Waits) != 0 || st.Phase != rota.Sentinel {
			t.Errorf("%+v", st)
		}
		if err := leave2(); err != nil {
			t.Error(err)
		}
		if err := leave1(); err != nil {
			t.Error(err)
		}
		g.wg.Wait()
	})
}
