package demo

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/ops"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
)

// live shows rota up: on a terminal a picture of the group with its latest
// story, elsewhere the story alone, a line per event.
type live struct {
	w     io.Writer
	f     *upFlags
	at    string // where the server can be reached
	me    string // how this binary is called
	sup   *supervisor
	file  *eventFile
	began time.Time

	screen  bool
	story   []string
	batches []*telling // partitions of one member that do the same at about the same time
	st      *rota.Status
	names   map[string]string           // by session
	work    map[string]*pace            // by member
	shown   map[string]rota.MemberState // state of members that others started, by session
	hinted  bool
	leaving bool
}

// pace is how fast a member works.
type pace struct {
	n    int
	at   time.Time
	rate float64
}

// A telling is a line that grows while more of the same happens.
type telling struct {
	at    time.Time
	head  string
	tail  string
	items []string
}

func newLive(w io.Writer, f *upFlags, at string, sup *supervisor, file *eventFile) *live {
	return &live{w: w, f: f, at: at, me: self(), sup: sup, file: file, began: time.Now(), screen: cli.Columns(w) > 0 && os.Getenv("TERM") != "dumb", names: map[string]string{},
		work: map[string]*pace{}, shown: map[string]rota.MemberState{}}
}

func (v *live) begin() {
	if v.screen {
		fmt.Fprint(v.w, "\x1b[2J")
		v.draw()
		return
	}
	fmt.Fprintf(v.w, "%s\n", v.title())
}

func (v *live) title() string {
	return fmt.Sprintf("rota up%s: group %s, %s, %s, %d messages/s; data in %s, NATS at %s",
		strings.TrimSuffix(openly(v.f.open), ","), demoGroup, v.f.size(), cli.Count(v.f.partitions, "partition"), v.f.rate, v.f.dir, v.at)
}

func (v *live) name(session string) string { return cmp.Or(v.names[session], session) }

// take hears of a child.
func (v *live) take(h happening) {
	switch {
	case h.says != "":
		v.tell(time.Now(), h.c.name+" says: "+h.says)
		return
	case h.end != "":
		v.tell(time.Now(), fmt.Sprintf("%s (pid %d) is gone: %s", h.c.name, h.c.pid, h.end))
		l := line.New(line.Gone, demoGroup, h.c.name)
		l.Session, l.Because, l.PID = h.c.session, h.end, h.c.pid
		v.file.add(&l)
		delete(v.work, h.c.name)
		return
	}
	l := h.line
	v.file.add(l)
	if l.Session != "" {
		v.names[l.Session] = l.Member
	}
	item := fmt.Sprintf("%s@%d", l.Partition, uint32(l.Token))
	switch l.Event {
	case line.Work:
		v.worked(l)
	case "start":
		v.gather(l.T, l.Member+" runs ", "", item)
	case "stop":
		v.gather(l.T, l.Member+" gives up ", ": "+cmp.Or(l.Because, "asked to"), item)
	case "stopped": // that it is to stop was told
	default:
		if text := l.Say(v.name); text != "" {
			v.tell(l.T, l.Member+" "+text)
		}
	}
}

func (v *live) worked(l *line.Line) {
	p := v.work[l.Member]
	if p == nil {
		v.work[l.Member] = &pace{l.N, l.T, 0}
		return
	}
	if d := l.T.Sub(p.at).Seconds(); d > 0 {
		*p = pace{l.N, l.T, float64(l.N-p.n) / d}
	}
}

// gather adds to a line that is being told, if there is one about the same.
func (v *live) gather(at time.Time, head, tail, item string) {
	for _, b := range v.batches {
		if b.head == head && b.tail == tail {
			b.items = append(b.items, item)
			return
		}
	}
	v.batches = append(v.batches, &telling{at, head, tail, []string{item}})
}

func (v *live) flush() {
	for _, b := range v.batches {
		slices.SortFunc(b.items, cli.Natural)
		text := b.head + strings.Join(b.items, " ")
		if n := len(b.items); n > 8 {
			text = fmt.Sprintf("%s%d partitions: %s … %s", b.head, n, strings.Join(b.items[:3], " "), b.items[n-1])
		}
		v.print(b.at, text+b.tail)
	}
	v.batches = nil
}

// tell adds a line to the story.
func (v *live) tell(at time.Time, text string) {
	v.flush()
	v.print(at, text)
}

