package core_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A leader is a node that leads, with a store and a source that answer at once. It
// is for tests that no scenario can express: records and listings made by hand.
type leader struct {
	n       *core.Node
	now     core.Time
	cells   map[core.Key]core.Entry
	rev     core.Rev
	listing []record.Partition
	refuses bool // the store refuses every roster
	forgets bool // the outcome of writing a roster is unknown
	deaf    bool // the outcome of every read is unknown
	puts    int  // of rosters
	calls   int
	notes   []core.Action
}

// newLeader makes the leader of a group of one whose source lists some partitions.
func newLeader(listing ...record.Partition) *leader {
	cfg := &core.Config{Session: me, Name: "c1", Timing: core.DefaultTiming(), Fresh: true, Era: 7}
	l := &leader{n: core.New(cfg), now: 1, cells: map[core.Key]core.Entry{}, listing: listing}
	l.step(core.Event{Kind: core.Begin})
	l.advance(time.Second)
	return l
}

func (l *leader) step(ev core.Event) {
	for events := []core.Event{ev}; len(events) > 0; events = events[1:] {
		if l.calls > 10_000 {
			return // it never comes to rest
		}
		for _, a := range slices.Clone(l.n.Step(l.now, events[0])) {
			switch a.Do {
			case core.DoCall:
				events = append(events, l.call(a))
			case core.DoAsk:
				events = append(events, core.Event{Kind: core.Listed, Complete: true, Listing: l.listing})
			case core.DoStart:
				events = append(events, core.Event{Kind: core.Started, ID: a.ID, Token: a.Token})
			case core.DoStop:
				events = append(events, core.Event{Kind: core.Stopped, ID: a.ID, Token: a.Token})
			case core.DoNote:
				l.notes = append(l.notes, a)
			}
		}
	}
}

func (l *leader) call(a core.Action) core.Event {
	ev := core.Event{Kind: core.Answer, Verb: a.Verb, Key: a.Key}
	e, found := l.cells[a.Key]
	l.calls++
	switch {
	case l.deaf && a.Verb != core.Put:
		ev.Outcome = core.Unknown
	case a.Roster != nil && l.forgets:
		ev.Outcome = core.Unknown
		l.puts++
	case a.Verb == core.List:
		for k, e := range l.cells {
			if k.Cell == core.MemberCell {
				ev.Entries = append(ev.Entries, e)
			}
		}
		slices.SortFunc(ev.Entries, func(a, b core.Entry) int { return cmp.Compare(a.Session, b.Session) })
	case a.Verb == core.Get && found:
		ev.Entries = []core.Entry{e}
	case a.Verb == core.Get:
		ev.Outcome = core.NotFound
	case a.Roster != nil && l.refuses:
		ev.Outcome = core.Refused
		l.puts++
	case a.Prev != e.Rev:
		ev.Outcome = core.Conflict
	case a.Verb == core.Delete:
		delete(l.cells, a.Key)
	default:
		if a.Roster != nil {
			l.puts++
		}
		ev.Rev = l.set(core.Entry{Key: a.Key, Plan: a.Plan, Roster: a.Roster, Member: a.Member}).Rev
	}
	return ev
}

func (l *leader) set(e core.Entry) core.Entry {
	l.rev++
	e.Rev = l.rev
	l.cells[e.Key] = e
	return e
}

// show writes a record and lets the leader's watch show it.
func (l *leader) show(e core.Entry) {
	l.step(core.Event{Kind: core.Seen, Entries: []core.Entry{l.set(e)}})
	l.advance(time.Second)
}

func (l *leader) order(o record.Orders) {
	o.Ver = 1
	if was := l.cells[core.Key{Cell: core.OrdersCell}].Orders; was != nil {
		o.Ver = was.Ver + 1
	}
	l.show(core.Entry{Key: core.Key{Cell: core.OrdersCell}, Orders: &o})
}

