package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/scenario"
)

// A teller writes a random schedule down as a script while it is played. Clock
// rates, repeated messages and small delays have no verb: the script is a
// likeness, and whether it breaks the same promise has to be tried.
type teller struct {
	script Script
	w      *World
}

// name is what scenarios call the host.
func (t *teller) name(h *host) string {
	if h.index == t.w.opt.Members { // the twin's place
		return h.name + "/2"
	}
	return h.name
}

func (t *teller) say(at int64, format string, args ...any) {
	if t.w.healed || t.w.bad != nil {
		return // a script is healed by whoever plays it
	}
	t.script.Lines = append(t.script.Lines, line(time.Duration(at), fmt.Sprintf(format, args...)))
}

// around is a fault of messages sent just now.
func (t *teller) around(h *host, format string, args ...any) {
	verb := fmt.Sprintf(format, args...)
	way, _, _ := strings.Cut(verb, " ")
	rest := strings.TrimPrefix(verb, way+" ")
	t.say(t.w.now-int64(2*moment), "%s %s %s", way, t.name(h), rest)
	t.say(t.w.now+int64(2*moment), "%s %s works", way, t.name(h))
}

// struck tells a fault.
func (t *teller) struck(h *host, f fault) {
	name, now, long := t.name(h), t.w.now, time.Duration(f.long)
	end := now + f.long
	switch f.kind {
	case Crash, CrashLeader:
		t.say(now, "kill %s", name)
	case CrashTwo:
		t.say(now, "kill %s", name)
	case Prove:
		t.say(now, "prove %s", name)
	case Pause, Suspend:
		verb := map[Fault]string{Pause: "sigstop", Suspend: "suspend"}[f.kind]
		t.say(now, "%s %s", verb, name)
		for _, r := range h.runs[:min(2, len(h.runs))] {
			t.say(now, "begin %s %s", name, t.w.names[r.part])
		}
		t.say(end, "wake %s", name)
		t.say(end+ms(5), "land")
	case Cut, CutOut, CutIn:
		t.say(now, "cut %s%s", name, map[Fault]string{Cut: "", CutOut: " out", CutIn: " in"}[f.kind])
		t.say(end, "heal %s", name)
	case Stall:
		t.say(now, "store stalls %v", long/3)
	case RollPlan:
		t.say(now, "store loses plan %v", long/8)
	case RollAll:
		back := long / 2
		if f.more%5 == 0 {
			back = time.Duration(now)
		}
		t.say(now, "store loses %v", back)
	case Failover:
		t.say(now, "store loses %v", long/16)
		if t.w.server != "" {
			t.say(now, "store becomes s%d", now)
		}
	case Outsider:
		t.say(now, "kill %s", name)
		t.say(now, "cut %s", name)
		t.say(end, "heal %s", name)
	case BadListing:
		if f.more%2 == 0 {
			t.say(now, "source %s silent", name)
		}
	case Slow:
		t.say(now, "handler %s slow 2s", name)
	case Hung:
		t.say(now, "handler %s hangs", name)
	case Stubborn:
		t.say(now, "handler %s stubborn", name)
	case SourceFails:
		t.say(now, "source %s fails", name)
	case Depart:
		t.say(now, "leave %s%s", name, map[bool]string{true: " returning"}[f.more%2 == 0])
	case GapWatch:
		t.say(now, "cut %s in", name)
		t.say(now+1, "heal %s", name)
	case Jump:
		t.say(now, "jump %s", name)
	case Order:
		t.ordered(h, f)
	}
}

func (t *teller) ordered(h *host, f fault) {
	part := t.w.names[int(f.more/16)%t.w.opt.Partitions]
	text := [...]string{"pause " + part, "resume " + part, "freeze", "drain " + h.name, "undrain " + h.name,
		"pin " + part + " " + h.name, "ban " + part + " " + h.name, "remove " + part, "add extra"}[f.more%9]
	t.say(t.w.now, "order %s", text)
}

// Retell plays a seed and returns a script of what happened to whom.
func Retell(o Options, seed uint64) (Script, Result) {
	w := New(o)
	t := &teller{w: w}
	w.tell = t
	r := w.Play(seed)
	t.script.sort()
	c := &w.opt.Config
	group := []string{
		fmt.Sprintf("partitions=%d", o.Partitions),
		"mode=" + map[record.Mode]string{record.Eager: "eager", record.Incremental: "incremental"}[c.Mode],
		"strategy=" + map[core.Strategy]string{core.Spread: "spread", core.Range: "range"}[c.Strategy],
		fmt.Sprintf("stop-time=%v", c.StopTime), fmt.Sprintf("orphan=%v", c.Orphan), fmt.Sprintf("return=%v", c.Return),
	}
	if !c.Fresh {
		group = append(group, "fresh=false")
	}
	if c.Volatile {
		group = append(group, "class=C")
	}
	if c.Continue {
		group = append(group, "on-store-loss=continue")
	}
	if c.Quarantine > 0 {
		group = append(group, fmt.Sprintf("quarantine=%d", c.Quarantine))
	}
	if w.opt.abortReturns {
		group = append(group, "abort=returns")
	}
	group = append(group, fmt.Sprintf("failures=%d", w.opt.failures))
	t.script.Setup = []scenario.Command{{Verb: "group", Args: group}}
	return t.script, r
}

// Likeness looks for a script that breaks the same promise as a seed does: the
// schedule as it was told, then with every moment of it a little earlier or
// later. fails says whether a script does.
func Likeness(o Options, seed uint64, tries int, fails func(*Script) bool) (Script, bool) {
	s, _ := Retell(o, seed)
	if fails(&s) {
		return s, true
	}
	r := New(o)
	r.reset(seed)
	for i := range tries {
		c := s.clone()
		far := uint64(ms(1) << (i % 12)) // up to two seconds
		for j := range c.Lines {
			c.Lines[j].At = max(0, c.Lines[j].At+time.Duration(r.rng.Uint64N(2*far))-time.Duration(far))
		}
		c.sort()
		if fails(&c) {
			return c, true
		}
	}
	return s, false
}
