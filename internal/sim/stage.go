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
	"github.com/rota-dev/rota/internal/scenario"
)

// A Stage is a world without chance: one latency, perfect clocks, and nothing
// happens but what the play says. It plays scenario files.
type Stage struct {
	w     *World
	say   func(time.Duration, string)
	lines []seenLine
	plans []string
}

// seenLine is something seen; runs of one member's same deeds become one line.
type seenLine struct {
	text  string
	who   string
	verb  string
	items []string
}

// NewStage makes a stage with nobody on it.
func NewStage(o Options) *Stage {
	if o.Latency == 0 {
		o.Latency = int64(time.Millisecond)
	}
	o.Config.Fresh = true
	parts := o.Partitions
	o.Members = 0
	o.noEffects = true
	s := &Stage{w: New(o)}
	s.w.calm = true
	s.w.hosts = nil
	s.w.reset(1)
	s.w.hear = s.heard
	s.w.opt.Partitions = parts
	return s
}

// Say sets who hears of everything as it happens.
func (s *Stage) Say(f func(at time.Duration, line string)) { s.say = f }

// Now is the stage's time.
func (s *Stage) Now() time.Duration { return time.Duration(s.w.now) }

func (s *Stage) heard(l seenLine) {
	if s.say != nil {
		text := l.text
		if l.verb != "" {
			text = l.who + " " + l.verb + " " + strings.Join(l.items, " ")
		}
		s.say(s.Now(), text)
	}
	if l.verb != "" {
		for i := range s.lines {
			if o := &s.lines[i]; o.who == l.who && o.verb == l.verb {
				o.items = append(o.items, l.items...)
				return
			}
		}
	}
	s.lines = append(s.lines, l)
}

// Seen returns what was seen since the last call.
func (s *Stage) Seen() ([]string, error) {
	var out []string
	for _, l := range s.lines {
		if l.verb != "" {
			slices.SortStableFunc(l.items, natural)
			out = append(out, l.who+" "+l.verb+" "+strings.Join(l.items, " "))
			continue
		}
		out = append(out, l.text)
	}
	s.lines = nil
	if v := s.w.bad; v != nil {
		return out, fmt.Errorf("a promise is broken: %w", v)
	}
	return out, nil
}

