package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"

	"github.com/rota-dev/rota/internal/core"
)

// TestEqualEncodingsBehaveEqually: whatever of a node's memory the canonical
// encoding leaves out makes no difference. Nodes are taken from simulated runs;
// one number or flag of a copy is changed at random, and whenever the encoding
// does not show it, both must do the same and end in the same state. A field
// that the encoding forgot would be found here.
func TestEqualEncodingsBehaveEqually(t *testing.T) {
	w := New(Options{Members: 4, Partitions: 4})
	rng := rand.New(rand.NewPCG(1, 2))
	tried, equal := 0, 0
	changed := map[string]int{}
	w.tap = func(n *core.Node, now core.Time, ev *core.Event) {
		if rng.IntN(8) != 0 || t.Failed() {
			return
		}
		a, b := n.Clone(), n.Clone()
		name := perturb(b, rng)
		if name == "" {
			return
		}
		tried++
		if !bytes.Equal(before(a, now, ev), before(b, now, ev)) {
			return
		}
		equal++
		changed[name]++
		was := fmt.Sprintf("%+v", *ev)
		if x, y := outcome(a, now, ev), outcome(b, now, ev); !bytes.Equal(x, y) {
			t.Errorf("seed %d: the encoding does not show %s, and it makes a difference on %s", w.seed, name, was)
		}
	}
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		w.Play(seed)
	}
	t.Logf("%d changes tried, %d not shown by the encoding: %v", tried, equal, changed)
	if equal < 100 {
		t.Errorf("only %d of %d changes were invisible: the test says little", equal, tried)
	}
}

// TestEncodingIsRelative: the same run on other clocks, with other revisions,
// versions and incarnations, has the same encodings and actions.
func TestEncodingIsRelative(t *testing.T) {
	for seed := range uint64(60) {
		var runs [2][][]byte
		for i := range runs {
			w := New(Options{Members: 3, Partitions: 4})
			w.shift = int64(i) * 987_654_321_000
			w.firstRev = core.Rev(i * 7777)
			w.firstEra = uint32(i * 424242)
			w.tap = func(n *core.Node, now core.Time, ev *core.Event) {
				runs[i] = append(runs[i], outcome(n.Clone(), now, ev))
			}
			w.Play(seed)
		}
		if len(runs[0]) != len(runs[1]) || len(runs[0]) == 0 {
			t.Fatalf("seed %d: %d steps against %d", seed, len(runs[0]), len(runs[1]))
		}
		for i := range runs[0] {
			if !bytes.Equal(runs[0][i], runs[1][i]) {
				t.Fatalf("seed %d: step %d differs between two runs that differ in absolute numbers only", seed, i)
			}
		}
	}
}

// before encodes n together with what is about to happen to it.
func before(n *core.Node, now core.Time, ev *core.Event) []byte {
	var r core.Ranks
	return r.Append(nil, n.Shape(now), ev.Shape(now))
}

// outcome steps n and encodes what it does and becomes.
func outcome(n *core.Node, now core.Time, ev *core.Event) []byte {
	acts := n.Step(now, *ev)
	shapes := []*core.Shape{n.Shape(now)}
	for i := range acts {
		shapes = append(shapes, acts[i].Shape(now))
	}
	var r core.Ranks
	return r.Append(nil, shapes...)
}

// perturb changes one number or flag in n's memory and names it.
func perturb(n *core.Node, rng *rand.Rand) string {
	var leaves []reflect.Value
	var names []string
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i).Name
				switch f {
				case "cfg", "out", "wake", "now", "scratch", "planner": // not state
				case "planned": // follows from the plan
				case "Cause": // of a partition given up: for people
				default:
					walk(v.Field(i), name+"."+f)
				}
			}
		case reflect.Slice:
			if v.Type().Elem().Name() == "Partition" {
				return // shared with the world
			}
			for i := range v.Len() {
				walk(v.Index(i), name)
			}
		case reflect.Bool, reflect.Int64, reflect.Uint64, reflect.Uint32, reflect.Uint8, reflect.Int32, reflect.Uint16:
			leaves, names = append(leaves, v), append(names, name)
		}
	}
	walk(reflect.ValueOf(n).Elem(), "node")
	if len(leaves) == 0 {
		return ""
	}
	i := rng.IntN(len(leaves))
	v := reflect.NewAt(leaves[i].Type(), unsafe.Pointer(leaves[i].UnsafeAddr())).Elem()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int64, reflect.Int32:
		if v.Int() == int64(core.Never) {
			return "" // no instant at all: nothing to shift
		}
		d := rng.Int64N(20_000_000_000) - 15_000_000_000
		if v.Kind() == reflect.Int32 {
			d = 1 + rng.Int64N(3)
		}
		v.SetInt(v.Int() + d)
	case reflect.Uint8:
		return "" // states and phases: any other is another state
	default:
		v.SetUint(v.Uint() + 1 + uint64(rng.IntN(3)))
	}
	return names[i]
}