func (v *live) print(at time.Time, text string) {
	d := max(at.Sub(v.began), 0)
	text = fmt.Sprintf("%02d:%06.3f  %s", int(d.Minutes()), (d % time.Minute).Seconds(), plain.Text(text))
	if !v.screen {
		fmt.Fprintln(v.w, text)
		return
	}
	v.story = append(v.story, text)
	v.story = v.story[max(0, len(v.story)-100):]
}

// see takes a look at the whole group, and tells of members that others started.
func (v *live) see(st *rota.Status) {
	st = plain.Copy(st)
	v.st = st
	ours := map[string]bool{}
	v.sup.mu.Lock()
	for _, c := range v.sup.children {
		ours[c.name] = true
	}
	v.sup.mu.Unlock()
	for _, m := range st.Members {
		v.names[m.Session] = m.Name
		early := m.State == rota.MemberLive && !m.Sent.After(v.began) // of an earlier run, or not heard yet
		if ours[m.Name] || m.State == v.shown[m.Session] || early {
			continue
		}
		known := v.shown[m.Session] != ""
		v.shown[m.Session] = m.State
		words := map[rota.MemberState]string{rota.MemberLive: fmt.Sprintf("has joined (pid %d, started by somebody else)", m.PID), rota.MemberLeaving: "is leaving", rota.MemberDead: "was declared dead", rota.MemberLeft: "has left", rota.MemberEvicted: "was evicted"}
		if known || m.State == rota.MemberLive { // not those of an earlier run
			v.tell(time.Now(), m.Name+" "+words[m.State])
		}
	}
	if !v.hinted && !v.screen && v.atRest() {
		v.hinted = true
		v.flush()
		for _, h := range v.hints() {
			fmt.Fprintln(v.w, h)
		}
	}
}

func (v *live) atRest() bool {
	if v.st == nil || v.st.Phase != rota.Sentinel || len(v.st.Partitions) == 0 {
		return false
	}
	ops.ByClock(v.st, time.Now())
	stateOf := ops.PartitionStates(v.st)
	for i := range v.st.Partitions {
		if p := &v.st.Partitions[i]; p.Reason == "" && !ops.Runs(stateOf(p)) {
			return false
		}
	}
	for _, c := range v.sup.alive() { // an earlier run may have left the same picture
		if !slices.ContainsFunc(v.st.Members, func(m rota.MemberInfo) bool { return m.PID == c.pid && m.Planned }) {
			return false
		}
	}
	return true
}

// hints say what to try next, with the pids there are.
func (v *live) hints() []string {
	me, dir := v.me, dirFlag(v.f.dir)
	out := []string{"try, in another terminal in this folder:"}
	add := func(what, how string) { out = append(out, fmt.Sprintf("  %-15s %s", what, how)) }
	if v.f.most == 0 { // else the leader asks for it
		add("add a member", me+" run"+dir+" --quiet --handle none --name "+v.freeName())
	}
	alive := slices.DeleteFunc(v.sup.alive(), func(c *child) bool { return stopped(c.pid) })
	if n := len(alive); n > 0 {
		add("kill one", fmt.Sprintf("kill -9 %d   # %s", alive[n-1].pid, alive[n-1].name))
		c := alive[max(0, n-2)]
		add("freeze one", fmt.Sprintf("kill -STOP %d; sleep 8; kill -CONT %d   # %s", c.pid, c.pid, c.name))
	}
	add("look", me+" status"+dir)
	add("ask", me+" explain"+dir+" demo.0")
	add("judge", fmt.Sprintf("%s check %s/events.jsonl", me, v.f.dir))
	for _, c := range v.sup.alive() {
		if stopped(c.pid) {
			add("wake "+c.name, fmt.Sprintf("kill -CONT %d", c.pid))
		}
	}
	return append(out, "Ctrl-C lets everybody leave")
}

func (v *live) freeName() string {
	taken := map[string]bool{}
	v.sup.mu.Lock()
	for _, c := range v.sup.children {
		taken[c.name] = true
	}
	v.sup.mu.Unlock()
	if v.st != nil {
		for _, m := range v.st.Members {
			taken[m.Name] = taken[m.Name] || m.State == rota.MemberLive
		}
	}
	for i := 1; ; i++ {
		if n := fmt.Sprintf("c%d", i); !taken[n] {
			return n
		}
	}
}

// draw paints the picture.
func (v *live) draw() {
	v.flush()
	if !v.screen {
		return
	}
	io.WriteString(v.w, screen.Redraw(v.picture(time.Now()).lines(cli.Columns(v.w), cli.Rows(v.w)-1), cli.Colour()))
}