func (l *leader) member(m record.Member) {
	m.Lease, m.Beat = 5*time.Second, 2*time.Second
	l.show(core.Entry{Key: core.Key{Cell: core.MemberCell, Session: m.Session}, Member: &m})
}

func (l *leader) advance(d time.Duration) {
	for end := l.now.Add(d); l.now < end; {
		l.now = min(end, max(l.n.Next(), l.now+1))
		l.step(core.Event{Kind: core.Tick})
	}
}

func (l *leader) plan() *record.Plan { return l.cells[core.Key{Cell: core.PlanCell}].Plan }

func (l *leader) entries() []record.Partition {
	if r := l.cells[core.Key{Cell: core.RosterCell}].Roster; r != nil {
		return r.Entries
	}
	return nil
}

func (l *leader) noted(note core.Note, name string) bool {
	return slices.ContainsFunc(l.notes, func(a core.Action) bool { return a.Note == note && a.Name == name })
}

func meta(kv ...string) (out []record.Pair) {
	for _, s := range kv {
		k, v, _ := strings.Cut(s, "=")
		out = append(out, record.Pair{Key: k, Value: v})
	}
	return out
}

// TestMetadataIsTheSourcesWithTheOrdersOverIt also tries a partition that the
// source lists and an order adds: the order makes it stay, and does not change its
// metadata.
func TestMetadataIsTheSourcesWithTheOrdersOverIt(t *testing.T) {
	l := newLeader(record.Partition{Name: "a", Meta: meta("region=eu", "size=1")}, record.Partition{Name: "b", Meta: meta("size=2")})
	l.order(record.Orders{Add: []string{"a", "c"}, Meta: []record.Meta{
		{Partition: "a", Pairs: meta("size=9")}, {Partition: "c", Pairs: meta("size=3")}}})
	want := []record.Partition{
		{Name: "a", Meta: meta("region=eu", "size=9")}, {Name: "b", Meta: meta("size=2")}, {Name: "c", Meta: meta("size=3")}}
	if got := l.entries(); !slices.EqualFunc(got, want, samePartition) {
		t.Errorf("the roster is %v, not %v", got, want)
	}
}

// TestMetadataThatDoesNotFitIsLeftOut: the source's metadata and the ordered
// metadata each fit alone. With both, no roster could be written.
func TestMetadataThatDoesNotFitIsLeftOut(t *testing.T) {
	long := strings.Repeat("x", 3000)
	l := newLeader(record.Partition{Name: "a", Meta: meta("k=" + long)})
	l.order(record.Orders{Meta: []record.Meta{{Partition: "a", Pairs: meta("l=" + long)}}})
	if got := l.entries(); len(got) != 1 || !slices.Equal(got[0].Meta, meta("k="+long)) {
		t.Errorf("the roster is %v", got)
	}
	if !l.noted(core.NoteMeta, "a") {
		t.Error("nobody is told")
	}
}

// TestMetadataOfATopic goes to all its partitions: over what the source says, and below
// what is ordered for the partition. A partition that the source does not list belongs to
// the topic of all others, if there is one.
func TestMetadataOfATopic(t *testing.T) {
	l := newLeader(record.Partition{Name: "a", Topic: "t", Meta: meta("region=eu", "size=1")}, record.Partition{Name: "b", Topic: "t"})
	l.order(record.Orders{Add: []string{"c"}, Meta: []record.Meta{{Partition: "b", Pairs: meta("size=9")}},
		Topics: []record.Topic{{Name: "t", Pairs: meta("size=2", "team=x")}, {Name: "u", Pairs: meta("size=3")}}})
	want := []record.Partition{
		{Name: "a", Topic: "t", Meta: meta("region=eu", "size=2", "team=x")}, {Name: "b", Topic: "t", Meta: meta("size=9", "team=x")}, {Name: "c", Topic: "t", Meta: meta("size=2", "team=x")}}
	if got := l.entries(); !slices.EqualFunc(got, want, samePartition) {
		t.Errorf("the roster is %v, not %v", got, want)
	}
	l.listing[1].Topic = "u" // now there are two topics, and nobody knows of which c is
	l.step(core.Event{Kind: core.Listed, Complete: true, Listing: l.listing})
	l.advance(time.Second)
	want[1].Topic, want[1].Meta = "u", meta("size=9")
	want[2].Topic, want[2].Meta = "", nil
	if got := l.entries(); !slices.EqualFunc(got, want, samePartition) {
		t.Errorf("with two topics the roster is %v, not %v", got, want)
	}
}

