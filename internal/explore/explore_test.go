package explore

import (
	"context"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // what lives is the frontier; most of the rest dies at once
	os.Exit(m.Run())
}

// TestExplore tries everything that can happen in every configuration that does
// not take minutes; rota explore does the others.
func TestExplore(t *testing.T) {
	for _, c := range Configs {
		if c.Long {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			r := Explore(t.Context(), c, Options{})
			t.Logf("%d states, %d transitions, depth %d, %.1f s", r.States, r.Transitions, r.Depth, r.Seconds)
			if r.Violation != nil {
				t.Errorf("%v\n%s", r.Violation, strings.Join(r.Trace, "\n"))
			} else if !r.Exhausted {
				t.Error("it was cut short")
			}
		})
	}
}

// Long configurations are begun, so that none rots.
func TestLongOnesBegin(t *testing.T) {
	for _, c := range Configs {
		if !c.Long {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			r := Explore(t.Context(), c, Options{Most: 3000})
			if r.Violation != nil {
				t.Errorf("%v\n%s", r.Violation, strings.Join(r.Trace, "\n"))
			}
			if r.States < 3000 {
				t.Errorf("only %d states: it is not long", r.States)
			}
		})
	}
}

// An exploration can be ended at any time, and says so.
func TestExploreCanBeCut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c, ok := Find("2m1p late+freeze")
	if !ok {
		t.Fatal("no such configuration")
	}
	if r := Explore(ctx, c, Options{}); r.Exhausted || r.States == 0 {
		t.Errorf("%+v", r)
	}
}

// The same is found whatever the number of cores.
func TestExploreIsTheSameOnAnyCores(t *testing.T) {
	c, _ := Find("3m1p join+crash")
	one, two := Explore(t.Context(), c, Options{Cores: 1}), Explore(t.Context(), c, Options{Cores: 4})
	if one.States != two.States || one.Transitions != two.Transitions || one.Depth != two.Depth {
		t.Errorf("%+v\n%+v", one, two)
	}
}
