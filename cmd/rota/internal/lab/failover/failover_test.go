package failover

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/line"
)

// told makes a history of lines such as "12 c1 handle p0@1": milliseconds, who,
// what, and of which ownership. A lease line has its end instead.
func told(t *testing.T, text string) *History {
	t.Helper()
	h := NewHistory()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		h.Add(canned(t, line))
	}
	return h
}

func canned(t *testing.T, text string) line.Line {
	t.Helper()
	f := strings.Fields(text)
	at, err := time.ParseDuration(f[0] + "ms")
	if err != nil {
		t.Fatal(err)
	}
	l := line.Line{V: line.Version, Boot: int64(at), Member: f[1], Session: "s" + f[1], Event: f[2]}
	if l.Event == "lease" {
		end, err := time.ParseDuration(f[3] + "ms")
		if err != nil {
			t.Fatal(err)
		}
		l.Lease = int64(end)
	} else if len(f) > 3 {
		name, token, _ := strings.Cut(f[3], "@")
		l.Partition, l.Token = name, uint64(token[0]-'0')
	}
	return l
}

func episode(event string, from, to int) Episode {
	return Episode{Event: event, From: int64(from) * 1e6, To: int64(to) * 1e6, Lease: 5 * time.Second, Wait: 5200 * time.Millisecond}
}