// TestMetadataOfATopicThatDoesNotFitIsLeftOut keeps what is ordered for the partition.
func TestMetadataOfATopicThatDoesNotFitIsLeftOut(t *testing.T) {
	long := strings.Repeat("x", 3000)
	l := newLeader(record.Partition{Name: "a", Topic: "t", Meta: meta("k=" + long)})
	l.order(record.Orders{Topics: []record.Topic{{Name: "t", Pairs: meta("l=" + long)}}, Meta: []record.Meta{{Partition: "a", Pairs: meta("m=1")}}})
	if got := l.entries(); len(got) != 1 || !slices.Equal(got[0].Meta, meta("k="+long, "m=1")) {
		t.Errorf("the roster is %v", got)
	}
	if !l.noted(core.NoteMeta, "a") {
		t.Error("nobody is told")
	}
}

func samePartition(a, b record.Partition) bool {
	return a.Name == b.Name && a.Topic == b.Topic && a.Removed == b.Removed && slices.Equal(a.Meta, b.Meta)
}

// TestOrdersThatContradictThemselvesAreObeyedOnce: orders that add and remove the
// same partition can be written, though not by a command. The roster must come to
// rest.
func TestOrdersThatContradictThemselvesAreObeyedOnce(t *testing.T) {
	l := newLeader(record.Partition{Name: "a"})
	l.order(record.Orders{Add: []string{"b"}})
	l.order(record.Orders{Add: []string{"b"}, Remove: []string{"b"}})
	l.puts = 0
	l.advance(10 * time.Second)
	if got := l.entries(); l.puts > 0 || len(got) != 2 || !got[1].Removed {
		t.Errorf("the roster is %v, and was written %d times more", got, l.puts)
	}
}

func TestANameListedTwiceIsOnePartition(t *testing.T) {
	a, b := record.Partition{Name: "a"}, record.Partition{Name: "b", Meta: meta("size=2")}
	l := newLeader(a, b, b)
	if got := l.entries(); !slices.EqualFunc(got, []record.Partition{a, b}, samePartition) {
		t.Errorf("the roster is %v", got)
	}
}

// TestARosterThatIsRefusedIsNotTriedAgain until source or orders change; meanwhile
// plans use the roster that is in the store.
func TestARosterThatIsRefusedIsNotTriedAgain(t *testing.T) {
	l := newLeader(record.Partition{Name: "a"})
	l.refuses, l.puts = true, 0
	l.order(record.Orders{Add: []string{"b"}})
	l.advance(10 * time.Second)
	if l.puts != 1 || !l.noted(core.NoteBadRoster, "") {
		t.Errorf("it was tried %d times; told: %v", l.puts, l.noted(core.NoteBadRoster, ""))
	}
	if p := l.plan(); p.Orders != 1 {
		t.Errorf("the plan obeys orders %d", p.Orders)
	}
	l.refuses = false
	l.order(record.Orders{Add: []string{"c"}})
	if got := l.entries(); len(got) != 2 || got[1].Name != "c" {
		t.Errorf("the roster is %v", got)
	}
}

