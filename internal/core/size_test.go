package core_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A fleet is a leader, session 1, whose members do what they are told: they beat, and stop and start
// what the plan says. A test sets the loads, and says what the Scaler answers. What concerns the size
// of the group is written down.
type fleet struct {
	*desk
	begun    core.Time
	loads    []core.Load
	seen     []core.Capacity
	others   map[record.Session]*record.Member
	scaler   func(f core.Fleet) (o core.Outcome, pause time.Duration, answers bool)
	measured core.Outcome
	story    []string
	said     record.Size
	owned    string
	killed   string
	stored   map[record.Session]core.Entry
	observed bool // measurements are written down, too
	accuses  bool // and deaths
	noted    int
	pending  []func() // what happens after the step
}

// unit is a thousandth of what a member sustains; a plan fills 800 of them.
const unit = 1000

// newFleet has n members, and a partition for each load, which the members own in turns.
func newFleet(t *testing.T, n int, loads []uint64, from record.Size, o *record.Orders, tune func(*core.Config)) *fleet {
	t.Helper()
	p := &record.Plan{Leader: 1, Size: from}
	for s := range n {
		p.Members = append(p.Members, record.Session(s+1))
	}
	for i := range loads {
		p.Rows = append(p.Rows, owned(p.Members[i%n]))
	}
	d := newDesk(t, 1, p, func(cfg *core.Config) {
		cfg.Strategy, cfg.Packing, cfg.Scaling = core.Pack, core.DefaultPacking(), core.DefaultScaling()
		cfg.Packing.Capacity, cfg.Scaling.Max = 1000*unit, 8
		if tune != nil {
			tune(cfg)
		}
	})
	f := &fleet{desk: d, begun: d.now, others: map[record.Session]*record.Member{}, stored: map[record.Session]core.Entry{},
		scaler: func(core.Fleet) (core.Outcome, time.Duration, bool) { return core.OK, 0, true }}
	d.also = f.act
	f.weigh(loads...)
	var ms []*record.Member
	for _, s := range p.Members[1:] {
		f.others[s] = acks(s, fmt.Sprintf("c%d", uint64(s)), 1, 5)
		ms = append(ms, f.others[s])
	}
	d.lead(len(loads), o, ms...)
	f.beat()
	f.obey()
	return f
}

// weigh sets the loads of the partitions.
func (f *fleet) weigh(loads ...uint64) {
	f.loads = nil
	for _, l := range loads {
		f.loads = append(f.loads, core.Load{Speed: l * unit})
	}
}

// act does what the leader wants of others than the store.
func (f *fleet) act(a core.Action) {
	switch a.Do {
	case core.DoMeasure:
		if f.observed {
			f.tell("measures")
		}
		f.pending = append(f.pending, func() {
			f.step(core.Event{Kind: core.Measured, Outcome: f.measured, Loads: f.loads, Capacities: f.seen})
		})
	case core.DoStart:
		f.pending = append(f.pending, func() { f.step(core.Event{Kind: core.Started, ID: a.ID, Token: a.Token}) })
	case core.DoStop, core.DoCancel:
		f.pending = append(f.pending, func() { f.step(core.Event{Kind: core.Stopped, ID: a.ID, Token: a.Token}) })
	case core.DoScale:
		f.tell("asks for %d%s", a.Fleet.Want, removed(a.Fleet.Remove))
		if o, pause, answers := f.scaler(a.Fleet); answers {
			f.pending = append(f.pending, func() { f.step(core.Event{Kind: core.Scaled, Outcome: o, Pause: pause}) })
		}
	}
}

func removed(all []record.Session) string {
	if len(all) == 0 {
		return ""
	}
	var ns []int
	for _, s := range all {
		ns = append(ns, int(s))
	}
	return fmt.Sprintf(" without %v", ns)
}

func (f *fleet) tell(format string, a ...any) {
	at := time.Duration(f.now - f.begun).Round(time.Second)
	f.story = append(f.story, fmt.Sprintf("%v: ", at)+fmt.Sprintf(format, a...))
}

// obey lets everybody do what is to be done now.
func (f *fleet) obey() {
	for range 100 {
		switch {
		case len(f.pending) > 0:
			next := f.pending[0]
			f.pending = f.pending[1:]
			next()
		case f.writes():
			f.beat()
		case f.reads():
		case f.members():
		default:
			f.look()
			return
		}
	}
	f.t.Fatalf("no end: %q", f.story)
}