const before = `
	900 c1 start p0@1
	900 c1 start p1@1
	910 c1 handle p0@1
	920 c1 handled p0@1
	921 c1 handle p1@1
	931 c1 handled p1@1
	990 c1 handle p0@1
	995 c1 handle p1@1
	998 c1 handled p0@1
`

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func measure(t *testing.T, h *History, e Episode) Sample {
	t.Helper()
	s, err := h.Measure(e)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// p1 moves to c2, which joined at 1010; the plan came at 1160. p0 stays: it was
// handled at 1100, before the plan, and then at 1180.
const joins = before + `
	1010 c2 joined
	1100 c1 handle p0@1
	1110 c1 handled p0@1
	1160 c1 plan
	1165 c1 handled p1@1
	1166 c1 stopped p1@1
	1170 c2 start p1@2
	1175 c2 handle p1@2
	1180 c1 handle p0@1
`

func TestJoinIsOverWhenAllIsHandledUnderTheNewPlan(t *testing.T) {
	e := episode("2nd joins", 1000, 2000)
	e.Joined = []string{"c2"}
	s := measure(t, told(t, joins), e)
	near(t, "the time", s.Seconds, 0.170) // p0 at 1180, not p1 at 1175
	if s.Plans != 1 || s.Moved != 1 || s.Overlaps != 0 || s.Floor != 0 {
		t.Errorf("%d plans, %d moved, %d overlaps, floor %v", s.Plans, s.Moved, s.Overlaps, s.Floor)
	}
	if !slices.Equal(s.Idle, []float64{10}) {
		t.Errorf("idle %v, want 10 ms", s.Idle)
	}
	// A joining of five counts from the last of them.
	e.Joined = []string{"c2", "c3"}
	s = measure(t, told(t, joins+"1050 c3 joined\n"), e)
	near(t, "the time from the last", s.Seconds, 0.130)
}

func TestASecondPlanIsCounted(t *testing.T) {
	e := episode("2nd joins", 1000, 2000)
	e.Joined = []string{"c2"}
	s := measure(t, told(t, joins+"1900 c1 plan\n1910 c1 handle p0@1\n1911 c2 handle p1@2\n"), e)
	if s.Plans != 2 {
		t.Errorf("%d plans", s.Plans)
	}
	near(t, "the time", s.Seconds, 0.900) // under the newest plan p0 was handled at 1910; p1 has been its owner's before
}

func TestAnOverlapIsNoticed(t *testing.T) {
	e := episode("2nd joins", 1000, 2000)
	e.Joined = []string{"c2"}
	for extra, want := range map[string]int{
		"": 0,
		"1176 c1 handle p1@1\n1177 c1 handled p1@1\n":                                            1, // the old owner goes on
		"1190 c2 handled p1@2\n1200 c3 handle p1@3\n1201 c3 handled p1@3\n1202 c2 handle p1@2\n": 1,
		"1190 c2 handled p1@2\n1191 c2 handle p1@2\n1192 c2 handled p1@2\n1200 c1 handle p1@4\n": 0, // given back
		"1176 c3 handle p0@2\n1177 c3 handled p0@2\n1178 c1 handle p1@1\n1179 c1 handled p1@1\n": 2,
		"1175 c1 handle p1@1\n1175 c1 handled p1@1\n1176 c2 handled p1@2\n1180 c2 handle p1@2\n": 0, // at the very instant is not twice
	} {
		h := told(t, joins+extra)
		if s, err := h.Measure(e); err != nil || s.Overlaps != want {
			t.Errorf("with %q: %d overlaps, %v; want %d", extra, s.Overlaps, err, want)
		}
	}
}

func TestLeavingIsOverWhenTheProcessIsGone(t *testing.T) {
	const leaves = before + `
		1000 c1 sigterm
		1030 c1 handled p1@1
		1031 c1 handle p1@1
		1040 c1 handled p1@1
		1050 c2 handle p0@2
		1070 c3 handle p1@2
		1060 c1 gone
	`
	e := episode("leave", 999, 2000)
	e.Left = []string{"c1"}
	s := measure(t, told(t, leaves), e)
	near(t, "the time to the last handle", s.Seconds, 0.070)
	if !slices.Equal(s.Idle, []float64{52, 30}) || s.Moved != 2 {
		t.Errorf("idle %v, %d moved", s.Idle, s.Moved)
	}
	s = measure(t, told(t, strings.Replace(leaves, "1060 c1 gone", "1090 c1 gone", 1)), e)
	near(t, "the time to the end of the process", s.Seconds, 0.090)
	if _, err := told(t, strings.Replace(leaves, "1060 c1 gone", "", 1)).Measure(e); err == nil {
		t.Error("nobody told that it has ended, and that is no error")
	}
}

func TestAKillIsMeasuredAgainstTheLastHeartbeat(t *testing.T) {
	const kills = before + `
		800 c1 lease 5790
		1000 c1 sigkill
		6010 c2 handle p0@2
		6020 c2 handle p1@2
	`
	e := episode("kill", 999, 7000)
	e.Killed = []string{"c1"}
	s := measure(t, told(t, kills), e)
	near(t, "the time", s.Seconds, 5.020)
	near(t, "the age", s.Age, 0.210) // sent at 790
	near(t, "the floor", s.Floor, 4.990)
	near(t, "the excess", *Rows([]Sample{s})[0].ExcessWorst, 0.030)

	// Of two victims the later floor counts.
	e.Killed = []string{"c1", "c9"}
	s = measure(t, told(t, kills+"990 c9 lease 5980\n1000 c9 sigkill\n"), e)
	near(t, "the later floor", s.Floor, 5.180)
	e.Killed = []string{"c9", "c1"}
	s = measure(t, told(t, kills+"990 c9 lease 5980\n1000 c9 sigkill\n"), e)
	near(t, "and in any order", s.Floor, 5.180)

	// What was told after the kill does not count.
	e.Killed = []string{"c1"}
	s = measure(t, told(t, kills+"1001 c1 lease 6000\n"), e)
	near(t, "the floor", s.Floor, 4.990)
	if _, err := told(t, strings.Replace(kills, "800 c1 lease 5790", "", 1)).Measure(e); err == nil {
		t.Error("a kill without a heartbeat is no error")
	}
}

func TestWhatNobodyTookOverIsAnError(t *testing.T) {
	e := episode("kill", 999, 7000)
	e.Killed = []string{"c1"}
	_, err := told(t, before+"800 c1 lease 5800\n1000 c1 sigkill\n6010 c2 handle p0@2\n").Measure(e)
	if err == nil || !strings.Contains(err.Error(), "p1") {
		t.Errorf("p1 was left alone: %v", err)
	}
}

func TestGapsAreOfPartitionsThatStay(t *testing.T) {
	e := episode("2nd joins", 1000, 2000)
	e.Joined = []string{"c2"}
	s := measure(t, told(t, "890 c9 handle p0@9\n895 c9 handled p0@9\n"+joins), e) // c9's is not the same owner's
	// Before: 920 to 990. Meanwhile: 998 to 1100 touches it, and 1110 to 1180.
	for _, c := range []struct {
		what string
		got  Gaps
		n    int
		most float64
	}{{"before", s.Before, 2, 102}, {"meanwhile", s.During, 2, 102}} {
		n := 0
		for _, k := range c.got {
			n += k
		}
		if got := c.got.At(1); n != c.n || math.Abs(got/c.most-1) > 0.02 {
			t.Errorf("%s: %d gaps, the longest %v ms; want %d and %v", c.what, n, got, c.n, c.most)
		}
	}
	g := Gaps{}
	for range 999 {
		g.add(int64(time.Millisecond))
	}
	g.add(int64(time.Second))
	if got := g.At(0.999); math.Abs(got-1) > 0.02 {
		t.Errorf("99.9 %% of gaps are up to %v ms, want 1", got)
	}
	g.add(int64(time.Second))
	if got := g.At(0.999); math.Abs(got/1000-1) > 0.02 {
		t.Errorf("99.9 %% of gaps are up to %v ms, want 1000", got)
	}
}

func gaps(ms, n int) Gaps {
	g := Gaps{}
	for range n {
		g.add(int64(ms) * 1e6)
	}
	g.add(1e6)
	return g
}

func TestRowsPoolRuns(t *testing.T) {
	rows := Rows([]Sample{
		{Event: "kill", Seconds: 5.1, Floor: 5, Plans: 2, Moved: 3, Before: gaps(1, 999), During: gaps(3, 999), Idle: []float64{1, 2, 3}},
		{Event: "kill", Seconds: 4.3, Floor: 4, Plans: 1, Moved: 4, Before: gaps(50, 3), During: gaps(70, 10), Idle: []float64{100}, Overlaps: 1},
		{Event: "2nd joins", Seconds: 0.2},
	})
	if len(rows) != 2 || rows[0].Event != "2nd joins" || rows[0].ExcessMedian != nil || rows[1].Runs != 2 {
		t.Fatalf("%+v", rows)
	}
	r := rows[1]
	near(t, "median", r.Median, 4.7)
	near(t, "best", r.Best, 4.3)
	near(t, "worst", r.Worst, 5.1)
	near(t, "median excess", *r.ExcessMedian, 0.2)
	near(t, "worst excess", *r.ExcessWorst, 0.3)
	near(t, "median idle", r.IdleMedian, 2.5)
	near(t, "idle p99", r.IdleP99, 100)
	if math.Abs(r.GapBefore/50-1) > 0.02 || math.Abs(r.GapDuring/70-1) > 0.02 {
		t.Errorf("gaps %v and %v", r.GapBefore, r.GapDuring)
	}
	if r.Plans != 2 || r.Moved != 4 || r.Overlaps != 1 {
		t.Errorf("%+v", r)
	}
}

func TestSharedWantsEveryPartitionConsumedByWhoIsThere(t *testing.T) {
	ms := int64(time.Millisecond)
	two := []string{"c1", "c2"}
	h := told(t, joins)
	if !h.Shared(2, two, 1160*ms) {
		t.Error("one each, both consumed, and it is not shared")
	}
	for what, so := range map[string]bool{
		"consumed before the instant":   h.Shared(2, two, 1176*ms),
		"an owner that is not there":    h.Shared(2, []string{"c1", "c3"}, 0),
		"a third with one that is gone": told(t, joins+"900 c9 start p2@1\n1170 c9 handle p2@1\n").Shared(3, two, 0),
		"one partition nobody has":      h.Shared(3, two, 0),
		"all with one of two":           told(t, before).Shared(2, two, 0),
		"stopped and not started again": told(t, joins+"1200 c2 stopped p1@2\n").Shared(2, two, 0),
		"started and not handled yet":   told(t, joins+"1200 c2 stopped p1@2\n1201 c1 start p1@3\n1201 c2 start p0@3").Shared(2, two, 0),
	} {
		if so {
			t.Error(what + " counts as shared")
		}
	}
}
