package explore

import (
	"slices"

	"github.com/rota-dev/rota/internal/core"
)

// A move is one thing that can happen next.
type move struct {
	op   op
	who  uint8
	arg  uint8
	urge urge
}

// urge says when a move comes in the fair schedule, in which nothing goes wrong
// any more and whatever can happen does.
type urge uint8

const (
	first urge = iota // what was frozen goes on
	soon              // within the tick
	late              // sooner or later
	clock             // then time passes
	never             // faults and free will
)

type op uint8

const (
	opTime   op = iota
	opArrive    // mail arg is delivered; a request is done and answered
	opApply     // a request is done, its answer under way
	opShow      // a watch shows what is at arg
	opThaw      // a frozen process goes on
	opJoin      // a waiting process starts
	opStrike    // fault arg strikes who
	opLose      // mail arg: the request is lost
	opMute      // mail arg: the request is done, its answer lost
	opDelay     // mail arg: the request will arrive any time later
	opRepeat    // mail arg: it is done, and will arrive once more
	opMiss      // a watch will not show what is at arg
	opEffect    // a handler's effect on run arg
	opTwo       // who and arg crash at one instant
	opProve     // the kernel proves to who that arg is gone
	opFlood     // everything that waits for who reaches it at once
	opVanish    // mail arg: a request whose sender is gone goes with it
)

// moves lists everything that can happen in w, in a fixed order.
func (w *world) moves(dst []move) []move {
	dst = dst[:0]
	hurry := false
	for i := range w.mail {
		m := &w.mail[i]
		if m.kind == lost {
			continue
		}
		if w.deaf(m) {
			continue // it fails when the tick is over
		}
		if m.kind != request && m.kind != effect && w.procs[m.who].state != up {
			continue // it waits until its reader is awake
		}
		u := soon
		if m.late {
			u = late
		} else {
			hurry = true
		}
		n := uint8(i)
		if m.kind == request && w.cfg.Split && !m.over {
			dst = append(dst, move{opApply, m.who, n, u})
		} else {
			dst = append(dst, move{opArrive, m.who, n, u})
		}
		if m.kind == request && !m.late {
			dst = w.strikeCall(dst, m.who, n)
		}
		if m.kind == request && m.over && w.procs[m.who].state == gone && w.cfg.Plans == 0 { // with it two deaths would look apart
			dst = append(dst, move{opVanish, m.who, n, never})
		}
		if m.kind == answer && m.ev.Outcome != core.Unknown && w.cfg.Split && w.budget[LoseAnswer] > 0 {
			dst = append(dst, move{opMute, m.who, n, never})
		}
	}
	for i := range w.procs {
		p := &w.procs[i]
		if p.state != up || p.deaf {
			continue
		}
		for j := range p.behind {
			hurry = true
			dst = append(dst, move{opShow, uint8(i), uint8(j), soon})
			if w.budget[Miss] > 0 && !p.behind[j].first {
				dst = append(dst, move{opMiss, uint8(i), uint8(j), never})
			}
		}
	}
	if w.cfg.Flood {
		for i := range w.procs {
			if w.procs[i].state == up && w.waitsFor(i) > 1 {
				dst = append(dst, move{opFlood, uint8(i), 0, never})
			}
		}
	}
	dst = w.strikes(dst)
	if !hurry && !w.thawFirst() {
		dst = append(dst, move{op: opTime, urge: clock})
	}
	return dst
}

// strikeCall lists what can happen to a request.
func (w *world) strikeCall(dst []move, who, n uint8) []move {
	may := func(f Fault) bool { return w.budget[f] > 0 && w.cfg.hits(f, int(who)) }
	if may(LoseRequest) {
		dst = append(dst, move{opLose, who, n, never})
	}
	if may(LoseAnswer) && !w.cfg.Split {
		dst = append(dst, move{opMute, who, n, never})
	}
	if w.mail[n].ev.Verb == core.Put {
		if may(Late) {
			dst = append(dst, move{opDelay, who, n, never})
		}
		if may(Repeat) {
			dst = append(dst, move{opRepeat, who, n, never})
		}
	}
	return dst
}

// strikes lists what can happen to processes and the store.
func (w *world) strikes(dst []move) []move {
	for i := range w.procs {
		p, who := &w.procs[i], uint8(i)
		switch p.state {
		case paused, asleep:
			dst = append(dst, move{opThaw, who, 0, first})
		case up:
			if p.deaf {
				dst = append(dst, move{opThaw, who, 0, first})
			}
		case waiting:
			dst = append(dst, move{opJoin, who, 0, never})
		}
		if !p.alive() {
			continue
		}
		for _, f := range [...]Fault{Crash, Freeze, Sleep, Busy, Hang, Fail, Leave, Gap, Deaf} {
			if w.budget[f] > 0 && w.can(p, f) && w.cfg.hits(f, i) {
				dst = append(dst, move{opStrike, who, uint8(f), never})
			}
		}
		if w.budget[CrashTwo] > 0 {
			for j := range w.procs[:i] {
				if w.procs[j].alive() {
					dst = append(dst, move{opTwo, who, uint8(j), never})
				}
			}
		}
		if w.budget[Proof] > 0 && p.state == up {
			for j := range w.procs {
				if w.procs[j].state == gone && w.store.slot(memberKey(j)) != nil {
					dst = append(dst, move{opProve, who, uint8(j), never})
				}
			}
		}
		if w.budget[Effect] > 0 && p.state == up && w.mayAct(p) {
			for j := range p.runs {
				dst = append(dst, move{opEffect, who, uint8(j), never})
			}
		}
	}
	for _, f := range [...]Fault{Rollback, Empty, Failover, Order, Load} {
		if w.budget[f] > 0 && w.can(nil, f) {
			dst = append(dst, move{opStrike, 0, uint8(f), never})
		}
	}
	return dst
}

// can tells whether fault f means anything now.
func (w *world) can(p *proc, f Fault) bool {
	switch f {
	case Crash:
		return true
	case Freeze, Sleep, Gap:
		return p.state == up
	case Deaf:
		return p.state == up && !p.deaf
	case Busy, Hang:
		return p.state == up && !p.busy && !p.hung
	case Fail:
		return p.state == up && !p.fails
	case Leave:
		return p.state == up && !p.leaves
	case Rollback, Failover:
		return w.store.plan.old.Rev != 0
	case Empty:
		return w.store.plan.cur.Rev != 0
	}
	return true
}

// thawFirst: somebody has been frozen for as long as it may.
func (w *world) thawFirst() bool {
	return w.cfg.Thaw > 0 && slices.ContainsFunc(w.procs, func(p proc) bool { return p.state == paused && p.frozen >= w.cfg.Thaw })
}

func memberKey(who int) core.Key { return core.Key{Cell: core.MemberCell, Session: session(who)} }
