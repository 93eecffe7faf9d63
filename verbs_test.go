package rota_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/scenario"
	"testing/synctest"
)

// Do implements scenario.World.
func (w *play) Do(c scenario.Command) error {
	synctest.Wait()
	if w.bad != nil {
		return nil
	}
	switch c.Verb {
	case "group":
		for _, kv := range c.Args {
			k, v, _ := strings.Cut(kv, "=")
			if k == "class" && v == "C" {
				w.depot.class, w.depot.server = rota.ClassC, "s1"
			}
			if k == "failures" {
				n, err := strconv.Atoi(v)
				if err != nil {
					return err
				}
				w.fails = n
			}
			w.returns = w.returns || k == "abort" && v == "returns"
			w.funcs = w.funcs || k == "func" && v == "true"
			if k == "partitions" {
				n, _ := strconv.Atoi(v)
				w.lists(n)
			} else {
				setting(&w.cfg, k, v)
			}
		}
		return nil
	case "member":
		w.tune[c.Args[0]] = c.Args[1:]
		return nil
	case "join":
		for _, l := range c.Args {
			if p := w.proc(l); p == nil || !p.up.Load() {
				w.join(l)
				time.Sleep(20 * time.Microsecond) // who is first decides who creates the group
			}
		}
		return nil
	case "stabilize":
		return w.stabilize()
	case "advance":
		d, err := time.ParseDuration(c.Args[0])
		time.Sleep(d)
		return err
	case "order":
		return w.order(c.Args)
	case "load":
		return w.load(c.Args)
	case "scaler":
		return w.setScaler(strings.Join(c.Args, " "))
	case "meter":
		w.mu.Lock()
		defer w.mu.Unlock()
		w.meter.fails = c.Args[0] == "fails"
		return nil
	case "store":
		return w.store(c.Args)
	case "declare":
		return w.declare(c.Args)
	case "land":
		w.land(c.Args)
		return nil
	case "who":
		w.showOwners()
		return nil
	case "waits":
		w.showWaits()
		return nil
	case "records":
		for _, e := range w.depot.list("play/member/") {
			m, _ := record.DecodeMember(e.Value)
			w.say("%s is %s", w.nameOf(uint64(m.Session)), m.State)
		}
		return nil
	}
	return w.toProcs(c)
}

func setting(c *rota.Config, k, v string) {
	d, _ := time.ParseDuration(v)
	if d == 0 {
		d = rota.AtOnce
	}
	switch k {
	case "strategy":
		c.Strategy = rota.Strategy(v)
	case "mode":
		c.Mode = rota.Mode(v)
	case "quarantine":
		c.Quarantine, _ = strconv.Atoi(v)
	case "on-store-loss":
		c.OnStoreLoss = rota.OnStoreLoss(v)
	case "rejoin":
		c.Rejoin = v == "true"
	case "fresh":
		c.NewGroup = v == "true"
	case "lease":
		c.Lease = d
	case "heartbeat":
		c.Heartbeat = d
	case "stop-time":
		c.StopTime = d
	case "orphan":
		c.Orphan = d
	case "return":
		c.Return = d
	case "grace":
		c.Grace = d
	case "capacity":
		c.Packing.Capacity, _ = strconv.ParseFloat(v, 64)
	case "interval":
		c.Packing.Interval = d
	case "cool-down":
		c.Packing.CoolDown = d
	case "scale":
		from, to, _ := strings.Cut(v, "..")
		c.Scaling.Min, _ = strconv.Atoi(from)
		c.Scaling.Max, _ = strconv.Atoi(to)
	case "spare":
		if c.Scaling.Spare, _ = strconv.Atoi(v); c.Scaling.Spare == 0 {
			c.Scaling.Spare = -1
		}
	case "down-after":
		c.Scaling.DownAfter = d
	case "vanish":
		c.Scaling.Vanish = d
	case "limit":
		c.Labels = map[string]string{"limit": v}
	}
}

// stabilize waits until everything that should run is owned and started.
func (w *play) stabilize() error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		why := w.unsettled()
		if why == "" || w.bad != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("does not come to rest within two minutes: %s", why)
		}
	}
}

