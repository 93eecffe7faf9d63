package rotarabbit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/rotatest"
)

// TestPrepareOpensAChannel checks that a queue which is to be consumed soon has a channel by then,
// and that its owner uses it, also if the queue was deleted and made again meanwhile.
func TestPrepareOpensAChannel(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		for _, anew := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, ", made again: ", anew), func(t *testing.T) {
				t.Parallel()
				b := newBroker(t, rabbit.Server(t), kind)
				queue, src := b.names[0], b.Source()
				prepare := func() error { return src.(rota.Preparer).Prepare(t.Context(), rota.Partition{Name: queue}) }
				if err := errors.Join(src.(rota.Binder).Bind("g"), prepare(), prepare()); err != nil {
					t.Fatal(err)
				}
				if !rotarabbit.Early(src, queue) {
					t.Fatal("there is no channel for the owner to come")
				}
				if anew {
					if err := errors.Join(b.Delete(queue), b.Create(queue)); err != nil {
						t.Fatal(err)
					}
				}
				if err := b.Publish(queue, []byte("1")); err != nil {
					t.Fatal(err)
				}
				m := joinGroup(t, "g", rotatest.NewMemStore(), src)
				eventually(t, "it is handled", func() error {
					m.mu.Lock()
					defer m.mu.Unlock()
					if m.handled[queue] == 0 {
						return fmt.Errorf("%v", m.conditions)
					}
					return nil
				})
				if rotarabbit.Early(src, queue) {
					t.Error("the channel was not used")
				}
			})
		}
	}
}
