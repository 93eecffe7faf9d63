package check

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-dev/rota/internal/record"
)

// script reads a history out of arbitrary bytes. Its members and partitions
// exist, and anything else goes.
func script(data []byte) (events []Event) {
	var now int64
	for ; len(data) >= 4; data = data[4:] {
		b := data[:4]
		now += int64(b[3] >> 6)
		e := Event{
			Kind: Kind(b[0] % 16), Eager: b[0]&128 != 0, State: record.RowState(b[0]>>4) & 3,
			Who: int32(b[1] & 7), Part: int32(b[1]>>3) % 4, Burst: int32(b[1] >> 6),
			At: now, Until: now + int64(b[2]>>3) - 2,
			Token: record.MakeToken(uint32(b[3]>>3&1), uint32(b[2]&7)),
		}
		if e.Kind == Row && e.State == record.Free {
			e.Who = Nobody
		}
		events = append(events, e)
	}
	return events
}

// FuzzHistory: no history makes the checker panic, whoever asks for rest on the
// way; a violation once found stays; and a checker that was reset finds the
// same.
func FuzzHistory(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		data := make([]byte, r.IntN(400))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events := script(data)
		var c Checker
		c.Reset(2, 4)
		var first *Violation
		for _, e := range events {
			v := c.See(e)
			if first == nil && v != nil && v.At != e.At {
				t.Fatalf("%v is dated %d at %d", v, v.At, e.At)
			}
			if first != nil && v != first {
				t.Fatalf("first %v, then %v", first, v)
			}
			first = v
			c.Settled(Final{e.At, []int32{0, 1}, []int32{1, 0}, []int32{0, 1, 2, 3}})
		}
		c.Reset(0, 4)
		var again *Violation
		for _, e := range events {
			again = c.See(e)
		}
		if (first == nil) != (again == nil) || first != nil && *first != *again {
			t.Fatalf("first %v, after a reset %v", first, again)
		}
	})
}

// A rule is one that a group breaks, to see that it is missed.
type rule string

const (
	none         rule = ""
	stopFirst    rule = "a partition is freed when its owner has stopped"
	ownOnly      rule = "a member starts only what it owns"
	countTokens  rule = "each grant has a higher token"
	startOnce    rule = "a grant is started once"
	fencedIsOver rule = "who was declared dead has no lease any more"
	checkLease   rule = "an effect is begun within the lease"
	checkToken   rule = "the sink refuses lower tokens"
	haveReason   rule = "a plan has a reason"
	barrierFirst rule = "an eager grant waits for all"
	runAll       rule = "at the end all runs"
)

// A group plays random hand-overs by the rules, but for one that it may break.
// Who has lost its lease may hang and run on, be declared dead, or wake up.
type group struct {
	*history
	r        *rand.Rand
	breaks   rule
	eager    bool
	epoch    uint32 // of the store
	bursts   int32
	sessions []session
	rows     []held
	met      map[string]int
}

type session struct {
	lease         int64
	gone, fenced  bool
	runs, started [3]record.Token // what it runs, and what it need not start again
}

type held struct {
	state record.RowState
	owner int32
	token record.Token
	sink  record.Token // the last it took
}

const leaseTime = 10

func newGroup(seed uint64, breaks rule, met map[string]int) *group {
	g := &group{history: begin(new(Checker)), r: rand.New(rand.NewPCG(seed, 5)), breaks: breaks, met: met}
	g.eager = breaks == barrierFirst || breaks == none && seed%3 == 0
	g.rows = make([]held, 3)
	for range 3 {
		g.join()
	}
	return g
}

// play takes random steps and then comes to rest.
func (g *group) play(steps int) *Violation {
	for range steps {
		g.step()
	}
	g.end()
	return g.found
}