func (w *play) unsettled() string {
	e, err := w.depot.get("play/plan")
	if err != nil {
		return "no plan"
	}
	p := plan(e)
	l := w.leader(p)
	if l == nil {
		return "no leader"
	}
	live := map[uint64]bool{}
	for _, x := range w.procs() {
		if x.up.Load() {
			live[x.m.SessionID()] = true
			if x.leaves {
				return x.label + " is leaving"
			}
		}
	}
	if len(live) != len(p.Members) {
		return "members differ"
	}
	for _, m := range p.Members {
		if !live[uint64(m)] {
			return "members differ"
		}
	}
	if w.roster == nil || p.Roster != w.roster.Ver || p.Orders != w.orders.Ver {
		return "roster or orders are newer"
	}
	owned := map[string]bool{}
	for i, r := range p.Rows {
		if r.State == record.Owned {
			owned[w.roster.Entries[i].Name] = true
		}
	}
	for _, n := range append(slices.Clone(w.names), w.orders.Add...) {
		if !owned[n] && !slices.Contains(w.orders.Pauses, n) && !slices.Contains(w.orders.Remove, n) {
			return n + " has no owner"
		}
	}
	if waits := l.m.Status().Waits; len(waits) > 0 {
		return fmt.Sprint(waits)
	}
	for _, x := range w.procs() {
		if !x.up.Load() {
			continue
		}
		for i, r := range p.Rows {
			if r.State == record.Owned && uint64(r.Owner) == x.m.SessionID() {
				x.mu.Lock()
				own, ok := x.owns[w.roster.Entries[i].Name]
				x.mu.Unlock()
				if !ok || record.Token(own.Token()) != r.Token {
					return w.roster.Entries[i].Name + " is not started"
				}
			}
		}
	}
	return ""
}

func (w *play) showOwners() {
	e, err := w.depot.get("play/plan")
	for _, p := range w.procs() {
		if !p.up.Load() {
			continue
		}
		var items []string
		p.mu.Lock()
		for n, own := range p.owns {
			items = append(items, fmt.Sprintf("%s@%d", n, uint32(own.Token())))
		}
		p.mu.Unlock()
		slices.SortFunc(items, func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return strings.Compare(a, b)
		})
		if len(items) == 0 {
			items = []string{"stands by"}
		}
		head := p.label + ":"
		if err == nil && uint64(plan(e).Leader) == p.m.SessionID() {
			head = p.label + " leads:"
		}
		w.say("%s %s", head, strings.Join(items, " "))
	}
}

func (w *play) showWaits() {
	e, err := w.depot.get("play/plan")
	if err != nil {
		return
	}
	p := plan(e)
	l := w.leader(p)
	if l == nil {
		return
	}
	for _, x := range l.m.Status().Waits {
		what := "for " + w.byText(x.Member) + " to start"
		for i, r := range p.Rows {
			if w.roster.Entries[i].Name == x.Partition && r.State == record.Revoking {
				what = "for " + w.byText(x.Member) + " to stop, then goes to " + w.nameOf(uint64(r.To))
			} else if w.roster.Entries[i].Name == x.Partition && r.State == record.Free {
				what = "to go to " + w.nameOf(uint64(r.To))
			}
		}
		w.say("%s waits %s", x.Partition, what)
	}
}

// toProcs runs the commands that are about processes.
func (w *play) toProcs(c scenario.Command) error {
	labels, rest := c.Args, []string(nil)
	switch c.Verb {
	case "watch", "handler", "source", "begin", "requests", "answers", "reads", "listing":
		labels, rest = c.Args[:1], c.Args[1:]
	case "cut", "leave":
		if n := len(labels); n > 1 && (labels[n-1] == "in" || labels[n-1] == "out" || labels[n-1] == "returning") {
			labels, rest = labels[:n-1], labels[n-1:]
		}
	}
	word := ""
	if len(rest) > 0 {
		word = rest[0]
	}
	late := time.Duration(0)
	if word == "late" || word == "slow" {
		late, _ = time.ParseDuration(rest[1])
	}
	for _, label := range labels {
		if c.Verb == "source" && label == "lists" {
			n, err := strconv.Atoi(word)
			w.lists(n)
			return err
		}
		p := w.proc(label)
		if p == nil || !p.up.Load() {
			if c.Verb == "cut" || c.Verb == "heal" {
				w.cut[label] = c.Verb == "cut" // a process that starts there is cut off
				continue
			}
			return fmt.Errorf("no process called %q is up", label)
		}
		if err := w.toProc(p, c.Verb, word, late); err != nil {
			return err
		}
	}
	return nil
}