// TestWhatDrainsIsNotFree: a partition that its owner is still stopping is not
// free, even if the owner's record gives it up.
func TestWhatDrainsIsNotFree(t *testing.T) {
	l := newLeader(record.Partition{Name: "a"}, record.Partition{Name: "b"})
	l.member(record.Member{Session: 2, Name: "c2"})
	p := l.plan()
	l.member(record.Member{Session: 2, Name: "c2", Seq: 1, AckInc: p.Incarnation, AckGen: p.Gen})
	p = l.plan()
	i := slices.IndexFunc(p.Rows, func(r record.Row) bool { return r.Owner == 2 })
	if i < 0 {
		t.Fatalf("c2 owns nothing: %v", p.Rows)
	}
	own := p.Rows[i]
	m := record.Member{Session: 2, Name: "c2", Seq: 2, AckInc: p.Incarnation, AckGen: p.Gen,
		GaveUp: []record.GaveUp{{ID: record.ID(i), Token: own.Token}}, Stopping: []record.ID{record.ID(i)}}
	l.member(m)
	if r := l.plan().Rows[i]; r != own {
		t.Errorf("the row was %v and is %v", own, r)
	}
	m.Seq, m.Stopping = 3, nil
	l.member(m)
	if r := l.plan().Rows[i]; r.Owner == 2 && r.Token == own.Token {
		t.Errorf("the row stays %v", r)
	}
}

func TestOnlyTheLabelLimitLimits(t *testing.T) {
	l := newLeader(record.Partition{Name: "a"}, record.Partition{Name: "b"}, record.Partition{Name: "c"}, record.Partition{Name: "d"})
	l.member(record.Member{Session: 2, Name: "c2", Labels: meta("capacity=1", "limit=7", "pod=1")})
	to2 := 0
	for _, r := range l.plan().Rows {
		if r.To == 2 || r.Owner == 2 {
			to2++
		}
	}
	if to2 != 2 {
		t.Errorf("c2 is to have %d of 4 partitions", to2)
	}
}

// TestAPlanNamesTheServerOnceItIsKnown: the identity of the server arrives after
// the group was created. A leader that does not know it keeps the name that is in
// the plan.
func TestAPlanNamesTheServerOnceItIsKnown(t *testing.T) {
	l := newLeader(record.Partition{Name: "a"})
	if s := l.plan().Server; s != "" {
		t.Fatalf("the plan names server %q, which nobody knows", s)
	}
	l.step(core.Event{Kind: core.Server, Text: "s1"})
	l.order(record.Orders{Freeze: true})
	if s := l.plan().Server; s != "s1" {
		t.Errorf("the plan names server %q", s)
	}
	l.step(core.Event{Kind: core.Server})
	l.order(record.Orders{})
	if s := l.plan().Server; s != "s1" {
		t.Errorf("the plan names server %q", s)
	}
}

// TestAFailedCallIsTriedAgainALittleLater: a store that is down may fail at once. A
// call is retried after a back-off, or members would do nothing else, and succeeds
// once the store is back.
func TestAFailedCallIsTriedAgainALittleLater(t *testing.T) {
	l := newLeader(record.Partition{Name: "a"})
	l.deaf, l.calls = true, 0
	l.step(core.Event{Kind: core.Gap})
	l.advance(time.Second)
	if l.calls < 20 || l.calls > 60 { // four reads, each every 100 ms, and a heartbeat
		t.Errorf("%d calls in a second", l.calls)
	}
	l.deaf, l.calls = false, 0
	l.advance(time.Second)
	if l.calls > 10 {
		t.Errorf("%d calls in the second after", l.calls)
	}
	l.forgets, l.puts, l.calls = true, 0, 0
	l.order(record.Orders{Add: []string{"b"}})
	if l.puts < 5 || l.puts > 12 || l.calls > 40 {
		t.Errorf("a roster was written %d times in a second, with %d calls in all", l.puts, l.calls)
	}
	l.forgets = false
	l.advance(time.Second)
	if got := l.entries(); len(got) != 2 {
		t.Errorf("the roster is %v", got)
	}
}
