package record

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func FuzzDecodePlan(f *testing.F) {
	fuzz(f, kindPlan, func(t *testing.T, b []byte) {
		lazy, lazyErr := OpenPlan(b)
		full, err := DecodePlan(b)
		if (err == nil) != (lazyErr == nil) {
			t.Fatalf("OpenPlan: %v, DecodePlan: %v", lazyErr, err)
		}
		if err == nil {
			compareForms(t, lazy, full)
		}
	})
}

func FuzzDecodeRoster(f *testing.F) {
	fuzz(f, kindRoster, func(t *testing.T, b []byte) {
		if lazy, err := OpenRoster(b); err == nil {
			compareRosters(t, lazy)
		}
	})
}

func FuzzDecodeOrders(f *testing.F)  { fuzz(f, kindOrders, nil) }
func FuzzDecodeMember(f *testing.F)  { fuzz(f, kindMember, nil) }
func FuzzDecodeHistory(f *testing.F) { fuzz(f, kindHistory, nil) }
func FuzzDecodeLoads(f *testing.F)   { fuzz(f, kindLoads, nil) }

func fuzz(f *testing.F, k kind, more func(*testing.T, []byte)) {
	for seed := range uint64(60) {
		f.Add(random{rand.New(rand.NewPCG(seed, uint64(k)))}.record(k).Append(nil))
	}
	f.Add([]byte{byte(k)})
	f.Add([]byte{byte(k), version + 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		checkDecoding(t, k, b)
		if more != nil {
			more(t, b)
		}
	})
}

// compareForms checks that the lazy form of a plan gives the same answers as the
// full one.
func compareForms(t *testing.T, lazy, full *Plan) {
	t.Helper()
	if lazy.Rows != nil || full.Rows == nil && full.Len() > 0 {
		t.Fatal("the wrong form")
	}
	if !reflect.DeepEqual(lazy.Full(), full) || full.Full() != full {
		t.Fatalf("lazy %+v\nfull %+v", lazy.Full(), full)
	}
	if lazy.Len() != full.Len() {
		t.Fatalf("%d rows, or %d", lazy.Len(), full.Len())
	}
	sessions := append(slices.Clone(full.Members), 0, full.Leader)
	for i := range full.Rows {
		if r := &full.Rows[i]; r.Owner != 0 && !slices.Contains(sessions, r.Owner) {
			sessions = append(sessions, r.Owner)
		}
	}
	for _, s := range sessions {
		dst := []OwnRow{{ID: 99}}
		if a, b := lazy.Mine(s, dst), full.Mine(s, dst); !slices.Equal(a, b) {
			t.Fatalf("of %v: lazy %+v\nfull %+v", s, a, b)
		}
	}
}

func TestFormsAgree(t *testing.T) {
	for seed := range uint64(500) {
		b := random{rand.New(rand.NewPCG(seed, 1))}.plan().Append(nil)
		lazy, err := OpenPlan(b)
		if err != nil {
			t.Fatal(err)
		}
		full, err := DecodePlan(b)
		if err != nil {
			t.Fatal(err)
		}
		compareForms(t, lazy, full)
		if !slices.Equal(lazy.Append(nil), b) {
			t.Fatal("a lazy plan encodes otherwise")
		}
	}
}

// compareRosters checks that the lazy form of a roster gives the same answers as the
// full one.
func compareRosters(t *testing.T, lazy *Roster) {
	t.Helper()
	full := lazy.Full()
	if lazy.Entries != nil || full.Full() != full || lazy.Len() != full.Len() || lazy.Ver != full.Ver {
		t.Fatalf("lazy %+v\nfull %+v", lazy, full)
	}
	for id := range full.Entries {
		if a, b := lazy.At(ID(id)), full.At(ID(id)); !reflect.DeepEqual(a, b) {
			t.Fatalf("partition %d: lazy %+v\nfull %+v", id, a, b)
		}
	}
}

// An entry of a long roster is found by the nearest of the places that the lazy form knows.
func TestEntriesOfALongRoster(t *testing.T) {
	x := &Roster{Ver: 1}
	for i := range 5*stride + 3 {
		x.Entries = append(x.Entries, Partition{Name: strings.Repeat("p", i+1), Removed: i%3 == 0})
	}
	lazy, err := OpenRoster(x.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	compareRosters(t, lazy)
	if !reflect.DeepEqual(lazy.Full(), x) {
		t.Errorf("lazy %+v, want %+v", lazy.Full(), x)
	}
}

func TestRosterFormsAgree(t *testing.T) {
	for seed := range uint64(500) {
		x := random{rand.New(rand.NewPCG(seed, 1))}.record(kindRoster).(*Roster)
		b := x.Append(nil)
		lazy, err := OpenRoster(b)
		if err != nil {
			t.Fatal(err)
		}
		compareRosters(t, lazy)
		if !reflect.DeepEqual(lazy.Full(), x) || !slices.Equal(lazy.Append(nil), b) {
			t.Fatalf("lazy %+v, want %+v", lazy.Full(), x)
		}
	}
}

// A copy of a lazy plan may be given other members, another incarnation or rows of
// its own: the old rows do not change.
func TestLazyCopyKeepsItsRows(t *testing.T) {
	b := churn().Append(nil)
	lazy, err := OpenPlan(b)
	if err != nil {
		t.Fatal(err)
	}
	want := lazy.Full().Rows
	c := *lazy
	c.Incarnation++
	c.Members = append(c.Members, 5)
	if !slices.Equal(c.Full().Rows, want) {
		t.Error("rows changed with the head")
	}
	if d, err := DecodePlan(c.Append(nil)); err != nil || !slices.Equal(d.Rows, want) {
		t.Errorf("rows changed in the encoding: %v", err)
	}
	c.Rows = []Row{{Token: 1}}
	if c.Len() != 1 || c.Full() != &c {
		t.Error("its own rows do not count")
	}
}
