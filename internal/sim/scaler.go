package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A scaler is the platform that starts and ends processes. In a play it only answers, and
// the play does the rest.
type scaler struct {
	fails, hangs bool
	waiting      []item     // calls that it has not answered yet, since it hangs
	said         core.Fleet // by the newest call
	wild         *rand.Rand // of random schedules: it starts and ends processes, or does not; nil: it is told
}

// order is what a call asks the platform for.
type order struct {
	core.Fleet
	by     *host
	epoch  uint32
	repeat bool
}

// scale does what the shell does when the core wants members: it calls the Scaler.
func (w *World) scale(h *host, f core.Fleet) {
	w.asksRightly(h, &f, "asks for the removal of")
	s := &w.scaler
	for _, who := range f.Remove {
		if !slices.Contains(s.said.Remove, who) {
			w.marks.Removed++
		}
	}
	if f.Want != s.said.Want || !slices.Equal(f.Remove, s.said.Remove) {
		s.said = f
		w.say(h, asks(f, w.nameOf))
	}
	it := item{kind: evScaled, host: h, epoch: h.epoch, ev: core.Event{Kind: core.Scaled}}
	if s.wild != nil {
		w.scaleWildly(h, f, it)
		return
	}
	if s.hangs {
		s.waiting = append(s.waiting, it)
		return
	}
	if s.fails {
		it.ev.Outcome = core.Unknown
	}
	w.push(w.now+10*w.delay(h), it) // platforms are slow
}

// asks is what a call says.
func asks(f core.Fleet, nameOf func(record.Session) string) string {
	line := fmt.Sprintf("asks for %s", members(f.Want))
	if len(f.Remove) > 0 {
		line += " without " + strings.Join(names(f.Remove, nameOf), ", ")
	}
	return line
}

func names(all []record.Session, nameOf func(record.Session) string) (out []string) {
	for _, s := range all {
		out = append(out, nameOf(s))
	}
	slices.Sort(out)
	return out
}

func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return strconv.Itoa(n) + " members"
}

// asksRightly checks that nobody is removed that owns something.
func (w *World) asksRightly(h *host, f *core.Fleet, what string) {
	p := w.store.plan.Plan
	if p == nil || p.Leader != h.node.Session() || w.lossy {
		return // deposed, and does not know yet; or the plan went back
	}
	for _, r := range p.Rows {
		if r.Owner != 0 && slices.Contains(f.Remove, r.Owner) {
			w.fail("size", "%s %s %s, which owns something", h.name, what, w.nameOf(r.Owner))
		}
	}
}

// drawSize lets half of the schedules that pack also size the group.
func (w *World) drawSize() {
	w.scaler = scaler{}
	w.opt.Config.Scaling = core.Scaling{}
	r := rand.New(rand.NewPCG(w.seed, 0x512e))
	if w.meter.wild == nil || r.IntN(2) != 0 {
		return
	}
	set := core.DefaultScaling()
	set.Max = uint32(w.opt.Members)
	set.Min = 1 + uint32(r.IntN(2))
	set.Spare = uint32(r.IntN(2))
	set.Step = 1 + uint32(r.IntN(2))
	set.UpAfter = time.Duration(r.IntN(1000)) * time.Millisecond
	set.DownAfter = time.Duration(r.IntN(1500)) * time.Millisecond
	set.Vanish = 8 * time.Second // longer than any call is under way
	set.Repeat = time.Second
	w.opt.Config.Scaling, w.scaler.wild = set, r
}

// scaleWildly lets the platform do what it is asked to, or not, or twice.
func (w *World) scaleWildly(h *host, f core.Fleet, it item) {
	r := w.scaler.wild
	at := w.now + int64(time.Millisecond)*int64(1+r.IntN(50))
	does := item{kind: evFleet, host: h, epoch: h.epoch, order: order{f, h, h.epoch, false}}
	if w.healed {
		w.push(at, does)
		w.push(at+1, it)
		return
	}
	switch r.IntN(10) {
	case 0: // it forgets
	case 1: // it refuses
		it.ev.Outcome = core.Unknown
	case 2: // it does it and cannot say so
		w.push(at, does)
		it.ev.Outcome = core.Unknown
	case 3: // it does it twice
		w.push(at, does)
		does.order.repeat = true
		w.push(at+ms(int64(r.IntN(3000))), does)
	case 4: // it is slow
		at += ms(int64(r.IntN(3000)))
		w.push(at, does)
	default:
		w.push(at, does)
	}
	w.push(at+1, it)
}

// carryOut is the platform at work: it asks processes to leave, and starts others.
func (w *World) carryOut(o *order) {
	if !o.repeat && o.by.up && o.epoch == o.by.epoch {
		w.asksRightly(o.by, &o.Fleet, "has removed")
	}
	for _, h := range w.hosts {
		if h.up && slices.Contains(o.Remove, h.node.Session()) {
			h.removed = true
			w.deliverSoon(h, core.Event{Kind: core.Leave})
		}
	}
	up := 0
	for _, h := range w.hosts {
		if h.up && !h.removed || !h.up && h.restart {
			up++
		}
	}
	for _, h := range w.hosts[:w.opt.Members] {
		if up < o.Want && !h.up && !h.restart {
			up++
			h.restart = true
			w.push(w.now+w.quick(), item{kind: evRestart, host: h, epoch: h.epoch})
		}
	}
}

// sized takes a leader's word that it wants another number of members.
func (w *World) sized(h *host, a *core.Action) {
	w.marks.Sized++
	w.judge(check.Event{Kind: check.Change}) // a reason for a plan
	line := fmt.Sprintf("wants %s, has %d", members(a.Fleet.Want), a.Have)
	if len(a.Fleet.Remove) > 0 {
		line += "; to go: " + strings.Join(names(a.Fleet.Remove, w.nameOf), ", ")
	}
	w.say(h, line)
}

// setScaler makes the platform work, fail or hang.
func (s *Stage) setScaler(args []string) error {
	x := &s.w.scaler
	switch strings.Join(args, " ") {
	case "works":
		for _, it := range x.waiting {
			s.w.push(s.w.now, it)
		}
		*x = scaler{said: x.said}
	case "fails":
		x.fails = true
	case "hangs":
		x.hangs = true
	default:
		return fmt.Errorf("wants works, fails or hangs, not %q", args)
	}
	return nil
}

// setScaling sets one limit of the group's size; ok is false if there is none of that name.
func setScaling(s *core.Scaling, k, v string) (ok bool, err error) {
	number := func(to *uint32, v string) {
		var n uint64
		n, err = strconv.ParseUint(v, 10, 32)
		*to = uint32(n)
	}
	switch k {
	case "scale":
		*s = core.DefaultScaling()
		from, to, _ := strings.Cut(v, "..")
		if number(&s.Min, from); err == nil {
			number(&s.Max, to)
		}
	case "spare":
		number(&s.Spare, v)
	case "step":
		number(&s.Step, v)
	case "band":
		number(&s.Band, v)
	case "up-after":
		s.UpAfter, err = time.ParseDuration(v)
	case "down-after":
		s.DownAfter, err = time.ParseDuration(v)
	case "vanish":
		s.Vanish, err = time.ParseDuration(v)
	case "dry":
		s.Dry = v == "true"
	default:
		return false, nil
	}
	return true, err
}
