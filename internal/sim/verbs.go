package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// What the verbs of a scenario do.

// group sets what the group is like; it must come first.
func (s *Stage) group(args []string) error {
	c := &s.w.opt.Config
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		var err error
		switch k {
		case "partitions":
			var n int
			if n, err = strconv.Atoi(v); err == nil {
				s.lists(v)
				s.w.opt.Partitions = n
			}
		case "strategy":
			c.Strategy = map[string]core.Strategy{"spread": core.Spread, "range": core.Range, "pack": core.Pack}[v]
		case "mode":
			c.Mode = map[string]record.Mode{"incremental": record.Incremental, "eager": record.Eager}[v]
		case "fresh":
			c.Fresh = v == "true"
		case "class":
			c.Volatile = v == "C"
			s.w.server = "s1"
		case "quarantine":
			var n int
			n, err = strconv.Atoi(v)
			c.Quarantine = uint32(n)
		case "on-store-loss":
			c.Continue = v == "continue"
		case "rejoin":
			s.w.opt.rejoin = v == "true"
		case "failures":
			s.w.opt.failures, err = strconv.Atoi(v)
		case "abort":
			s.w.opt.abortReturns = v == "returns"
		case "func":
			s.w.opt.funcs = v == "true"
		default:
			var ok bool
			if ok, err = setPacking(&c.Packing, k, v); !ok {
				ok, err = setScaling(&c.Scaling, k, v)
			}
			if !ok {
				err = setDuration(&c.Timing, k, v)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func setDuration(t *core.Timing, k, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil {
		return fmt.Errorf("%s: %w", k, err)
	}
	switch k {
	case "lease", "heartbeat":
		l, h := t.Lease, t.Heartbeat
		if k == "lease" {
			l = d
		} else {
			h = d
		}
		t.Lease, t.Heartbeat, t.Margin = l, h, l/10
	case "stop-time":
		t.StopTime = d
	case "orphan":
		t.Orphan = d
	case "return":
		t.Return = d
	case "grace":
		t.Grace = d
	default:
		return fmt.Errorf("unknown setting %q", k)
	}
	return nil
}

// member gives one member settings of its own, for its next start.
func (s *Stage) member(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("wants a name and settings")
	}
	name, tune := args[0], s.w.opt.Tune
	var timing []string
	var self record.Member
	for _, a := range args[1:] {
		switch k, v, _ := strings.Cut(a, "="); k {
		case "limit", "capacity":
			self.Labels = append(self.Labels, record.Pair{Key: k, Value: v})
		case "took":
			var err error
			if self.Took, err = time.ParseDuration(v); err != nil {
				return err
			}
		default:
			timing = append(timing, a)
		}
	}
	s.w.opt.Tune = func(host int, c *core.Config) {
		if tune != nil {
			tune(host, c)
		}
		if s.w.hosts[host].name != name {
			return
		}
		for _, a := range timing {
			k, v, _ := strings.Cut(a, "=")
			setDuration(&c.Timing, k, v)
		}
		c.Self = &self
	}
	return nil
}

// lists makes the source list n partitions from now on.
func (s *Stage) lists(n string) error {
	k, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	s.w.opt.listing = nil
	for i := range k {
		s.w.opt.listing = append(s.w.opt.listing, record.Partition{Name: partName(i)})
		s.w.part(partName(i))
	}
	s.w.opt.Partitions = k
	return nil
}

// stumble: the source fails everything that h runs, and then works again.
func (w *World) stumble(h *host) {
	for _, r := range h.runs {
		w.push(w.now, item{kind: evFailed, host: h, epoch: h.epoch, run: r})
	}
}

func (s *Stage) watch(h *host, args []string) error {
	h.watchDrops, h.watchLate = args[0] == "drops", 0
	if args[0] == "late" {
		d, err := duration(args, 1)
		h.watchLate = int64(d)
		return err
	}
	return nil
}

// traffic slows down what goes one way between a member and the store, or loses
// it.
func (s *Stage) traffic(h *host, way string, args []string) error {
	late := time.Duration(0)
	if args[0] == "late" {
		var err error
		if late, err = duration(args, 1); err != nil {
			return err
		}
	}
	if way == "requests" {
		h.outLate, h.outLost = int64(late), args[0] == "lost"
	} else {
		h.inLate, h.inLost = int64(late), args[0] == "lost"
	}
	return nil
}

func (s *Stage) handler(h *host, args []string) error {
	h.hung, h.stubborn, h.slow, h.slowFor = false, false, false, 0
	switch args[0] {
	case "works":
		for _, r := range h.runs {
			if r.asked || r.cancel {
				s.w.push(s.w.now, item{kind: evStopped, host: h, epoch: h.epoch, run: r})
			}
		}
	case "hangs":
		h.hung = true
	case "stubborn":
		h.hung, h.stubborn = true, true
	case "slow":
		d, err := duration(args, 1)
		h.slow, h.slowFor = true, int64(d)
		return err
	default:
		return fmt.Errorf("wants works, slow DURATION, hangs or stubborn, not %q", args[0])
	}
	return nil
}

// begin lets a handler begin an effect: it checks the lease, if it still can,
// and then sends.
func (s *Stage) begin(h *host, part string) error {
	for _, r := range h.runs {
		if s.w.names[r.part] != part {
			continue
		}
		s.heard(seenLine{who: h.name, verb: "begins", items: []string{fmt.Sprintf("%s@%d", part, r.token.Counter())}})
		it := item{kind: evWork, host: h, epoch: h.epoch, run: r}
		if h.paused {
			h.held = append(h.held, it)
			return nil
		}
		s.w.effect(h, it)
		return nil
	}
	return fmt.Errorf("%s does not run %s", h.name, part)
}

// land lets the effects under way reach the sink: all of them, or those of some.
func (s *Stage) land(names []string) {
	s.Advance(time.Millisecond)
	aloft := s.w.aloft
	s.w.aloft = nil
	for _, it := range aloft {
		if len(names) > 0 && !slices.Contains(names, it.host.name) {
			s.w.aloft = append(s.w.aloft, it)
			continue
		}
		s.w.effect(it.host, it)
	}
}

// bug: a leader's shell caught a broken assertion, stopped everything and said
// so in its record.
func (s *Stage) bug(h *host) {
	w := s.w
	session := h.node.Session()
	w.kill(h)
	c := w.store.cell(core.Key{Cell: core.MemberCell, Session: session})
	if c == nil || w.store.plan.Plan == nil {
		return // it has nothing to say yet
	}
	m := *c.Member
	m.State, m.Seq, m.Bug = record.Left, m.Seq+1, w.store.plan.Plan.Decided
	w.put(core.Entry{Key: c.Key, Member: &m}, c.Rev, false)
}

func (s *Stage) store(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("wants stalls, loses, refuses or works")
	}
	w := s.w
	switch args[0] {
	case "stalls":
		d, err := duration(args, 1)
		w.store.stall = w.now + int64(d)
		return err
	case "works":
		w.store.stall, w.store.refuse = 0, false
		return nil
	case "refuses":
		w.store.refuse = true
		return nil
	case "becomes":
		w.judge(check.Event{Kind: check.Rollback, Until: w.now})
		w.become(args[len(args)-1])
		return nil
	case "deletes":
		if h := s.host(args[len(args)-1]); h != nil {
			k := core.Key{Cell: core.MemberCell, Session: h.node.Session()}
			if c := w.store.cell(k); c != nil {
				w.lossy = true
				w.judge(check.Event{Kind: check.Change}) // a member less
				w.delete(k, c.Rev)
			}
		}
		return nil
	case "wears":
		return s.wear(args[len(args)-1])
	case "loses":
		only := core.NoCell // everything
		if len(args) == 3 {
			if only = map[string]core.Cell{"plan": core.PlanCell, "roster": core.RosterCell, "orders": core.OrdersCell}[args[1]]; only == core.NoCell {
				return fmt.Errorf("the store loses a plan, a roster or orders, not %q", args[1])
			}
		}
		d, err := duration(args, len(args)-1)
		sure := w.now + 1
		if w.script != nil && !w.script.exact {
			sure = w.now + 3*int64(w.opt.Config.Lease)
		}
		w.judge(check.Event{Kind: check.Rollback, Until: sure})
		w.rollback(w.now-int64(d), only)
		return err
	}
	return fmt.Errorf("wants stalls, loses, refuses or works, not %q", args[0])
}

// declare writes that a member is dead: an operator's word.
func (s *Stage) declare(names []string) {
	for _, name := range names {
		h := s.host(name)
		if h == nil {
			continue
		}
		if c := s.w.store.cell(core.Key{Cell: core.MemberCell, Session: h.node.Session()}); c != nil && !c.Member.State.Ended() {
			m := *c.Member
			m.State, m.Proof = record.Dead, true
			s.w.put(core.Entry{Key: c.Key, Member: &m}, c.Rev, false)
		}
	}
}

// wear writes a plan in which the tokens of a partition that nobody has are used up.
func (s *Stage) wear(name string) error {
	w := s.w
	c := w.store.cell(core.Key{Cell: core.PlanCell})
	if c.Plan == nil || w.store.roster.Roster == nil {
		return nil // a fault came before it
	}
	p := *c.Plan
	p.Gen++
	p.Write++
	p.Rows = slices.Clone(p.Rows)
	i := slices.IndexFunc(w.store.roster.Roster.Entries, func(e record.Partition) bool { return e.Name == name })
	if i < 0 || i >= len(p.Rows) || p.Rows[i].State != record.Free {
		return nil
	}
	p.Rows[i].Token = record.MakeToken(p.Incarnation, 1<<32-1)
	w.put(core.Entry{Key: c.Key, Plan: &p}, c.Rev, false)
	return nil
}

// order writes the orders as an operator would.
func (s *Stage) order(args []string) (err error) {
	if len(args) == 0 {
		return fmt.Errorf("wants an order")
	}
	s.w.order(func(o *record.Orders) { _, err = o.Give(args[0], args[1:]...) })
	return err
}