func (g *group) step() {
	who, p := g.anyone(func(s *session) bool { return !s.gone }), int32(g.r.IntN(len(g.rows)))
	switch g.r.IntN(16) {
	case 0:
		g.now += g.r.Int64N(leaseTime)
	case 1, 2:
		g.now++
	case 3, 4, 5:
		g.beat(who)
	case 6:
		if g.r.IntN(4) == 0 {
			g.crash(who)
		}
	case 7:
		g.declare(int32(g.r.IntN(len(g.sessions))))
	case 8:
		g.move(p)
	case 9, 10:
		g.confirm(p)
	case 11:
		g.give(p)
	case 12, 13:
		g.run(p)
	default:
		g.work(p)
	}
}

// anyone picks one of those that ok likes; there always is one.
func (g *group) anyone(ok func(s *session) bool) int32 {
	var some []int32
	for i := range g.sessions {
		if ok(&g.sessions[i]) {
			some = append(some, int32(i))
		}
	}
	if len(some) == 0 {
		g.join()
		return int32(len(g.sessions) - 1)
	}
	return some[g.r.IntN(len(some))]
}

func (g *group) heir() int32 {
	return g.anyone(func(s *session) bool { return !s.gone && !s.fenced && s.lease > g.now })
}

func (g *group) live(who int32) bool  { return !g.sessions[who].gone && !g.sessions[who].fenced }
func (g *group) valid(who int32) bool { return g.live(who) && g.sessions[who].lease > g.now }

func (g *group) join() {
	g.sessions = append(g.sessions, session{})
	g.change()
	g.beat(int32(len(g.sessions) - 1))
}

// beat renews a lease. Who had lost it stops all first and may then start again
// what is still its own.
func (g *group) beat(who int32) {
	s := &g.sessions[who]
	if s.gone || s.fenced && g.breaks != fencedIsOver {
		return
	}
	if !s.fenced && s.lease <= g.now {
		for p := range s.runs {
			g.halt(who, int32(p))
		}
		g.met["resumed"]++
		g.resume(who)
		clear(s.started[:])
	}
	s.lease = g.now + leaseTime
	g.lease(who, s.lease)
}

func (g *group) halt(who, p int32) {
	if s := &g.sessions[who]; s.runs[p] != 0 {
		g.stop(who, p)
		s.runs[p] = 0
	}
}

func (g *group) crash(who int32) {
	if s := &g.sessions[who]; !s.gone {
		g.gone(who)
		s.gone, s.lease, s.runs = true, 0, [3]record.Token{}
		g.met["gone"]++
	}
}

// declare ends a session that has no lease, and what it owned is free.
func (g *group) declare(who int32) {
	s := &g.sessions[who]
	if s.fenced || s.lease > g.now {
		return
	}
	s.fenced = true
	g.met["declared"]++
	g.change()
	for p := range g.rows {
		if row := &g.rows[p]; row.state != record.Free && row.owner == who {
			g.release(int32(p))
		}
	}
	if g.r.IntN(8) > 0 {
		g.join()
	}
}

func (g *group) release(p int32) {
	g.rows[p].state = record.Free
	g.free(p, g.rows[p].token)
}

// move plans: eagerly everything is revoked, otherwise p alone.
func (g *group) move(p int32) {
	if g.breaks != haveReason {
		g.bursts++
		for range 1 + g.r.IntN(3) {
			g.burst(g.bursts)
		}
	}
	g.plan()
	for i := range g.rows {
		if row := &g.rows[i]; row.state == record.Owned && (g.eager || int32(i) == p) {
			row.state = record.Revoking
			g.revoking(int32(i), row.owner, row.token)
		}
	}
}

// confirm: the owner of what is revoked stops it, and it is free, or at once
// another's.
func (g *group) confirm(p int32) {
	row := &g.rows[p]
	if row.state != record.Revoking || !g.live(row.owner) {
		return
	}
	if g.breaks != stopFirst {
		g.halt(row.owner, p)
	}
	if !g.eager && g.r.IntN(2) == 0 {
		g.met["freed and granted in one"]++
		g.hand(p, g.heir())
		return
	}
	g.release(p)
}

