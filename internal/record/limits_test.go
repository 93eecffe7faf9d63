package record

import (
	"strings"
	"testing"
	"time"
)

// TestEveryRecordFits: with as many partitions as a roster may name, every record
// fits into a store's value, whatever happens to the partitions.
func TestEveryRecordFits(t *testing.T) {
	plan := &Plan{Incarnation: 1 << 31, Gen: 1 << 40, Write: 1, Decided: 1, Server: strings.Repeat("s", maxIdentity), Term: 1, Leader: 1, ID: 1 << 40, Roster: 1 << 60, Orders: 1 << 60}
	for i := range 2000 {
		plan.Members = append(plan.Members, Session(i+1)<<32)
	}
	for i := range MaxPartitions {
		r := Row{State: RowState(i % 3), Token: MakeToken(uint32(i)<<16|1, uint32(i)<<17|1), Rev: uint64(i)<<25 | 1}
		if r.State != Free {
			r.Owner = Session(i%2000+1)<<32 | Session(i%2) // every other owner has left
		}
		r.To = Session(i%1999+1) << 32
		plan.Rows = append(plan.Rows, r)
	}
	member := &Member{Session: 1, Lease: time.Second, Beat: time.Second, Seq: 1 << 50, AckGen: 1 << 50, Name: strings.Repeat("n", maxMember)}
	for i := range MaxPartitions {
		g := GaveUp{ID: ID(i), Token: MakeToken(1<<31, 1<<31)}
		if i < 100 {
			g.Cause = strings.Repeat("x", 210)
		}
		member.GaveUp = append(member.GaveUp, g)
	}
	for i := range maxConditions {
		member.Conditions = append(member.Conditions, Condition{strings.Repeat("c", maxCode), strings.Repeat("p", maxPartition), strings.Repeat(string(rune('a'+i)), maxCondition)})
	}
	stopping := *member
	stopping.GaveUp = nil
	for i := range MaxPartitions {
		stopping.Stopping = append(stopping.Stopping, ID(i))
	}
	for what, x := range map[string]Record{"plan": plan, "given up": member, "stopping": &stopping} {
		b, err := Encode(x)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		t.Logf("%s: %d of %d bytes", what, len(b), MaxSize)
	}
}

func TestARosterHasALimit(t *testing.T) {
	r := &Roster{Ver: 1}
	for i := range MaxPartitions + 1 {
		r.Entries = append(r.Entries, Partition{Name: strings.Repeat("p", 1+i%7) + string(rune('a'+i%26)) + time.Duration(i).String()})
	}
	if _, err := Encode(r); err == nil || !strings.Contains(err.Error(), "32769 partitions, more than the 32768") {
		t.Errorf("one partition too many: %v", err)
	}
	r.Entries = r.Entries[1:]
	if _, err := Encode(r); err != nil {
		t.Error(err)
	}
}

// TestOrdersFitTheRoster: an order that would make the roster too large is refused
// when it is given.
func TestOrdersFitTheRoster(t *testing.T) {
	long := strings.Repeat("x", 3000)
	r := &Roster{Ver: 1, Entries: []Partition{{Name: "a", Meta: []Pair{{"from", long}}}, {Name: "b"}}}
	for _, c := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"b", "note=" + long}, true},
		{[]string{"a", "from=" + long}, true}, // replaces the value that is there
		{[]string{"a", "note=" + long}, false},
		{[]string{"c", "note=" + long}, true},
	} {
		o := &Orders{}
		if _, err := o.Give("set", c.args...); err != nil {
			t.Fatal(err)
		}
		if err := o.Fit(r, nil); (err == nil) != c.ok {
			t.Errorf("set %s %.8s…: %v", c.args[0], c.args[1], err)
		}
	}
	full := &Roster{Ver: 1}
	for i := range MaxPartitions {
		full.Entries = append(full.Entries, Partition{Name: time.Duration(i + 1).String()})
	}
	if err := (&Orders{Add: []string{"one more"}}).Fit(full, nil); err == nil {
		t.Error("a partition more than a roster may have was not refused")
	}
	if err := (&Orders{Add: []string{"1ns"}}).Fit(full, nil); err != nil {
		t.Errorf("one that is there: %v", err)
	}
}

// TestMetadataOfAllThreeMustFit merges what the source says, what is ordered for the topic
// and what is ordered for the partition: the error names both numbers, and what an order
// replaces or takes away does not count.
func TestMetadataOfAllThreeMustFit(t *testing.T) {
	long := strings.Repeat("x", 1500)
	source := Partition{Name: "a", Topic: "t", Meta: []Pair{{"from", long}}}
	for _, c := range []struct {
		name          string
		before, after []string // verb, name, pairs
		says          string
	}{
		{"two of three", nil, []string{"set-topic", "t", "note=" + long}, ""},
		{"three", []string{"set-topic", "t", "note=" + long}, []string{"set", "a", "memo=" + long},
			`metadata of "a", from its source, for its topic and for itself: 4512 bytes of keys and values, more than 4096`},
		{"three, by the topic", []string{"set", "a", "memo=" + long}, []string{"set-topic", "t", "note=" + long}, "4512 bytes of keys and values, more than 4096"},
		{"another topic", []string{"set", "a", "memo=" + long}, []string{"set-topic", "u", "note=" + long}, ""},
		{"the partition's instead of the topic's", []string{"set-topic", "t", "note=" + long}, []string{"set", "a", "note=" + long}, ""},
		{"one taken away", []string{"set", "a", "memo=" + long}, []string{"set", "a", "memo=", "other=" + long}, ""},
	} {
		var was Orders
		if c.before != nil {
			if _, err := was.Give(c.before[0], c.before[1:]...); err != nil {
				t.Fatal(err)
			}
		}
		r := &Roster{Ver: 1, Entries: []Partition{source, {Name: "b", Topic: "u"}}}
		r.Entries[0].Meta = was.Ordered().Over("a", "t", source.Meta)
		is := was
		if _, err := is.Give(c.after[0], c.after[1:]...); err != nil {
			t.Fatal(err)
		}
		err := is.Fit(r, &was)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}
