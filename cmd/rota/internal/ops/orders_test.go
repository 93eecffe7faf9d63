package ops

import (
	"strings"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// TestAnOrderThatCannotBeWrittenDownIsRefused: source and order each fit, both
// together do not. The leader would have to leave it undone, so the operator is
// told.
func TestAnOrderThatCannotBeWrittenDownIsRefused(t *testing.T) {
	ctx, store, long := t.Context(), rotatest.NewMemStore(), strings.Repeat("x", 3000)
	b, err := record.Encode(&record.Roster{Ver: 1, Entries: []record.Partition{{Name: "a", Meta: []record.Pair{{Key: "from", Value: long}}}, {Name: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"g/roster", "g/plan"} { // of the plan it matters only that there is one
		if _, err := store.Put(ctx, key, b, 0); err != nil {
			t.Fatal(err)
		}
	}
	_, err = applyOrder(ctx, store, "g", rota.Order{Do: "set", Args: []string{"a", "note=" + long}, What: "set"})
	if err == nil || !strings.Contains(err.Error(), "6008 bytes of keys and values, more than 4096") {
		t.Errorf("refused with: %v", err)
	}
	if _, err := store.Get(ctx, "g/orders"); err == nil {
		t.Error("it was ordered all the same")
	}
	if _, err := applyOrder(ctx, store, "g", rota.Order{Do: "set", Args: []string{"b", "note=" + long}, What: "set"}); err != nil {
		t.Errorf("one that fits: %v", err)
	}
}