func (w *play) toProc(p *proc, verb, word string, late time.Duration) error {
	l := p.link
	l.mu.Lock()
	switch verb {
	case "cut":
		l.cutIn, l.cutOut = word != "out", word != "in"
	case "watch":
		l.drops, l.late = word == "drops", late
	case "requests":
		l.outLate, l.outLost = late, word == "lost"
	case "answers":
		l.inLate, l.inLost = late, word == "lost"
	case "reads":
		l.noReads = word == "fail"
	case "listing":
		l.hides = nil
		if name, ok := strings.CutPrefix(word, "without-"); ok {
			l.hides = func(e rota.Entry) bool {
				m, err := record.DecodeMember(e.Value)
				return err == nil && m.Name == name
			}
		}
	}
	l.mu.Unlock()
	switch verb {
	case "heal":
		w.cut[p.label] = false
		l.heal()
	case "kill":
		p.kill()
	case "bug":
		w.bug(p)
	case "prove":
		id := p.m.SessionID()
		p.kill()
		if e, err := w.depot.get("play/plan"); err == nil {
			if l := w.leader(plan(e)); l != nil {
				l.m.Prove(id)
			}
		}
	case "leave":
		if (word == "returning") != (w.cfg.Return > 0) {
			return fmt.Errorf("%s returns if and only if the group has a time for that", p.label)
		}
		p.leaves = true
		p.cancel()
	case "sigstop", "suspend":
		p.freeze()
	case "wake":
		p.wake()
	case "jump":
		p.m.Jump()
	case "source":
		p.mu.Lock()
		p.fails, p.silent, p.fault = word == "fails" || word == "refuses", word == "silent", "the source failed"
		if word == "refuses" {
			p.fault = "the source refused"
		}
		if word == "stumbles" {
			close(p.trip)
			p.trip = make(chan struct{})
		}
		p.mu.Unlock()
	case "handler":
		p.mu.Lock()
		p.mode, p.slow = word, late
		if word == "works" {
			p.mode = ""
			close(p.freed)
			p.freed = make(chan struct{})
		}
		p.mu.Unlock()
	case "begin":
		return p.begin(word)
	}
	return nil
}

// begin lets a handler begin an effect: it asks for the lease as soon as it runs
// and then sends.
func (p *proc) begin(part string) error {
	p.mu.Lock()
	own, ok := p.owns[part]
	frozen := p.frozen != nil
	p.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s does not run %s", p.label, part)
	}
	w := p.w
	w.hear(line{who: p.label, verb: "begins", items: []string{fmt.Sprintf("%s@%d", part, uint32(own.Token()))}})
	e := effect{p: p, part: part, token: own.Token(), who: p.m.SessionID()}
	ask := func() {
		if own.Check() == nil {
			if !p.worksOn.Load() { // of work without a lease only the sink's word counts
				p.observe(check.Act, own)
			}
			p.mu.Lock()
			p.held = append(p.held, e)
			p.mu.Unlock()
		}
	}
	if frozen {
		w.wg.Go(ask) // it runs when the process wakes
	} else {
		ask()
	}
	return nil
}

// land lets effects reach the sink: those of processes that are not frozen.
func (w *play) land(labels []string) {
	time.Sleep(time.Millisecond)
	synctest.Wait()
	for _, p := range w.procs() {
		p.mu.Lock()
		if p.frozen == nil {
			w.aloft = append(w.aloft, p.held...)
			p.held = nil
		}
		p.mu.Unlock()
	}
	aloft := w.aloft
	w.aloft = nil
	for _, e := range aloft {
		if len(labels) > 0 && !slices.Contains(labels, e.p.label) {
			w.aloft = append(w.aloft, e)
			continue
		}
		verb, kind := "accepts", check.Accept
		if s, any := w.sink[e.part]; any && (e.token < s.token || e.token == s.token && e.who != s.who) {
			verb, kind = "refuses", check.Refuse
		} else {
			w.sink[e.part] = e
		}
		w.mu.Lock()
		w.see(check.Event{Kind: kind, At: int64(time.Since(w.began)), Who: w.who(e.who), Part: w.part(e.part), Token: record.Token(e.token)})
		w.mu.Unlock()
		w.say("sink %s %s@%d from %s", verb, e.part, uint32(e.token), e.p.label)
	}
}

// bug writes the record of a leader that ended on a bug after everything had stopped.
func (w *play) bug(p *proc) {
	id := p.m.SessionID()
	p.kill()
	e, _ := w.depot.get(fmt.Sprintf("play/member/%016x", id))
	m, _ := record.DecodeMember(e.Value)
	pe, _ := w.depot.get("play/plan")
	m.State, m.Seq, m.Bug = record.Left, m.Seq+1, plan(pe).Decided
	w.depot.put(e.Key, m.Append(nil), e.Rev)
}

