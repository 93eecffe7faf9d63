package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// A crew is a group within the test, on an embedded NATS: its members come back
// when others ended them, and it sees whether two ever run one partition.
type crew struct {
	t      *testing.T
	dir    string
	store  rota.Store
	wg     sync.WaitGroup
	mu     sync.Mutex
	run    map[string]int
	starts int
	twice  []string
}

func newCrew(t *testing.T) *crew {
	c := &crew{t: t, dir: t.TempDir() + "/data", run: map[string]int{}}
	c.store = embedded.Store("embed:" + c.dir)
	t.Cleanup(func() {
		c.wg.Wait()
		c.store.Close()
		for _, p := range c.twice {
			t.Errorf("two ran %s at once", p)
		}
	})
	return c
}

// join starts a member, which ends with the test.
func (c *crew) join(name string, lease time.Duration) {
	c.t.Helper()
	store := embedded.Store("embed:" + c.dir)
	m, err := rota.New(rota.Config{Group: "g", Name: name, Store: store, Source: rota.Func([]string{"a", "b", "c", "d"}, c.work),
		Lease: lease, Heartbeat: lease / 4, Rejoin: true, NewGroup: true})
	if err != nil {
		c.t.Fatal(err)
	}
	c.wg.Go(func() {
		defer store.Close()
		if err := m.Run(c.t.Context()); err != nil {
			c.t.Errorf("%s: %v", name, err)
		}
	})
}

func (c *crew) work(ctx context.Context, own rota.Ownership) error {
	c.mu.Lock()
	c.run[own.Partition()]++
	c.starts++
	if c.run[own.Partition()] > 1 {
		c.twice = append(c.twice, own.Partition())
	}
	c.mu.Unlock()
	own.Started()
	select {
	case <-own.Stop():
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.run[own.Partition()]--
	c.mu.Unlock()
	return nil
}

func (c *crew) started() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts
}