// writes answers that a plan is written.
func (f *fleet) writes() bool {
	if !slices.ContainsFunc(f.calls, func(a core.Action) bool { return a.Verb == core.Put && a.Key.Cell == core.PlanCell }) {
		return false
	}
	f.wrote()
	return true
}

// reads answers a read of the plan.
func (f *fleet) reads() bool {
	if !slices.ContainsFunc(f.calls, func(a core.Action) bool { return a.Verb == core.Get && a.Key.Cell == core.PlanCell }) {
		return false
	}
	f.answer(core.Get, core.PlanCell, 0, core.OK, core.Entry{Plan: f.n.Plan(), Rev: f.plan})
	return true
}

// members answers what the leader asks of others' records: as the store has them, or that its write has
// succeeded, by which somebody is declared dead.
func (f *fleet) members() bool {
	i := slices.IndexFunc(f.calls, func(a core.Action) bool {
		return a.Key.Cell == core.MemberCell && (a.Verb == core.Get || a.Verb == core.Put)
	})
	if i < 0 {
		return false
	}
	a := f.calls[i]
	who := a.Key.Session
	if e, ok := f.stored[who]; ok && a.Verb == core.Get {
		f.answer(core.Get, core.MemberCell, who, core.OK, e)
		return true
	}
	a = f.answer(core.Put, core.MemberCell, who, core.OK)
	f.stored[who] = entry(a.Member, f.rev)
	if a.Member.State == record.Dead {
		f.tell("%d is declared dead", uint64(who))
	}
	return true
}

// put lets the watch show a member's record.
func (f *fleet) put(m *record.Member) {
	f.show(false, m)
	f.stored[m.Session] = entry(m, f.rev)
}

// beat lets the others beat, and say that they obey the plan.
func (f *fleet) beat() {
	for _, s := range slices.Sorted(maps.Keys(f.others)) {
		m := *f.others[s]
		m.Seq++
		m.AckInc, m.AckGen = inc, f.n.Plan().Gen
		f.others[s] = &m
		f.put(&m)
	}
}

// look writes down what is new.
func (f *fleet) look() {
	for ; f.noted < len(f.told); f.noted++ {
		switch a := f.told[f.noted]; a.Note {
		case core.NoteSize:
			f.tell("wants %d of %d%s", a.Fleet.Want, a.Have, removed(a.Fleet.Remove))
		case core.NoteBack:
			f.tell("wants %d back", int(a.Who))
		case core.NoteStays:
			f.tell("%d stays", int(a.Who))
		}
	}
	if now := f.n.Plan().Size; now.Wanted != f.said.Wanted || !slices.Equal(now.Chosen, f.said.Chosen) {
		f.tell("plan: %d%s", now.Wanted, removed(now.Chosen))
		f.said = now
	}
	if owners := f.owners(); owners != f.owned {
		f.tell("owners: %s (%v)", owners, f.why())
		f.owned = owners
	}
	if kills := f.kills(); kills != f.killed && f.accuses {
		f.tell("deaths: %s", cmp.Or(kills, "none"))
		f.killed = kills
	}
}