// natural orders q2 before q10.
func natural(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// Advance lets time pass.
func (s *Stage) Advance(d time.Duration) { s.w.until(s.w.now + int64(d)) }

func (s *Stage) host(name string) *host {
	for _, h := range s.w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// Join starts a process. The member's name is what stands before a slash.
func (s *Stage) Join(name string) {
	h := s.host(name)
	if h == nil {
		h = &host{name: name, index: len(s.w.hosts)}
		s.w.hosts = append(s.w.hosts, h)
	}
	if !h.up {
		s.w.join(h)
	}
}

// Kill, Cut, Heal and Leave do to a process what their names say; they tell
// whether there is such a process.
func (s *Stage) Kill(name string) bool {
	return s.with(name, func(h *host) { s.w.say(h, "is killed"); s.w.kill(h) })
}

func (s *Stage) Cut(name string) bool {
	return s.with(name, func(h *host) { h.cutIn, h.cutOut = true, true })
}

func (s *Stage) Heal(name string) bool {
	return s.with(name, func(h *host) { s.w.reconnect(h) })
}

func (s *Stage) Leave(name string) bool {
	return s.with(name, func(h *host) { s.w.deliverSoon(h, core.Event{Kind: core.Leave}) })
}

func (s *Stage) with(name string, f func(*host)) bool {
	h := s.host(name)
	if h == nil || !h.up {
		return false
	}
	f(h)
	return true
}

// Settled tells what keeps the group from being at rest; "" if nothing.
func (s *Stage) Settled() string {
	if v := s.w.settled(); v != nil {
		return v.Text
	}
	return ""
}

// Owners is one line per member: who leads, who owns what.
func (s *Stage) Owners() []string {
	var out []string
	p := s.w.store.plan.Plan
	for _, h := range s.w.hosts {
		if !h.up {
			continue
		}
		line := h.name + ":"
		if p != nil && p.Leader == h.node.Session() {
			line = h.name + " leads:"
		}
		var items []string
		for _, r := range h.runs {
			items = append(items, fmt.Sprintf("%s@%d", s.w.names[r.part], r.token.Counter()))
		}
		slices.SortFunc(items, natural)
		if len(items) == 0 {
			items = []string{"stands by"}
		}
		out = append(out, line+" "+strings.Join(items, " "))
	}
	return out
}

// Do runs one command of a scenario.
func (s *Stage) Do(c scenario.Command) error {
	if s.w.bad != nil {
		return nil // Seen will tell
	}
	switch c.Verb {
	case "group":
		return s.group(c.Args)
	case "member":
		return s.member(c.Args)
	case "join":
		for _, name := range c.Args {
			s.Join(name)
		}
		return nil
	case "settle":
		return s.settle()
	case "advance":
		d, err := duration(c.Args, 0)
		s.Advance(d)
		return err
	case "order":
		return s.order(c.Args)
	case "store":
		return s.store(c.Args)
	case "land":
		s.land()
		return nil
	case "who":
		for _, l := range s.Owners() {
			s.heard(seenLine{text: l})
		}
		return nil
	case "waits":
		s.waits()
		return nil
	case "records":
		for _, e := range s.w.store.members {
			s.heard(seenLine{text: fmt.Sprintf("%s is %s", s.w.nameOf(e.Session), e.Member.State)})
		}
		return nil
	}
	return s.toMembers(c)
}

// toMembers runs the commands that are about processes.
func (s *Stage) toMembers(c scenario.Command) error {
	w := s.w
	names, rest := c.Args, ""
	switch c.Verb {
	case "watch", "handler", "source", "begin", "requests", "answers", "reads", "listing":
		if len(c.Args) < 2 {
			return fmt.Errorf("wants a member and more")
		}
		names, rest = c.Args[:1], c.Args[1]
	case "cut", "leave":
		if n := len(names); n > 1 && (names[n-1] == "in" || names[n-1] == "out" || names[n-1] == "returning") {
			names, rest = names[:n-1], names[n-1]
		}
	}
	for _, name := range names {
		if c.Verb == "source" && name == "lists" {
			return s.lists(rest)
		}
		h := s.host(name)
		if h == nil || !h.up {
			return fmt.Errorf("no process called %q is up", name)
		}
		switch c.Verb {
		case "kill":
			w.kill(h)
		case "bug":
			s.bug(h)
		case "prove":
			session := h.node.Session()
			w.kill(h)
			if l := w.leader(); l != nil {
				w.deliverSoon(l, core.Event{Kind: core.Proven, Session: session})
			}
		case "leave":
			h.leaves = true
			w.deliverSoon(h, core.Event{Kind: core.Leave, Flag: rest == "returning"})
		case "freeze", "suspend":
			w.pause(h, c.Verb == "suspend")
		case "jump":
			w.deliverSoon(h, core.Event{Kind: core.Jumped})
		case "requests", "answers":
			return s.traffic(h, c.Verb, c.Args[1:])
		case "reads":
			h.noReads = rest == "fail"
		case "listing":
			h.hides = strings.TrimPrefix(rest, "without-")
			if rest == "works" {
				h.hides = ""
			}
		case "wake":
			w.wake(h)
		case "cut":
			h.cutIn, h.cutOut = rest != "out", rest != "in"
		case "heal":
			w.reconnect(h)
		case "watch":
			return s.watch(h, c.Args[1:])
		case "handler":
			return s.handler(h, c.Args[1:])
		case "source":
			h.fails = rest == "fails"
		case "begin":
			return s.begin(h, rest)
		}
	}
	return nil
}

func duration(args []string, i int) (time.Duration, error) {
	if i >= len(args) {
		return 0, fmt.Errorf("wants a duration such as 4.5s")
	}
	return time.ParseDuration(args[i])
}

func (s *Stage) settle() error {
	w := s.w
	limit := w.now + int64(2*time.Minute)
	for w.bad == nil {
		s.Advance(10 * time.Millisecond)
		if s.Settled() == "" && s.quiet() {
			return nil
		}
		if w.now > limit {
			return fmt.Errorf("does not settle within two minutes: %s", s.Settled())
		}
	}
	return nil
}

// quiet: the leader waits for nothing either.
func (s *Stage) quiet() bool {
	w := s.w
	l, p := w.leader(), w.store.plan.Plan
	if l == nil || len(l.node.Waits()) > 0 || w.store.roster.Roster == nil || p.Roster != w.store.roster.Roster.Ver {
		return false
	}
	if o := w.store.orders.Orders; o != nil && o.Ver != p.Orders {
		return false
	}
	return !slices.ContainsFunc(w.hosts, func(h *host) bool { return h.up && h.leaves })
}

// waits shows the leader's wait set.
func (s *Stage) waits() {
	l := s.w.leader()
	if l == nil {
		return
	}
	for _, x := range l.node.Waits() {
		what := "for " + s.w.nameOf(x.Row.Owner) + " to start"
		switch x.Row.State {
		case record.Revoking:
			what = "for " + s.w.nameOf(x.Row.Owner) + " to stop, then goes to " + s.w.nameOf(x.Row.To)
		case record.Free:
			what = "to go to " + s.w.nameOf(x.Row.To)
		}
		if x.Stuck {
			what += ": stuck"
		}
		s.heard(seenLine{text: x.Name + " waits " + what})
	}
}

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
			c.Strategy = map[string]core.Strategy{"spread": core.Spread, "range": core.Range}[v]
		case "mode":
			c.Mode = map[string]record.Mode{"incremental": record.Incremental, "eager": record.Eager}[v]
		case "fresh":
			c.Fresh = v == "true"
		case "class":
			c.Volatile = v == "C"
		default:
			err = setDuration(&c.Timing, k, v)
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
	case "drain":
		t.Drain = d
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
	var labels []record.Pair
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		if k == "limit" {
			labels = append(labels, record.Pair{Key: k, Value: v})
		} else {
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
		c.Self = &record.Member{Labels: labels}
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

func (s *Stage) watch(h *host, args []string) error {
	h.watchDrops, h.watchLate = args[0] == "drops", 0
	if args[0] == "late" {
		d, err := duration(args, 1)
		h.watchLate = int64(d)
		return err
	}
	return nil
}

// traffic slows down what goes one way between a member and the store.
func (s *Stage) traffic(h *host, way string, args []string) error {
	late := time.Duration(0)
	if args[0] == "late" {
		var err error
		if late, err = duration(args, 1); err != nil {
			return err
		}
	}
	if way == "requests" {
		h.outLate = int64(late)
	} else {
		h.inLate = int64(late)
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
			h.held = append(h.held, held{it})
			return nil
		}
		s.w.effect(h, it)
		return nil
	}
	return fmt.Errorf("%s does not run %s", h.name, part)
}

// land lets the effects under way reach the sink.
func (s *Stage) land() {
	s.Advance(time.Millisecond)
	aloft := s.w.aloft
	s.w.aloft = nil
	for _, it := range aloft {
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
		w.server = args[len(args)-1]
		for _, h := range w.hosts {
			if h.up {
				w.deliverSoon(h, core.Event{Kind: core.Server, Text: w.server})
			}
		}
		return nil
	case "deletes":
		if h := s.host(args[len(args)-1]); h != nil {
			k := core.Key{Cell: core.MemberCell, Session: h.node.Session()}
			w.delete(k, w.store.cell(k).Rev)
		}
		return nil
	case "loses":
		all := len(args) == 2
		d, err := duration(args, len(args)-1)
		w.judge(check.Event{Kind: check.Rollback, Until: w.now + 1})
		w.rollback(w.now-int64(d), all)
		return err
	}
	return fmt.Errorf("wants stalls, loses, refuses or works, not %q", args[0])
}

// order writes the orders as an operator would.
func (s *Stage) order(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("wants an order")
	}
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	what, x, y := args[0], arg(1), arg(2)
	without := func(l []string) []string {
		return slices.DeleteFunc(slices.Clone(l), func(o string) bool { return o == x })
	}
	apart := func(l []record.Pin) []record.Pin {
		return slices.DeleteFunc(slices.Clone(l), func(p record.Pin) bool { return p.Partition == x && (y == "" || p.Member == y) })
	}
	known := true
	s.w.order(func(o *record.Orders) {
		switch what {
		case "pause":
			o.Pauses = append(without(o.Pauses), x)
		case "resume":
			o.Pauses = without(o.Pauses)
		case "drain":
			o.Drains = append(without(o.Drains), x)
		case "undrain":
			o.Drains = without(o.Drains)
		case "freeze", "thaw":
			o.Freeze = what == "freeze"
		case "add":
			o.Add, o.Remove = append(without(o.Add), x), without(o.Remove)
		case "remove":
			o.Remove, o.Add = append(without(o.Remove), x), without(o.Add)
		case "pin":
			o.Pins = append(slices.DeleteFunc(slices.Clone(o.Pins), func(p record.Pin) bool { return p.Partition == x }), record.Pin{Partition: x, Member: y})
		case "unpin":
			o.Pins = apart(o.Pins)
		case "ban":
			o.Bans = append(apart(o.Bans), record.Pin{Partition: x, Member: y})
		case "unban":
			o.Bans = apart(o.Bans)
		case "set":
			k, v, _ := strings.Cut(y, "=")
			o.Meta = append(slices.Clone(o.Meta), record.Meta{Partition: x, Pairs: []record.Pair{{Key: k, Value: v}}})
		default:
			known = false
		}
	})
	if !known {
		return fmt.Errorf("unknown order %q", what)
	}
	return nil
}
