//go:build linux

package processes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/scenario"
)

// play plays a scenario. Time is real, and shorter than in the file by as much as
// the lease is. What a block wants must come, sooner or later; what comes besides
// must be wanted by a later block. In which order, the judge knows.
func (c *crew) play(s *scenario.Scenario) error {
	apart := slices.ContainsFunc(s.Blocks, func(b scenario.Block) bool {
		return slices.ContainsFunc(b.Commands, func(c scenario.Command) bool { return c.Verb == "cut" })
	})
	for i := range s.Blocks {
		b := &s.Blocks[i]
		for j, cmd := range b.Commands {
			last := j == len(b.Commands)-1
			if err := c.do(cmd, apart, last && len(b.Want) > 0, i == len(s.Blocks)-1); err != nil {
				return fmt.Errorf("%s:%d: %s: %w", s.Name, cmd.Line, cmd, err)
			}
		}
		if err := c.expect(b); err != nil {
			return fmt.Errorf("%s:%d: after %q: %w", s.Name, b.Commands[0].Line, b.Commands[len(b.Commands)-1], err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heard) > 0 {
		return fmt.Errorf("%w: %s: nobody wanted %q", errOtherwise, s.Name, c.heard)
	}
	return nil
}

// scale is how much shorter time is than in the files.
const scale = float64(lease) / float64(5*time.Second)

func scaled(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	return time.Duration(float64(d) * scale), err
}

// do carries out a command. wanted: what the block wants is waited for anyway;
// end: nothing comes after it, so this is the time to see that nothing does.
func (c *crew) do(cmd scenario.Command, apart, wanted, end bool) error {
	switch cmd.Verb {
	case "group": // settled before
	case "join":
		c.join(apart, cmd.Args...)
	case "stabilize", "who", "records":
	case "advance":
		d, err := scaled(cmd.Args[0])
		if err != nil {
			return err
		}
		switch {
		case wanted:
		case end:
			time.Sleep(min(d, lease*3/2))
		default:
			time.Sleep(min(d, lease/2))
		}
	case "order":
		return c.order(c.orderWords(cmd.Args)...)
	default:
		return c.each(cmd)
	}
	return nil
}

// each does something to members.
func (c *crew) each(cmd scenario.Command) error {
	var all []*member
	labels := cmd.Args
	if n := len(labels) - 1; cmd.Verb == "leave" && labels[n] == "returning" {
		labels = labels[:n] // as whoever has a time for that does
	}
	for _, label := range labels {
		m := c.member(label)
		if m == nil {
			return fmt.Errorf("%q cannot be played by real processes", label)
		}
		all = append(all, m)
	}
	for _, m := range all {
		switch cmd.Verb {
		case "kill":
			m.signal(syscall.SIGKILL)
		case "leave":
			m.signal(syscall.SIGTERM)
		case "sigstop":
			m.signal(syscall.SIGSTOP)
		case "wake":
			m.signal(syscall.SIGCONT)
		case "cut":
			m.nets.cut()
		case "heal":
			m.nets.heal()
		default:
			return fmt.Errorf("cannot be played by real processes")
		}
	}
	return nil
}

// settings turns those of a file into flags.
func (c *crew) settings(args []string) error {
	flags := map[string]string{"orphan": "30s", "grace": "1s", "stop-time": "30s"}
	for _, kv := range args {
		k, v, _ := strings.Cut(kv, "=")
		switch k {
		case "partitions":
			n, err := strconv.Atoi(v)
			if err != nil {
				return err
			}
			c.parts = n
		case "mode":
			flags["rebalance"] = v
		case "strategy", "orphan", "return", "grace", "stop-time":
			flags[k] = v
		default:
			return fmt.Errorf("%s cannot be set for real processes", k)
		}
	}
	for k, v := range flags {
		// A process takes its time to come back, however short a lease is.
		if k != "rebalance" && k != "strategy" && k != "return" {
			d, err := scaled(v)
			if err != nil {
				return err
			}
			v = d.String()
		}
		c.tune = append(c.tune, "--"+k, v)
	}
	return nil
}

// orderWords are what an operator types. Partitions have longer names here.
func (c *crew) orderWords(args []string) (words []string) {
	if slices.Contains([]string{"add", "remove", "set"}, args[0]) {
		words = append(words, "partitions")
	}
	for _, a := range args {
		if n, ok := strings.CutPrefix(a, "q"); ok {
			if i, err := strconv.Atoi(n); err == nil {
				a = c.partition(i)
			}
		}
		words = append(words, a)
	}
	return words
}

// expect waits until everything that a block wants has been seen.
func (c *crew) expect(b *scenario.Block) error {
	var atoms, now []string
	for _, want := range b.Want {
		if a, live := split(want); live {
			now = append(now, a...)
		} else {
			atoms = append(atoms, a...)
		}
	}
	asks := func(verb string) bool {
		return slices.ContainsFunc(b.Commands, func(c scenario.Command) bool { return c.Verb == verb })
	}
	var missing []string
	err := c.await(func() bool {
		missing = nil
		rest := slices.Clone(c.heard)
		for _, a := range atoms {
			if i := slices.Index(rest, a); i >= 0 {
				rest = slices.Delete(rest, i, i+1)
			} else {
				missing = append(missing, a)
			}
		}
		if asks("who") || asks("records") {
			var is []string
			if asks("who") {
				is = c.who()
			}
			if asks("records") {
				is = append(is, c.records()...)
			}
			for _, a := range now {
				if !slices.Contains(is, a) {
					missing = append(missing, a)
				}
			}
			for _, a := range is {
				if !slices.Contains(now, a) {
					missing = append(missing, "instead of "+a)
				}
			}
		}
		if len(missing) > 0 {
			return false
		}
		c.heard = rest
		return true
	})
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("%w: %w: %q; seen besides: %q", errOtherwise, err, missing, c.heard)
	}
	return nil
}

// split takes a line of a scenario apart: "c1 starts q0@1 q1@1" is two things to
// be seen. live: it tells how things are, not what happened.
func split(line string) (atoms []string, live bool) {
	words := strings.Fields(line)
	if len(words) > 2 && (words[1] == "starts" || words[1] == "stops") {
		for _, item := range words[2:] {
			atoms = append(atoms, strings.Join([]string{words[0], words[1], item}, " "))
		}
		return atoms, false
	}
	live = strings.HasSuffix(words[0], ":") || words[1] == "leads:" || words[1] == "is" && words[2] != "leaving"
	return []string{strings.Join(words, " ")}, live
}

// say notes that something was seen.
func (c *crew) say(format string, args ...any) {
	c.heard = append(c.heard, fmt.Sprintf(format, args...))
}

// hear turns an event into what scenarios call it.
func (m *member) hear(e line.Line) {
	c := m.c
	switch e.Event {
	case "handle":
		m.in[e.Partition] = true
	case "handled":
		delete(m.in, e.Partition)
	}
	m.events = append(m.events, e)
	m.tally[e.Event]++
	item := fmt.Sprintf("%s@%d", c.part(e.Partition), uint32(e.Token))
	switch e.Event {
	case "joined":
		m.session = e.Session
		c.tellPlans()
		c.tellReturns()
	case "leader":
		for _, x := range c.members {
			x.leads = false
		}
		m.leads = true
		c.say("%s leads", m.label)
	case "plan":
		c.made(e)
	case "start":
		m.owns[c.part(e.Partition)] = e.Token
		c.say("%s starts %s", m.label, item)
	case "stopped":
		if _, started := m.owns[c.part(e.Partition)]; started {
			c.say("%s stops %s", m.label, item)
		}
		delete(m.owns, c.part(e.Partition))
	case "dead":
		c.say("%s declares %s dead", m.label, c.nameOf(e.About))
	case "evicted":
		c.say("%s evicts %s", m.label, c.nameOf(e.About))
	case "lapsed":
		c.say("%s lapses: no lease", m.label)
	case "resumed":
		c.say("%s resumes: its lease is back", m.label)
	case "leaving":
		c.say("%s is leaving", m.label)
	case "condition":
		if e.Condition == string(rota.ConditionReturned) {
			c.returns = append(c.returns, returned{m, e.About})
			c.tellReturns()
		}
	}
}

// busy are the partitions in which it is in the middle of a message.
func (m *member) busy() []string { return slices.Collect(maps.Keys(m.in)) }

// ended tells how a process has ended, unless it was killed.
func (m *member) ended() {
	clear(m.owns)
	end, told := map[int]string{0: "left", 3: "fenced", 5: "orphaned", 6: "store lost writes", 7: "cannot write the plan"}[m.cmd.ProcessState.ExitCode()]
	switch {
	case told:
		m.c.say("%s ends: %s", m.label, end)
	case m.cmd.ProcessState.ExitCode() >= 0:
		m.c.say("%s ends: exit %d", m.label, m.cmd.ProcessState.ExitCode())
	}
}

// nameOf is whose session it was; ′ marks an earlier process of that label.
func (c *crew) nameOf(session string) string {
	for _, m := range c.members {
		if m.session == session {
			if c.newest(m.label) != m {
				return m.label + "′"
			}
			return m.label
		}
	}
	return "nobody"
}

// who tells who owns what, as the processes themselves have said.
func (c *crew) who() (lines []string) {
	for _, m := range c.members {
		if m.over || m.session == "" {
			continue
		}
		var items []string
		for p, token := range m.owns {
			items = append(items, fmt.Sprintf("%s@%d", p, uint32(token)))
		}
		slices.SortFunc(items, func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return strings.Compare(a, b)
		})
		if len(items) == 0 {
			items = []string{"stands by"}
		}
		head := m.label + ":"
		if m.leads {
			head = m.label + " leads:"
		}
		lines = append(lines, head+" "+strings.Join(items, " "))
	}
	return lines
}

