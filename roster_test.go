package rota_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// rich is a source whose partitions have much metadata.
type rich struct {
	*rotatest.MemSource
	meta string
}

func (r rich) Partitions(ctx context.Context) ([]rota.Partition, error) {
	list, err := r.MemSource.Partitions(ctx)
	for i := range list {
		list[i].Meta = rota.Meta{"from": r.meta}
	}
	return list, err
}

// TestARosterThatCannotBeWrittenStopsNothing lets source and orders ask for more than
// a record can hold, although each of them fits. Arrivals and deaths still lead to
// plans, and the problem is reported as a condition.
func TestARosterThatCannotBeWrittenStopsNothing(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions int
		meta       int
		orders     func(o *record.Orders)
		reported   string
	}{
		{"metadata of one partition", 4, 3000, func(o *record.Orders) {
			o.Meta = []record.Meta{{Partition: "q0", Pairs: []record.Pair{{Key: "note", Value: strings.Repeat("x", 3000)}}}}
		}, "q0 its metadata by order"},
		{"all together", 190, 3900, func(o *record.Orders) {
			for i := range 30 {
				name := fmt.Sprintf("r%02d", i)
				o.Add = append(o.Add, name)
				o.Meta = append(o.Meta, record.Meta{Partition: name, Pairs: []record.Pair{{Key: "note", Value: strings.Repeat("x", 3900)}}})
			}
		}, "more than the 786432 a record may have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t, c.partitions)
				source := func(cfg *rota.Config) { cfg.Source = rich{g.src, strings.Repeat("m", c.meta)} }
				m1, leave1 := g.start("c1", source)
				var reported []string
				events := m1.Events(context.Background())
				g.wg.Go(func() {
					for e := range events {
						switch e.Kind {
						case rota.EventCondition:
							reported = append(reported, strings.TrimSpace(e.Partition+" "+e.Because))
						case rota.EventStoreLost:
							t.Errorf("the store is said to be lost: %s", e.Because)
						}
					}
				})
				pass(2 * time.Second)
				o := &record.Orders{Ver: 1}
				c.orders(o)
				b, err := record.Encode(o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := g.store.Put(context.Background(), "test/orders", b, 0); err != nil {
					t.Fatal(err)
				}
				pass(5 * time.Second)
				_, leave2 := g.start("c2", source)
				pass(3 * time.Second)
				owned := map[string]int{}
				for _, p := range m1.Status().Partitions {
					if p.State == rota.PartitionOwned {
						owned[p.Owner]++
					}
				}
				if len(owned) != 2 {
					t.Errorf("c2 came and the plan is %v", owned)
				}
				if err := leave2(); err != nil {
					t.Error(err)
				}
				pass(3 * time.Second)
				if err := leave1(); err != nil {
					t.Error(err)
				}
				g.wg.Wait()
				if all := strings.Join(reported, "\n"); !strings.Contains(all, c.reported) || strings.Count(all, c.reported) > 5 {
					t.Errorf("reported is, of %q:\n%s", c.reported, all)
				}
			})
		})
	}
}