// rests waits until all is well: one owner each, all at work, nothing to mend.
func (c *crew) rests(members int) {
	c.t.Helper()
	var last string
	defer func() {
		if c.t.Failed() {
			c.t.Log(last)
		}
	}()
	trial.Until(c.t, "the group to be at rest", func() bool {
		st, err := rota.Inspect(c.t.Context(), c.store, "g")
		last = fmt.Sprintf("%v: %+v", err, st)
		if err != nil || st.Hold || st.Phase != rota.Sentinel || len(st.Partitions) != 4 {
			return false
		}
		live := 0
		for _, m := range st.Members {
			if m.State == "LIVE" {
				live++
			}
		}
		for _, p := range st.Partitions {
			if p.State != "OWNED" {
				return false
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, name := range []string{"a", "b", "c", "d"} {
			if c.run[name] != 1 {
				return false
			}
		}
		return live == members
	})
}

// rota runs a command on the crew's group.
func (c *crew) rota(args ...string) (code int, stdout, stderr string) {
	return rotaRuns(c.t.Context(), append(args, "--group", "g", "--store", "embed:"+c.dir)...)
}

func (c *crew) must(args ...string) string {
	c.t.Helper()
	code, stdout, stderr := c.rota(args...)
	if code != 0 || stderr != "" {
		c.t.Fatalf("rota %s: exit %d, %q\n%s", strings.Join(args, " "), code, stderr, stdout)
	}
	return stdout
}

// spoil changes what stands under a key, whoever writes there too.
func (c *crew) spoil(key string, to func([]byte) []byte) rota.Rev {
	c.t.Helper()
	for {
		e, err := c.store.Get(c.t.Context(), key)
		if err != nil && err != rota.ErrNotFound {
			c.t.Fatal(err)
		}
		rev, err := c.store.Put(c.t.Context(), key, to(e.Value), e.Rev)
		if err == nil {
			return rev
		}
	}
}

func (c *crew) get(key string) (rota.Entry, bool) {
	e, err := c.store.Get(c.t.Context(), key)
	return e, err == nil
}

// plan reads the plan that stands in the store.
func (c *crew) plan() *record.Plan {
	c.t.Helper()
	e, err := c.store.Get(c.t.Context(), "g/plan")
	if err != nil {
		c.t.Fatal(err)
	}
	p, err := record.DecodePlan(e.Value)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// sessions finds the live session of a name.
func (c *crew) session(name string) string {
	c.t.Helper()
	st, err := rota.Inspect(c.t.Context(), c.store, "g")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range st.Members {
		if m.Name == name && m.State == "LIVE" {
			return m.Session
		}
	}
	c.t.Fatalf("%s does not live: %+v", name, st.Members)
	return ""
}

func encoded(t *testing.T, x record.Record) []byte {
	t.Helper()
	return x.Append(nil) // also what nobody would write
}

const crewLease = 2 * time.Second

// TestWhateverStandsInTheStoreCanBeMended: each record is spoilt in each way while
// members run. Check names it, nothing is written before somebody says so, and
// repair, or reset where the record can be read, brings all partitions back; no two
// members ever run one.
func TestWhateverStandsInTheStoreCanBeMended(t *testing.T) {
	t.Setenv("ROTA_YES", "true") // a leave that was given for something else
	c := newCrew(t)
	c.join("c1", crewLease)
	c.join("c2", crewLease)
	c.rests(2)
	junk := func([]byte) []byte { return []byte("junk") }
	future := func(kind byte) func([]byte) []byte { return func([]byte) []byte { return []byte{kind, 127, 1, 2, 3} } }
	for _, key := range []string{"history", "loads", "member/nobody", "member/0000000000000abc"} {
		c.spoiltAndMended(key, junk)
	}
	for _, x := range []struct {
		key string
		to  func([]byte) []byte
	}{
		{"orders", junk}, {"roster", junk}, {"plan", junk},
		{"orders", future('O')}, {"roster", future('R')}, {"plan", future('P')}, {"history", future('H')},
		{"plan", func(b []byte) []byte {
			p, err := record.DecodePlan(b)
			if err != nil {
				t.Fatal(err)
			}
			worn := *p
			worn.Gen, worn.Term, worn.ID, worn.Decided = math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64
			return encoded(t, &worn)
		}},
		{"plan", func(b []byte) []byte {
			p, err := record.DecodePlan(b)
			if err != nil {
				t.Fatal(err)
			}
			worn := *p
			worn.Gen, worn.Term, worn.ID, worn.Decided, worn.Orders, worn.Roster = 1<<62, 1<<62, 1<<62, 1<<62, 1<<62, (1<<32-1<<20)<<32 // the last that can be read
			return encoded(t, &worn)
		}},
		{"roster", func(b []byte) []byte {
			r, err := record.DecodeRoster(b)
			if err != nil {
				t.Fatal(err)
			}
			return encoded(t, &record.Roster{Ver: math.MaxUint64, Entries: r.Entries})
		}},
		{"roster", func(b []byte) []byte {
			r, err := record.DecodeRoster(b)
			if err != nil {
				t.Fatal(err)
			}
			return encoded(t, &record.Roster{Ver: (1<<32 - 1<<20) << 32, Entries: r.Entries})
		}},
		{"orders", func([]byte) []byte { return encoded(t, &record.Orders{Ver: 1 << 62}) }},
		{"orders", func([]byte) []byte { return encoded(t, &record.Orders{Ver: math.MaxUint64}) }},
	} {
		c.spoiltAndMended(x.key, x.to)
	}
	for _, to := range []func([]byte) []byte{junk, future('M'), func(b []byte) []byte {
		m, err := record.DecodeMember(b)
		if err != nil {
			t.Fatal(err)
		}
		worn := *m
		worn.Seq, worn.AckGen, worn.Lease = math.MaxUint64, math.MaxUint64, 25*time.Hour
		return encoded(t, &worn)
	}} {
		c.spoiltAndMended("member/"+c.session("c2"), to)
	}
	c.spoiltAndMended("member/"+c.plan().Leader.String(), junk)
	c1, c2 := c.session("c1"), c.session("c2")
	for _, key := range []string{"orders", "roster", "member/" + c1, "member/" + c2} {
		c.spoil("g/"+key, junk)
	}
	c.spoiltAndMended("plan", junk)
	if got := c.must("group", "repair"); !strings.Contains(got, "there is nothing to repair") {
		t.Errorf("repair of a sound group says %q", got)
	}
	log, _ := c.get("g/orders")
	if o, err := record.DecodeOrders(log.Value); err != nil || len(o.Log) == 0 || o.Log[len(o.Log)-1].What != "group repair" || o.Log[len(o.Log)-1].Who != operator() {
		t.Errorf("the log of orders says %+v, %v", o, err)
	}
}

func (c *crew) spoiltAndMended(key string, to func([]byte) []byte) {
	c.t.Helper()
	t := c.t
	rev := c.spoil("g/"+key, to)
	code, stdout, stderr := c.rota("group", "check")
	if code != cli.ExitUndone || stderr != "" || !strings.Contains(stdout, "g/"+key) {
		t.Errorf("%s: check: exit %d, %q\n%s", key, code, stderr, stdout)
	}
	var found struct {
		Troubles []trouble
	}
	if _, text, _ := c.rota("group", "check", "-o", "json"); json.Unmarshal([]byte(text), &found) != nil || len(found.Troubles) == 0 {
		t.Errorf("%s: check -o json says %s", key, text)
	}
	if code, _, stderr := c.rota("status"); key == "plan" && strings.Contains(stdout, helpRepair) && (code != 1 || !strings.Contains(stderr, "rota group repair mends it")) {
		t.Errorf("status without a plan: exit %d, %q", code, stderr)
	}
	mend := "repair"
	if strings.Contains(stdout, helpReset) && !strings.Contains(stdout, helpRepair) {
		mend = "reset"
	}
	if mend == "repair" {
		said := c.shows(key, rev)
		t.Logf("%s", said)
	}
	var args []string
	if mend == "repair" {
		args = []string{"--longest-lease", crewLease.String()}
	}
	c.must(append([]string{"group", mend, "--yes", "--why", "test"}, args...)...)
	c.rests(2)
	trial.Until(t, "nothing to be wrong", func() bool {
		code, stdout, _ = c.rota("group", "check")
		return code == 0 && strings.Contains(stdout, "nothing is wrong")
	})
	t.Logf("%s mended by %s", key, mend)
}

// shows asks for a repair without leave, and sees that nothing was written.
func (c *crew) shows(key string, rev rota.Rev) string {
	c.t.Helper()
	code, stdout, stderr := c.rota("group", "repair", "--longest-lease", crewLease.String())
	if code != cli.ExitUndone || !strings.Contains(stdout, "g/"+key) || stderr != "rota: nothing was done; --yes does it\n" {
		c.t.Errorf("%s: repair without leave: exit %d, %q\n%s", key, code, stderr, stdout)
	}
	if e, ok := c.get("g/" + key); !ok || e.Rev != rev {
		c.t.Errorf("%s: it was at revision %d and is at %d: somebody wrote without leave", key, rev, e.Rev)
	}
	return stdout
}

// TestRepairKeepsWhatIsStopped: orders that nobody can read are written anew, and
// what they had paused or removed does not start.
func TestRepairKeepsWhatIsStopped(t *testing.T) {
	c := newCrew(t)
	c.join("c1", crewLease)
	c.rests(1)
	c.must("pause", "b")
	c.must("partitions", "remove", "c")
	quiet := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.run["a"] == 1 && c.run["b"] == 0 && c.run["c"] == 0 && c.run["d"] == 1
	}
	trial.Until(t, "b and c to stop", func() bool {
		st, err := rota.Inspect(t.Context(), c.store, "g")
		return err == nil && st.Phase == rota.Sentinel && st.Partitions[1].Reason == "paused" && st.Partitions[2].Reason == "removed" && quiet()
	})
	before, inc := c.started(), c.plan().Incarnation
	c.spoil("g/orders", func([]byte) []byte { return []byte("junk") })
	if code, _, stderr := c.rota("resume", "b"); code != 1 || !strings.Contains(stderr, "rota group repair mends it") {
		t.Errorf("an order to orders that nobody can read: exit %d, %q", code, stderr)
	}
	said := c.must("group", "repair", "--yes")
	trial.In(t, said, "paused stay b", "removed stay c")
	trial.Until(t, "the plan to obey the new orders", func() bool {
		e, _ := c.get("g/orders")
		o, err := record.DecodeOrders(e.Value)
		return err == nil && c.plan().Orders == o.Ver
	})
	if !quiet() || c.started() != before || c.plan().Incarnation != inc {
		t.Errorf("%v run, %d were started, incarnation %d after %d", c.run, c.started()-before, c.plan().Incarnation, inc)
	}
	c.must("resume", "b")
	trial.Until(t, "b to run", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.run["b"] == 1 })
}

// TestRepairOfAMembersRecordEndsThatSessionAlone: the record of an owner cannot be
// read. Its partitions go to others only after the lease it may have, without a new
// incarnation, and what others run is not touched.
func TestRepairOfAMembersRecordEndsThatSessionAlone(t *testing.T) {
	c := newCrew(t)
	c.join("c1", crewLease)
	c.rests(1)
	c.join("c2", crewLease)
	c.rests(2)
	was, inc := c.session("c2"), c.plan().Incarnation
	c.spoil("g/member/"+was, func([]byte) []byte { return []byte("junk") })
	began := time.Now()
	trial.In(t, c.must("group", "repair", "--yes", "--longest-lease", crewLease.String()), "write that the session is dead", "its partitions get other owners")
	if took := time.Since(began); took < DeadAfter(crewLease) {
		t.Errorf("it waited %v for a lease of %v", took, crewLease)
	}
	e, _ := c.get("g/member/" + was)
	if m, err := record.DecodeMember(e.Value); err != nil || m.State != record.Dead || m.Proof {
		t.Errorf("its record is %+v, %v", m, err)
	}
	c.rests(2)
	if now := c.session("c2"); now == was {
		t.Errorf("c2 goes on as %s", was)
	}
	if c.plan().Incarnation != inc {
		t.Errorf("incarnation %d after %d", c.plan().Incarnation, inc)
	}
}

// TestRepairRefusesWhatHasChanged: between what was shown and what is done somebody
// wrote. Nothing of that record is touched.
func TestRepairRefusesWhatHasChanged(t *testing.T) {
	ctx, store := t.Context(), rotatest.NewMemStore()
	put := func(key, value string, prev rota.Rev) rota.Rev {
		t.Helper()
		rev, err := store.Put(ctx, key, []byte(value), prev)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	for _, key := range []string{"g/plan", "g/roster", "g/orders", "g/history", "g/loads", "g/member/0000000000000abc"} {
		put(key, "junk", 0)
	}
	for _, key := range []string{"g/plan", "g/roster", "g/orders", "g/history", "g/loads", "g/member/0000000000000abc"} {
		s, err := surveyOf(ctx, store, "g")
		if err != nil {
			t.Fatal(err)
		}
		d := s.repair(store, time.Millisecond)
		e, _ := store.Get(ctx, key)
		put(key, "other junk", e.Rev)
		for _, step := range d.steps {
			if step.Key != key {
				continue
			}
			if err := step.carryOut(ctx); err != errChanged {
				t.Errorf("%s: %v", key, err)
			}
		}
		if e, _ := store.Get(ctx, key); string(e.Value) != "other junk" {
			t.Errorf("%s holds %q", key, e.Value)
		}
	}
	// A key that nobody needs holds up no other; one that others rest on does.
	s, err := surveyOf(ctx, store, "g")
	if err != nil {
		t.Fatal(err)
	}
	d := s.repair(store, time.Millisecond)
	for _, key := range []string{"g/history", "g/orders"} {
		e, _ := store.Get(ctx, key)
		put(key, "junk again", e.Rev)
	}
	var said []string
	err = d.carryOut(ctx, func(text string) { said = append(said, text) })
	if err == nil || !strings.Contains(err.Error(), "g/orders: it has changed since it was shown") || !strings.Contains(err.Error(), "the other 2") {
		t.Errorf("%v", err)
	}
	if got := strings.Join(said, "\n"); !strings.Contains(got, "not done: g/history") || !strings.Contains(got, "done: g/loads") || strings.Contains(got, "g/plan") || strings.Contains(got, "g/roster") {
		t.Errorf("it said\n%s", got)
	}
}

// TestNoSessionIsForgottenThatThePlanNamesByNow: a leader that knows an older version
// of a record may plan for its session after the survey.
func TestNoSessionIsForgottenThatThePlanNamesByNow(t *testing.T) {
	ctx, store := t.Context(), rotatest.NewMemStore()
	put := func(key string, value []byte, prev rota.Rev) rota.Rev {
		t.Helper()
		rev, err := store.Put(ctx, key, value, prev)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	p := &record.Plan{Incarnation: 1, Gen: 1, Term: 1, Write: 1}
	rev := put("g/plan", encoded(t, p), 0)
	put("g/member/0000000000000abc", []byte("junk"), 0)
	s, err := surveyOf(ctx, store, "g")
	if err != nil {
		t.Fatal(err)
	}
	d := s.repair(store, time.Millisecond)
	if len(d.steps) != 1 || d.wait != 0 {
		t.Fatalf("%+v", d)
	}
	p.Gen, p.Members = 2, []record.Session{0xabc}
	put("g/plan", encoded(t, p), rev)
	if err := d.steps[0].carryOut(ctx); err != errChanged {
		t.Errorf("it was taken away: %v", err)
	}
}

// TestResetCountsOnWhateverWasCounted: the plan that a reset writes can be read, is of
// a higher incarnation, and holds; counters at their end begin again.
func TestResetCountsOnWhateverWasCounted(t *testing.T) {
	wall := wallIncarnation()
	far := record.Token(math.MaxUint64)
	for _, x := range []struct {
		name    string
		was     record.Plan
		members []*record.Member
		inc     uint32 // at least
		back    bool
	}{
		{"usual", record.Plan{Incarnation: 7, Gen: 9, Term: 3, ID: 4, Roster: 5, Rows: []record.Row{{State: record.Owned, Owner: 1, Token: record.MakeToken(7, 2), Rev: 8}}}, nil, wall, false},
		{"ahead of the clock", record.Plan{Incarnation: wall + 9, Gen: 9, Term: 3}, nil, wall + 10, false},
		{"worn", record.Plan{Incarnation: wall + 9, Gen: 1 << 62, Decided: 1 << 62, Term: 1 << 62, ID: 1 << 62, Roster: wornRoster + 1, Orders: 1 << 62,
			Rows: []record.Row{{State: record.Owned, Owner: 1, Token: record.MakeToken(7, math.MaxUint32), Rev: 1 << 62}}}, nil, wall + 10, false},
		{"last incarnation", record.Plan{Incarnation: math.MaxUint32, Gen: 9, Term: 3, Rows: []record.Row{{Token: far}}}, nil, wall, true},
	} {
		s := &survey{group: "g", plan: &x.was, members: x.members}
		b, back, err := s.nextPlan(s.plan, "server")
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		p, err := record.DecodePlan(b)
		if err != nil || p.Incarnation < x.inc || back != x.back || !p.Hold || p.Leader != 0 || worn(p) || p.Server != "server" || p.Decided != p.Gen {
			t.Errorf("%s: %v: %+v, back %v", x.name, err, p, back)
		}
		if x.name == "usual" && (p.Gen != 10 || p.Term != 3 || p.ID != 4 || p.Roster != 5 || p.Rows[0] != x.was.Rows[0]) {
			t.Errorf("%s: %+v", x.name, p)
		}
		if x.was.Write == p.Write {
			t.Errorf("%s: the write has no number", x.name)
		}
	}
	// Without a plan that can be read, members tell; what they cannot have seen is not believed.
	s := &survey{members: []*record.Member{{AckInc: wall + 50}, {AckInc: math.MaxUint32}}}
	b, back, err := s.nextPlan(nil, "")
	if p, derr := record.DecodePlan(b); err != nil || derr != nil || back || p.Incarnation != wall+51 || !p.Hold {
		t.Errorf("%v, %v, %v: %+v", err, derr, back, p)
	}
}

// TestResetWaitsForRepair: a leader under a hold waits for every lease that it can
// read of, and for no other.
func TestResetWaitsForRepair(t *testing.T) {
	ctx, store := t.Context(), rotatest.NewMemStore()
	for key, value := range map[string][]byte{"g/plan": encoded(t, &record.Plan{Incarnation: 1, Gen: 1, Term: 1, Write: 1}), "g/member/0000000000000abc": []byte("junk")} {
		if _, err := store.Put(ctx, key, value, 0); err != nil {
			t.Fatal(err)
		}
	}
	s, err := surveyOf(ctx, store, "g")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.reset(store); err == nil || !strings.Contains(err.Error(), "g/member/0000000000000abc cannot be read: rota group repair comes first") {
		t.Errorf("reset: %v", err)
	}
}

// TestCheckTellsWhatIsWrongWithRecordsThatCanBeRead goes through all that can be.
func TestCheckTellsWhatIsWrongWithRecordsThatCanBeRead(t *testing.T) {
	now := time.Now()
	live := func(session record.Session, name string, lease, silent time.Duration) *record.Member {
		return &record.Member{Session: session, Name: name, Lease: lease, Beat: lease / 4, Sent: now.Add(-silent).UnixMilli(), Seq: 1}
	}
	plan := func(change func(p *record.Plan)) *record.Plan {
		p := &record.Plan{Incarnation: 5, Gen: 3, Term: 1, Write: 1, Leader: 1, Members: []record.Session{1}, Roster: 2, Orders: 2,
			Rows: []record.Row{{State: record.Owned, Owner: 1, Token: record.MakeToken(5, 1)}}}
		change(p)
		return p
	}
	well := func(*record.Plan) {}
	for _, x := range []struct {
		says    string // "" if all is well
		plan    *record.Plan
		roster  uint64
		orders  uint64
		members []*record.Member
	}{
		{"", plan(well), 2, 2, nil},
		{"there is no plan", nil, 2, 2, nil},
		{"gen is 2305843009213693953: that cannot be counted on", plan(func(p *record.Plan) { p.Gen = 1<<61 + 1 }), 2, 2, nil},
		{"ver is 18437736874454810625: that cannot be counted on", plan(well), wornRoster + 1, 2, nil},
		{"ver is 2305843009213693953: that cannot be counted on", plan(well), 2, 1<<61 + 1, nil},
		{"incarnation is 4294967295, ", plan(func(p *record.Plan) { p.Incarnation = math.MaxUint32 }), 2, 2, nil},
		{"tokens are nearly used up of p0", plan(func(p *record.Plan) { p.Rows[0].Token = record.MakeToken(5, math.MaxUint32) }), 2, 2, nil},
		{"it names owners without a record: 0000000000000009", plan(func(p *record.Plan) { p.Rows[0].Owner = 9 }), 2, 2, nil},
		{"it names members without a record: 0000000000000009", plan(func(p *record.Plan) { p.Members = []record.Session{1, 9} }), 2, 2, nil},
		{"it has version 1, and the plan obeys 2", plan(well), 1, 2, nil},
		{"it has version 1, and the plan obeys 2", plan(well), 2, 1, nil},
		{"c2 (LIVE) has been silent for 7 s, longer than its lease of 5s", plan(well), 2, 2, []*record.Member{live(2, "c2", 5*time.Second, 7*time.Second)}},
		{"c2 (LIVE) has been silent for 16 s, 3 heartbeats", plan(well), 2, 2, []*record.Member{live(2, "c2", 20*time.Second, 16*time.Second)}},
		{"c2 has a lease of 24h0m0s, more than four times that of c1, which leads, 5s", plan(well), 2, 2, []*record.Member{live(2, "c2", 24*time.Hour, 0)}},
		{"c2 led, and ended on a bug of rota over the plan", plan(func(p *record.Plan) { p.Decided = 3 }), 2, 2, []*record.Member{{Session: 2, Name: "c2", Lease: 5 * time.Second, Beat: time.Second, State: record.Left, Bug: 3}}},
		{"c2 has applied a plan of incarnation 6, and the one that stands here is of 5", plan(well), 2, 2, []*record.Member{{Session: 2, Name: "c2", Lease: 5 * time.Second, Beat: time.Second, Sent: now.UnixMilli(), AckInc: 6}}},
	} {
		store := rotatest.NewMemStore()
		put := func(key string, r record.Record) {
			t.Helper()
			if _, err := store.Put(t.Context(), "g/"+key, encoded(t, r), 0); err != nil {
				t.Fatal(err)
			}
		}
		if x.plan != nil {
			put("plan", x.plan)
		}
		put("roster", &record.Roster{Ver: x.roster, Entries: []record.Partition{{Name: "p0"}}})
		put("orders", &record.Orders{Ver: x.orders})
		for _, m := range append(x.members, live(1, "c1", 5*time.Second, 0)) {
			put("member/"+m.Session.String(), m)
		}
		s, err := surveyOf(t.Context(), store, "g")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		found := s.troubles(now)
		if err := printTroubles(&out, "table", s, found); err != nil {
			t.Fatal(err)
		}
		switch {
		case x.says == "" && len(found) != 0, x.says != "" && len(found) != 1 || !strings.Contains(out.String(), x.says):
			t.Errorf("%q: %d found\n%s", x.says, len(found), &out)
		}
		for _, f := range found {
			if f.Members == "" || f.Help == "" {
				t.Errorf("%q: %+v", x.says, f)
			}
		}
	}
}

// TestWhatOthersWroteIsShownPlainly: keys and names come from whoever may write.
func TestWhatOthersWroteIsShownPlainly(t *testing.T) {
	store := rotatest.NewMemStore()
	nasty := "g/x\x1b[2Jy"
	if _, err := store.Put(t.Context(), nasty, []byte("junk"), 0); err != nil {
		t.Fatal(err)
	}
	s, err := surveyOf(t.Context(), store, "g")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printTroubles(&out, "table", s, s.troubles(time.Now())); err != nil {
		t.Fatal(err)
	}
	showDraft(&out, s.repair(store, 0))
	if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "the store's own tools") {
		t.Errorf("%q", out.String())
	}
}

func TestOnlyTheWholeWordIsAYes(t *testing.T) {
	for typed, want := range map[string]bool{"yes\n": true, " YES \n": true, "yes": true, "y\n": false, "\n": false, "": false, "no\n": false} {
		var out strings.Builder
		if got, err := ask(strings.NewReader(typed), &out); got != want || err != nil || out.String() != "Do this? Type yes: " {
			t.Errorf("%q: %v, %v, %q", typed, got, err, out.String())
		}
	}
}

// TestWhoBeatsIsNotDeclaredDead: a heartbeat while the command looks, or between what
// it has shown and what it does, shows that the member lives. Of several with one
// name the session says which is meant.
func TestWhoBeatsIsNotDeclaredDead(t *testing.T) {
	ctx, store := t.Context(), rotatest.NewMemStore()
	put := func(m record.Member, prev rota.Rev) rota.Rev {
		t.Helper()
		rev, err := store.Put(ctx, "g/member/"+m.Session.String(), encoded(t, &m), prev)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	c1 := record.Member{Session: 1, Name: "c1", Lease: time.Hour, Beat: 200 * time.Millisecond, Seq: 1}
	twin := record.Member{Session: 2, Name: "c1", Lease: time.Hour, Beat: time.Second, Seq: 1}
	rev := put(c1, 0)
	look := func() (*survey, *standing) {
		t.Helper()
		s, err := surveyOf(ctx, store, "g")
		if err != nil {
			t.Fatal(err)
		}
		return s, s.record(1)
	}
	s, x := look()
	if err := watchBeat(ctx, store, s.member(1), x); err != nil {
		t.Errorf("a silent one: %v", err)
	}
	d := s.declareDead(store, s.member(1), x)
	c1.Seq++
	put(c1, rev)
	if err := watchBeat(ctx, store, s.member(1), x); err == nil || !strings.Contains(err.Error(), "c1 lives: ") {
		t.Errorf("one that beats: %v", err)
	}
	if err := d.steps[0].carryOut(ctx); err == nil || !strings.Contains(err.Error(), "c1 lives: its record has changed since it was shown") {
		t.Errorf("one that has beaten: %v", err)
	}
	put(twin, 0)
	s, x = look()
	if _, err := s.choose("c1", ""); err == nil || !cli.IsUsage(err) || !strings.Contains(err.Error(), "0000000000000001 (LIVE") || !strings.Contains(err.Error(), "0000000000000002 (LIVE") {
		t.Errorf("two of one name: %v", err)
	}
	m, err := s.choose("c1", "0000000000000001")
	if err != nil || m.Session != 1 {
		t.Fatalf("%v: %+v", err, m)
	}
	if err := s.declareDead(store, m, x).steps[0].carryOut(ctx); err != nil {
		t.Fatal(err)
	}
	s, _ = look()
	if m := s.member(1); m.State != record.Dead || !m.Proof || m.Seq != c1.Seq {
		t.Errorf("its record says %+v", m)
	}
	if m, err := s.choose("c1", ""); err != nil || m.Session != 2 {
		t.Errorf("of two, one has ended: %v, %+v", err, m)
	}
}