// records tells what the store says of the members.
func (c *crew) records() (lines []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for batch, err := range c.store.Watch(ctx, c.group+"/member/") {
		if err != nil {
			return []string{err.Error()}
		}
		for _, e := range batch {
			m, err := record.DecodeMember(e.Value)
			if err != nil {
				return []string{err.Error()}
			}
			lines = append(lines, fmt.Sprintf("%s is %s", c.nameOf(m.Session.String()), m.State))
		}
		break
	}
	return lines
}

// planned is what is known of a plan: its record comes from the store, its cause
// from the leader.
type planned struct {
	id   uint64
	why  string
	aims func() string // nil: its record has not been seen
	told bool
}

func (c *crew) plan(id uint64) *planned {
	for i := range c.plans {
		if c.plans[i].id == id {
			return &c.plans[i]
		}
	}
	c.plans = append(c.plans, planned{id: id})
	return &c.plans[len(c.plans)-1]
}

func (c *crew) made(e line.Line) {
	p := c.plan(e.Plan)
	var whys []string
	for _, c := range e.Causes {
		whys = append(whys, string(c.Why))
	}
	p.why = strings.Join(whys, ", ")
	if e.Moved > 0 {
		p.why += fmt.Sprintf("; %d moved", e.Moved)
	}
	if e.Placed > 0 {
		p.why += fmt.Sprintf("; %d placed", e.Placed)
	}
	c.tellPlans()
}