// declare is an operator's statement that a process is gone.
func (w *play) declare(names []string) error {
	for _, name := range names {
		e, err := w.depot.get(fmt.Sprintf("play/member/%016x", w.proc(name).m.SessionID()))
		if err != nil {
			return err
		}
		m, err := record.DecodeMember(e.Value)
		if err != nil {
			return err
		}
		m.State, m.Proof = record.Dead, true
		if _, err := w.depot.put(e.Key, m.Append(nil), e.Rev); err != nil {
			return err
		}
	}
	return nil
}

func (w *play) store(args []string) error {
	d, _ := time.ParseDuration(args[len(args)-1])
	switch args[0] {
	case "stalls":
		w.depot.mu.Lock()
		w.depot.stall = time.Now().Add(d)
		w.depot.mu.Unlock()
	case "refuses", "works":
		w.depot.mu.Lock()
		w.depot.refuse, w.depot.stall = args[0] == "refuses", time.Time{}
		w.depot.mu.Unlock()
	case "becomes":
		w.depot.mu.Lock()
		w.depot.server = args[1]
		w.depot.mu.Unlock()
		for _, p := range w.procs() {
			p.link.mu.Lock()
			reach := !p.link.cutIn && !p.link.cutOut
			p.link.mu.Unlock()
			if reach {
				p.link.heal() // connected anew
			}
		}
	case "deletes":
		k := fmt.Sprintf("play/member/%016x", w.proc(args[1]).m.SessionID())
		e, err := w.depot.get(k)
		if err != nil {
			return err
		}
		return w.depot.delete(k, e.Rev)
	case "wears":
		e, err := w.depot.get("play/plan")
		if err != nil {
			return err
		}
		p := *plan(e)
		p.Gen++
		p.Write++
		p.Rows = slices.Clone(p.Rows)
		w.mu.Lock()
		i := slices.IndexFunc(w.roster.Entries, func(e record.Partition) bool { return e.Name == args[1] })
		w.mu.Unlock()
		p.Rows[i].Token = record.MakeToken(p.Incarnation, 1<<32-1)
		_, err = w.depot.put(e.Key, p.Append(nil), e.Rev)
		return err
	case "loses":
		w.mu.Lock()
		w.see(check.Event{Kind: check.Rollback, At: int64(time.Since(w.began)), Until: int64(time.Since(w.began)) + 1})
		w.mu.Unlock()
		only := ""
		if len(args) == 3 {
			only = args[1]
		}
		_, is := w.depot.lose(d, only)
		w.emptied = w.emptied || is.Rev == 0
		w.tellRows(plan(is))
		w.tellOrders()
	default:
		return fmt.Errorf("cannot do %q with whole members yet", args[0])
	}
	return nil
}

// tellRows tells the checkers what a restored plan says.
func (w *play) tellRows(p *record.Plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.roster = nil
	if e, err := w.depot.get("play/roster"); err == nil {
		w.roster, _ = record.DecodeRoster(e.Value)
	}
	now := int64(time.Since(w.began))
	for i := range w.parts {
		w.see(check.Event{Kind: check.Row, At: now, Part: int32(i), State: record.Free, Who: check.Nobody})
	}
	if p == nil || w.roster == nil {
		return
	}
	for i, r := range p.Rows {
		if r.State != record.Free && i < len(w.roster.Entries) {
			w.see(check.Event{Kind: check.Row, At: now, Part: w.part(w.roster.Entries[i].Name), State: r.State, Token: r.Token, Who: w.who(uint64(r.Owner))})
		}
	}
}

// tellOrders takes note of the orders that the store still has.
func (w *play) tellOrders() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders = record.Orders{}
	if e, err := w.depot.get("play/orders"); err == nil {
		if o, err := record.DecodeOrders(e.Value); err == nil {
			w.orders = *o
		}
	}
}

func (w *play) order(args []string) error {
	o := w.orders
	if _, err := o.Give(args[0], args[1:]...); err != nil {
		return err
	}
	o.Ver++
	b, err := record.Encode(&o)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.orders = o
	w.mu.Unlock()
	e, _ := w.depot.get("play/orders")
	_, err = w.depot.put("play/orders", b, e.Rev)
	return err
}
