package rotanats_test

import (
	"errors"
	"testing"

	"github.com/rota-dev/rota"
)

// TestAnEmptyStreamIsWaitedFor lists the partitions of a stream that has no message yet:
// rota waits for one. Its stream is the topic of a partition.
func TestAnEmptyStreamIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	src := b.discovering("")
	list, err := src.Partitions(t.Context())
	if len(list) != 0 || !errors.Is(err, rota.ErrPartial) {
		t.Errorf("an empty stream: %v, %v", list, err)
	}
	b.raw(b.stream + ".in.a")
	list, err = src.Partitions(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != b.stream+".in.a" || list[0].Topic != b.stream {
		t.Errorf("a stream with a message: %v, %v", list, err)
	}
	if numbered, err := b.Source().Partitions(t.Context()); err != nil || len(numbered) == 0 || numbered[0].Topic != b.stream {
		t.Errorf("numbered partitions: %v, %v", numbered, err)
	}
}