// tellPlans tells the plans of which everything is known.
func (c *crew) tellPlans() {
	if c.crowded {
		return
	}
	for i := range c.plans {
		p := &c.plans[i]
		if p.told || p.aims == nil || p.why == "" {
			continue
		}
		if aims := p.aims(); !strings.Contains(aims, "nobody:") {
			p.told = true
			c.say("%s", strings.Join(strings.Fields(fmt.Sprintf("plan %d (%s) %s", p.id, p.why, aims)), " "))
		}
	}
}

// returned is what a leader says of a session that took the place of an ended one.
type returned struct {
	by      *member
	session string
}

// tellReturns tells who got its place back, once it has said who it is.
func (c *crew) tellReturns() {
	c.returns = slices.DeleteFunc(c.returns, func(r returned) bool {
		name := c.nameOf(r.session)
		if name == "nobody" {
			return false
		}
		c.say("%s gives %s its place back", r.by.label, name)
		return true
	})
}

// watch follows the group's records.
func (c *crew) watch() {
	ctx := c.Context()
	var roster *record.Roster
	for ctx.Err() == nil {
		for batch, err := range c.store.Watch(ctx, c.group+"/") {
			if err != nil {
				break
			}
			for _, e := range batch {
				switch {
				case e.Deleted:
				case e.Key == c.group+"/roster":
					roster, _ = record.DecodeRoster(e.Value)
				case e.Key == c.group+"/plan":
					if p, err := record.DecodePlan(e.Value); err == nil && roster != nil {
						c.note(func() { c.see(p, roster) })
					}
				}
			}
		}
		time.Sleep(10 * time.Millisecond) // the server is not there, or no more
	}
}

func (c *crew) see(p *record.Plan, roster *record.Roster) {
	c.shown, c.roster = p, roster
	known := c.plan(p.ID)
	if known.aims != nil || len(p.Rows) == 0 {
		return
	}
	known.aims = func() string { return c.aims(p, roster) }
	c.tellPlans()
}

// aims is who is to own what.
func (c *crew) aims(p *record.Plan, roster *record.Roster) string {
	var out strings.Builder
	list := func(head string, mine func(*record.Row) bool) {
		var names []string
		for i := range p.Rows {
			if i < len(roster.Entries) && mine(&p.Rows[i]) {
				names = append(names, c.part(roster.Entries[i].Name))
			}
		}
		if len(names) == 0 {
			names = []string{"-"}
		}
		fmt.Fprintf(&out, "  %s: %s", head, strings.Join(names, " "))
	}
	for _, m := range p.Members {
		list(c.nameOf(m.String()), func(r *record.Row) bool {
			to := r.To
			if r.State == record.Owned {
				to = r.Owner
			}
			return r.Reason == record.NoReason && to == m
		})
	}
	for reason := record.Paused; reason <= record.Unplaced; reason++ {
		if slices.ContainsFunc(p.Rows, func(r record.Row) bool { return r.Reason == reason }) {
			list(reason.String(), func(r *record.Row) bool { return r.Reason == reason })
		}
	}
	return out.String()
}
