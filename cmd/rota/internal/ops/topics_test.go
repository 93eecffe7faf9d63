package ops

import (
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

func withTopics() *rota.Status {
	return &rota.Status{Phase: rota.Sentinel,
		Partitions: []rota.PartitionInfo{
			{Name: "a.0", Topic: "a", State: rota.PartitionOwned, Meta: rota.Meta{"win": "1"}}, {Name: "a.1", Topic: "a", State: rota.PartitionOwned, Meta: rota.Meta{}},
			{Name: "b.0", Topic: "b\x1b", State: rota.PartitionOwned}, {Name: "old.0", Topic: "old", Reason: rota.ReasonRemoved}, {Name: "x", State: rota.PartitionOwned}},
		Orders: rota.OrdersInfo{Topics: map[string]rota.Meta{"a": {"win": "1", "team": "x"}, "gone": {"k": "v"}}}}
}

func TestTopicsAreListed(t *testing.T) {
	var out strings.Builder
	if err := printTopics(&out, withTopics()); err != nil {
		t.Fatal(err)
	}
	want := []string{"TOPIC PARTITIONS META", `"b\x1b" 1`, "a 2 team=x win=1", "gone 0 k=v"}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if got := strings.Join(strings.Fields(line), " "); i >= len(want) || got != want[i] {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
	out.Reset()
	if err := printPartitions(&out, withTopics(), time.Now(), true); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "TOPIC") || !strings.Contains(text, "win=1") || strings.Contains(text, "\x1b") {
		t.Errorf("the partitions are shown as\n%s", text)
	}
}

// An order for a topic is refused where it is given: of an unknown topic, of a key that is
// rota's own, and of more than fits into the metadata of one of its partitions.
func TestAnOrderForATopicIsChecked(t *testing.T) {
	check := settable(knownTopic)
	for args, says := range map[string]string{
		"a win=1": "", "gone k=": "", "c win=1": `"c"`, "old win=1": `"old"`, "a rota.replay=1": "rota's own",
	} {
		err := check(withTopics(), strings.Fields(args))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", args, err, says)
		}
	}
	ctx, store, long := t.Context(), rotatest.NewMemStore(), strings.Repeat("x", 3000)
	b, err := record.Encode(&record.Roster{Ver: 1, Entries: []record.Partition{{Name: "a.0", Topic: "a", Meta: []record.Pair{{Key: "from", Value: long}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"g/roster", "g/plan"} { // of the plan it matters only that there is one
		if _, err := store.Put(ctx, key, b, 0); err != nil {
			t.Fatal(err)
		}
	}
	_, err = applyOrder(ctx, store, "g", rota.Order{Do: "set-topic", Args: []string{"a", "note=" + long}, What: "topics set"})
	if err == nil || !strings.Contains(err.Error(), `metadata of "a.0", from its source, for its topic and for itself: 6008 bytes of keys and values, more than 4096`) {
		t.Errorf("refused with: %v", err)
	}
	if _, err := applyOrder(ctx, store, "g", rota.Order{Do: "set-topic", Args: []string{"b", "note=" + long}, What: "topics set"}); err != nil {
		t.Errorf("for another topic: %v", err)
	}
}