// picture gathers what there is to see.
func (v *live) picture(now time.Time) *picture {
	p := &picture{title: v.title(), story: v.story, hints: v.hints(), leaving: v.leaving}
	if v.st == nil {
		return p
	}
	st := v.st
	ops.ByClock(st, now)
	p.state = fmt.Sprintf("%s; %s; plan %d%s", v.phase(st), ops.Leader(st, now), st.Plan, ops.LastPlan(st, now))
	running := runningOf(st)
	members, _ := ops.MemberOrder(st)
	for _, m := range append(members, v.outsiders(members)...) {
		p.members = append(p.members, v.member(&m, running[m.Session], now))
	}
	for _, w := range st.Waits {
		p.waits = append(p.waits, fmt.Sprintf("%s waits for %s (%s)", w.Partition, ops.WaitWords[w.For], st.NameOf(w.Member)))
	}
	return p
}

// member is what the picture shows of one.
func (v *live) member(m *rota.MemberInfo, running []string, now time.Time) shownMember {
	out := shownMember{name: m.Name, pid: m.PID, state: v.state(m, now), rate: "-", runs: running}
	frozen := stopped(m.PID)
	if p := v.work[m.Name]; p != nil && !frozen && now.Sub(p.at) < staleRate { // a frozen member tells nothing new
		out.rate = fmt.Sprintf("%.0f", p.rate)
	}
	if m.State == rota.MemberLive && m.Partitions > 0 && (!v.runs(m) || frozen || m.Silent) {
		out.lease = cli.Grouped(m.Partitions) + " wait for its lease to end"
	}
	out.trouble = frozen || out.lease != "" || m.State != rota.MemberLive
	return out
}

// staleRate is how old the last report of a member may be for its rate to count. They
// come every second.
const staleRate = 3 * time.Second

// outsiders are processes of ours that the group does not count on: frozen for
// too long, or on their way back.
func (v *live) outsiders(members []rota.MemberInfo) (out []rota.MemberInfo) {
	for _, c := range v.sup.alive() {
		if !slices.ContainsFunc(members, func(m rota.MemberInfo) bool { return m.PID == c.pid }) {
			out = append(out, rota.MemberInfo{Name: c.name, PID: c.pid})
		}
	}
	return out
}

// phase says what the group is doing. That a process has ended is known here before the
// group knows it, and a group that waits for a lease is not at rest.
func (v *live) phase(st *rota.Status) string {
	for i := range st.Members {
		if m := &st.Members[i]; st.Phase == rota.Sentinel && m.State == rota.MemberLive && m.Partitions > 0 && !v.runs(m) {
			return "a lease has to end"
		}
	}
	return ops.PhaseWords[st.Phase]
}

// state is a member's, and what this machine knows of its process.
func (v *live) state(m *rota.MemberInfo, now time.Time) string {
	out := ops.MemberState(v.st, m)
	if m.State == "" {
		out = "not in the group"
	}
	switch {
	case stopped(m.PID):
		return "frozen; " + out
	case m.State == rota.MemberLive && !v.runs(m):
		return fmt.Sprintf("gone, dead in %.1f s", max(ops.DeadAfter(m.Lease)-now.Sub(m.Sent), 0).Seconds())
	}
	return out
}

// runs tells whether a member is a process of ours that has not ended, or
// somebody else's.
func (v *live) runs(m *rota.MemberInfo) bool {
	v.sup.mu.Lock()
	defer v.sup.mu.Unlock()
	for _, c := range v.sup.children {
		if c.pid == m.PID {
			return !c.over
		}
	}
	return true
}

// end lets everybody leave and shows it.
func (v *live) end(sup *supervisor, looks <-chan *rota.Status) error {
	v.leaving = true
	v.tell(time.Now(), "everybody leaves")
	v.draw()
	go sup.stop()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for open := true; open; {
		select {
		case h, ok := <-sup.events:
			if open = ok; ok {
				v.take(h)
			}
		case st := <-looks:
			v.see(st)
		case <-tick.C:
			v.draw()
		}
	}
	v.flush()
	if v.screen {
		v.st = nil
		v.draw()
	}
	fmt.Fprintf(v.w, "all are gone; %s stays, and the next rota up goes on from there\n", v.f.dir)
	for _, session := range cli.SortedKeys(v.shown) {
		state := v.shown[session]
		if state == rota.MemberLive || state == rota.MemberLeaving {
			fmt.Fprintf(v.w, "%s was started by somebody else: without a store it stops within its lease, and ends when its --orphan time is over\n", v.name(session))
		}
	}
	return nil
}