// kills are the deaths that partitions are accused of.
func (f *fleet) kills() string {
	var out []string
	for _, k := range f.n.Plan().Kills {
		text := fmt.Sprintf("%d with partition %d, of %d", k.Count, k.ID, uint64(k.Last))
		if k.Elsewhere {
			text += " and others"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// owners are those of the partitions, in order; 0 for none.
func (f *fleet) owners() string {
	var out []string
	for _, r := range f.n.Plan().Rows {
		out = append(out, fmt.Sprint(uint64(r.Owner)))
	}
	return strings.Join(out, " ")
}

// pass lets time pass.
func (f *fleet) pass(by time.Duration) {
	f.t.Helper()
	for range by / (beat / 4) {
		f.after(beat / 4)
		f.obey()
		if int64(f.now-f.begun)%int64(beat) == 0 {
			f.beat()
			f.obey()
		}
	}
}

// come lets a member join, and leave lets one vanish.
func (f *fleet) come(s record.Session) {
	f.others[s] = member(s, fmt.Sprintf("c%d", uint64(s)), 1)
	f.put(f.others[s])
}

func (f *fleet) leave(s record.Session) {
	m := *f.others[s]
	delete(f.others, s)
	m.Seq++
	m.State = record.Left
	f.put(&m)
}

var update = flag.Bool("update", false, "write the stories of testdata anew")

// TestSize lets time pass for groups of all kinds, and compares what their leaders decide with
// testdata/size.txt, which people have read.
func TestSize(t *testing.T) {
	minutes := func(n int) func(*fleet) { return func(f *fleet) { f.pass(time.Duration(n) * time.Minute) } }
	fails := func(pause time.Duration) func(f *fleet) {
		return func(f *fleet) {
			f.scaler = func(core.Fleet) (core.Outcome, time.Duration, bool) { return core.Unknown, pause, true }
			f.weigh(700, 700, 700, 700)
			f.pass(4 * time.Minute)
			f.scaler = func(core.Fleet) (core.Outcome, time.Duration, bool) { return core.OK, 0, true }
			f.pass(2 * time.Minute)
		}
	}
	var got strings.Builder
	low := []uint64{100, 100, 100, 100}
	high := []uint64{700, 700, 700, 700}
	for _, c := range []struct {
		name   string
		n      int
		loads  []uint64
		from   record.Size
		orders *record.Orders
		tune   func(*core.Config)
		play   func(f *fleet)
	}{
		{name: "nothing to do", n: 2, loads: low, play: minutes(2)},
		{name: "grows to as many as there are partitions", n: 2, loads: high, play: minutes(1)},
		{name: "grows by steps", n: 1, loads: []uint64{700, 700, 700, 700, 700, 700}, tune: func(c *core.Config) { c.Scaling.Step = 2 }, play: minutes(1)},
		{name: "grows by as many as it may", n: 1, loads: []uint64{700, 700, 700, 700, 700, 700, 700}, play: minutes(1)},
		{name: "one is enough", n: 1, loads: low, tune: func(c *core.Config) { c.Scaling.Spare = 0 }, play: minutes(1)},
		{name: "grows to the maximum", n: 2, loads: high, tune: func(c *core.Config) { c.Scaling.Max = 3 }, play: minutes(1)},
		{name: "grows to the minimum", n: 1, loads: low, tune: func(c *core.Config) { c.Scaling.Min = 3 }, play: minutes(1)},
		{name: "is above the maximum", n: 4, loads: high, tune: func(c *core.Config) { c.Scaling.Max = 3 }, play: minutes(2)},
		{name: "grows, and shrinks", n: 2, loads: high, play: func(f *fleet) {
			f.pass(20 * time.Second)
			f.come(3)
			f.come(4)
			f.pass(40 * time.Second)
			f.weigh(low...)
			f.pass(90 * time.Second)
			f.leave(4)
			f.leave(3)
			f.pass(2 * time.Minute)
		}},
		{name: "nobody comes, and nobody is needed any more", n: 2, loads: high, play: func(f *fleet) {
			f.pass(20 * time.Second)
			f.weigh(low...)
			f.pass(2 * time.Minute)
		}},
		{name: "more come than were wanted", n: 2, loads: low, play: func(f *fleet) {
			f.pass(20 * time.Second)
			f.come(3)
			f.pass(10 * time.Second)
			f.weigh(700, 700, 100, 100)
			f.pass(time.Minute)
		}},
		{name: "who should vanish stays", n: 4, loads: low, play: minutes(6)},
		{name: "the cheapest goes", n: 4, loads: []uint64{300, 200, 250, 100}, play: minutes(2)},
		{name: "the youngest of the cheapest goes, the leader last", n: 3, loads: []uint64{0, 300, 300}, play: minutes(2)},
		{name: "the leader goes if nobody else may", n: 2, loads: []uint64{10, 10}, orders: &record.Orders{Ver: 1, Pins: []record.Pin{{Partition: "b", Member: "c2"}}}, tune: func(c *core.Config) { c.Scaling.Spare = 0 }, play: minutes(2)},
		{name: "who is drained or has a pin stays", n: 5, loads: low, orders: &record.Orders{Ver: 1, Drains: []string{"c5"}, Pins: []record.Pin{{Partition: "a", Member: "c4"}}}, play: minutes(2)},
		{name: "frozen", n: 4, loads: low, orders: &record.Orders{Ver: 1, Freeze: true}, play: minutes(2)},
		{name: "the platform decides", n: 4, loads: []uint64{100, 100, 200, 300}, tune: func(c *core.Config) {
			c.Scaling.Before = func(a, b *record.Member) bool { return a.Name > b.Name }
		}, play: minutes(2)},
		{name: "the platform decides on one with a pin", n: 4, loads: low, orders: &record.Orders{Ver: 1, Pins: []record.Pin{{Partition: "a", Member: "me"}}}, tune: func(c *core.Config) {
			c.Scaling.Before = func(a, b *record.Member) bool { return a.Name > b.Name }
		}, play: minutes(2)},
		{name: "just room for the band", n: 3, loads: []uint64{243, 242, 242}, play: minutes(2)},
		{name: "no room for the band", n: 3, loads: []uint64{243, 243, 242}, play: minutes(2)},
		{name: "two to spare", n: 5, loads: low, tune: func(c *core.Config) { c.Scaling.Spare = 2 }, play: minutes(2)},
		{name: "a hot partition", n: 2, loads: []uint64{1500, 10, 10}, play: minutes(2)},
		{name: "a hot partition, and more to spare", n: 2, loads: []uint64{1500, 10, 10, 10}, tune: func(c *core.Config) { c.Scaling.Spare = 2 }, play: minutes(2)},
		{name: "nobody knows a capacity", n: 2, loads: high, tune: func(c *core.Config) { c.Packing.Capacity = 0 }, play: minutes(2)},
		{name: "not in charge of the size any more", n: 2, loads: low, from: record.Size{Wanted: 5, Chosen: []record.Session{2}}, tune: func(c *core.Config) { c.Scaling.Max = 0 }, play: minutes(1)},
		{name: "dry", n: 4, loads: low, tune: func(c *core.Config) { c.Scaling.Dry = true }, play: minutes(3)},
		{name: "the Scaler fails", n: 2, loads: low, play: fails(0)},
		{name: "the Scaler fails, and wants to be left alone", n: 2, loads: low, play: fails(100 * time.Second)},
		{name: "the Scaler hangs", n: 2, loads: low, play: func(f *fleet) {
			f.scaler = func(core.Fleet) (core.Outcome, time.Duration, bool) { return core.OK, 0, false }
			f.weigh(high...)
			f.pass(2 * time.Minute)
		}},
		{name: "a new leader goes on", n: 4, loads: low, from: record.Size{Wanted: 3, Chosen: []record.Session{4}}, play: func(f *fleet) {
			f.pass(30 * time.Second)
			f.leave(4)
			f.pass(2 * time.Minute)
		}},
		{name: "the load comes back", n: 3, loads: low, play: func(f *fleet) {
			f.pass(61 * time.Second)
			f.weigh(high...)
			f.pass(2 * time.Minute)
		}},
		{name: "the load comes back while the Scaler hangs", n: 3, loads: low, play: func(f *fleet) {
			f.pass(50 * time.Second)
			f.scaler = func(core.Fleet) (core.Outcome, time.Duration, bool) { return core.OK, 0, false }
			f.pass(11 * time.Second)
			f.weigh(high...)
			f.pass(4 * time.Minute)
		}},
		{name: "others vanish", n: 4, loads: low, play: func(f *fleet) {
			f.pass(61 * time.Second)
			f.leave(2)
			f.pass(time.Minute)
		}},
		{name: "only who was chosen is left", n: 4, loads: low, tune: func(c *core.Config) { c.Scaling.Spare = 0 }, play: func(f *fleet) {
			f.pass(61 * time.Second)
			f.leave(2)
			f.pass(time.Minute)
		}},
	} {
		f := newFleet(t, c.n, c.loads, c.from, c.orders, c.tune)
		c.play(f)
		f.end(&got, c.name)
	}
	compare(t, got.String(), "testdata/size.txt")
}

// end writes the story.
func (f *fleet) end(to *strings.Builder, name string) {
	fmt.Fprintf(to, "# %s\n%s\n\n", name, strings.Join(f.story, "\n"))
}

// compare compares stories with those of a file.
func compare(t *testing.T, got, file string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n\n")
	for i, part := range strings.Split(got, "\n\n") {
		if i >= len(want) || part != want[i] {
			t.Errorf("got:\n%s\nwhich is not part %d of %s; -update writes it anew", part, i+1, file)
		}
	}
}
