package ops

import (
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// TestAnOrderThatCannotBeWrittenDownIsRefused: source and order each fit, both
// together do not. The leader would have to leave it undone, so whoever orders it
// is told.
func TestAnOrderThatCannotBeWrittenDownIsRefused(t *testing.T) {
	ctx, store, long := t.Context(), rotatest.NewMemStore(), strings.Repeat("x", 3000)
	b, err := record.Encode(&record.Roster{Ver: 1, Entries: []record.Partition{{Name: "a", Meta: []record.Pair{{Key: "from", Value: long}}}, {Name: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(ctx, "g/roster", b, 0); err != nil {
		t.Fatal(err)
	}
	err = applyOrder(ctx, store, "g", "set", []string{"a", "note=" + long}, record.Order{What: "set"})
	if err == nil || !strings.Contains(err.Error(), "6008 bytes of keys and values, more than 4096") {
		t.Errorf("refused with: %v", err)
	}
	if _, err := store.Get(ctx, "g/orders"); err == nil {
		t.Error("it was ordered all the same")
	}
	if err := applyOrder(ctx, store, "g", "set", []string{"b", "note=" + long}, record.Order{What: "set"}); err != nil {
		t.Errorf("one that fits: %v", err)
	}
}