// give grants p, or eagerly everything, once nothing runs any more.
func (g *group) give(p int32) {
	busy := slices.ContainsFunc(g.rows, func(row held) bool { return row.state != record.Free })
	if g.eager && busy && g.breaks != barrierFirst {
		return
	}
	for i := range g.rows {
		if g.rows[i].state == record.Free && (g.eager || int32(i) == p) {
			g.hand(int32(i), g.heir())
		}
	}
}

func (g *group) hand(p, to int32) {
	if g.r.IntN(8) == 0 {
		g.epoch++
	}
	row := &g.rows[p]
	if g.breaks != countTokens || row.token == 0 {
		row.token = record.MakeToken(g.epoch, row.token.Counter()+1)
	}
	row.state, row.owner = record.Owned, to
	if g.eager {
		g.met["granted eagerly"]++
		g.grantEagerly(p, to, row.token)
	} else {
		g.grant(p, to, row.token)
	}
}

// run starts what is granted, also when it is being revoked already.
func (g *group) run(p int32) {
	row := g.rows[p]
	who := row.owner
	if g.breaks == ownOnly {
		who = g.heir()
	} else if row.state == record.Free {
		return
	}
	s := &g.sessions[who]
	if again := s.runs[p] != 0 || s.started[p] == row.token; !g.valid(who) || again && g.breaks != startOnce {
		return
	}
	if row.state == record.Revoking {
		g.met["started late"]++
	}
	s.runs[p], s.started[p] = row.token, row.token
	g.start(who, p, row.token)
}

// work: all who run p send an effect to the sink, a former owner too.
func (g *group) work(p int32) {
	row := &g.rows[p]
	for _, i := range g.r.Perm(len(g.sessions)) {
		who, s := int32(i), &g.sessions[i]
		t := s.runs[p]
		if t == 0 {
			continue
		}
		if s.lease > g.now || g.breaks == checkLease {
			g.act(who, p, t)
		}
		if t < row.sink && g.breaks != checkToken {
			g.met["refused"]++
			g.refuse(who, p, t)
			continue
		}
		g.accept(who, p, t)
		row.sink = t
	}
}

// end: the dead are declared dead, the others get everything and run it.
func (g *group) end() {
	var live []int32
	g.now += 2 * leaseTime
	g.join()
	for who := range g.sessions {
		g.beat(int32(who))
		if g.valid(int32(who)) {
			live = append(live, int32(who))
		} else {
			g.declare(int32(who))
		}
	}
	g.move(0)
	for p := range g.rows {
		g.confirm(int32(p))
	}
	parts := []int32{q0, q1, q2}
	for _, p := range parts {
		g.give(p)
	}
	for _, p := range parts {
		if g.breaks != runAll {
			g.run(p)
		}
	}
	g.rest(live, live, parts)
}

func TestLawfulGroupsBreakNothing(t *testing.T) {
	met := map[string]int{}
	for seed := range uint64(1500) {
		if v := newGroup(seed, none, met).play(200); v != nil {
			t.Fatalf("seed %d: %v", seed, v)
		}
	}
	for _, what := range []string{"resumed", "gone", "declared", "refused", "started late", "granted eagerly", "freed and granted in one"} {
		if met[what] < 100 {
			t.Errorf("%s: met %d times, so little is shown", what, met[what])
		}
	}
	t.Log(met)
}

func TestAGroupWithoutOneRuleIsCaught(t *testing.T) {
	tests := []struct {
		rule rule
		want string
	}{
		{fencedIsOver, "I1"}, {checkLease, "I1"}, {checkToken, "I2"}, {countTokens, "I3"}, {stopFirst, "I4"},
		{ownOnly, "I4"}, {haveReason, "I5"}, {barrierFirst, "I6"}, {startOnce, "I7"}, {runAll, "L1"},
	}
	for _, test := range tests {
		found := map[string]int{}
		for seed := range uint64(250) {
			if v := newGroup(seed, test.rule, map[string]int{}).play(200); v != nil {
				found[v.Invariant]++
			}
		}
		if found[test.want] < 10 {
			t.Errorf("without %q: found %v, want %s", test.rule, found, test.want)
		}
		t.Log(test.rule, found)
	}
}
