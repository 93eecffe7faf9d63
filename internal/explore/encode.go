package explore

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// A key is what is remembered of a state: a hash of all that can make a
// difference to what can happen next. At 128 bits, two of a billion states are
// mistaken for one with a probability below 10⁻²⁰.
type key [16]byte

// An encoder keeps its memory from state to state.
type encoder struct {
	ranks  core.Ranks
	shapes []*core.Shape
	grants []core.Grant
	grant  core.Shape
	dst    []byte
}

// key also makes the shapes that w's parts do not have yet. What they share with
// the state before they have.
func (e *encoder) key(w *world) key {
	e.dst, e.shapes, e.grants = e.dst[:0], e.shapes[:0], e.grants[:0]
	for i := range w.procs {
		p := &w.procs[i]
		e.put(byte(p.state), bits(p.hung, p.busy, p.fails, p.leaves, p.deaf), p.frozen)
		if !p.alive() {
			continue
		}
		if p.shape == nil || p.shaped != w.now {
			p.shape, p.shaped = p.node.Shape(w.local(p)), w.now
		}
		e.shapes = append(e.shapes, p.shape)
		e.put(byte(len(p.runs)))
		for j := range p.runs {
			e.run(&p.runs[j])
		}
		e.put(byte(len(p.behind)))
		for _, u := range p.behind {
			e.put(byte(u.key.Cell), bits(u.first))
			e.num(uint64(u.key.Session))
		}
	}
	e.put(byte(len(w.mail)))
	for i := range w.mail {
		m := &w.mail[i]
		e.put(byte(m.kind), m.who, bits(m.late, m.over))
		e.run(&m.run)
		if m.shape == nil {
			m.shape = m.ev.Shape(0)
		}
		e.shapes = append(e.shapes, m.shape)
	}
	e.slot(&w.store.plan)
	e.slot(&w.store.roster)
	e.slot(&w.store.orders)
	e.put(byte(len(w.store.members)))
	for i := range w.store.members {
		e.slot(&w.store.members[i])
	}
	e.put(w.budget[:]...)
	for i := range w.sinks {
		e.num(uint64(w.sinks[i].who))
		e.grants = append(e.grants, core.Grant{ID: record.ID(i), Token: w.sinks[i].token}, core.Grant{ID: record.ID(i), Token: w.high[i]})
	}
	e.put(w.plans, w.waits, bits(w.rolled, w.second))
	e.grant.SetGrants(e.grants)
	e.shapes = append(e.shapes, &e.grant)
	e.dst = e.ranks.Append(e.dst, e.shapes...)
	sum := sha256.Sum256(e.dst)
	return key(sum[:16])
}

func (e *encoder) put(b ...byte) { e.dst = append(e.dst, b...) }

func (e *encoder) num(v uint64) { e.dst = binary.AppendUvarint(e.dst, v) }

func (e *encoder) run(r *run) {
	e.put(byte(r.id), r.part, bits(r.asked, r.cancel))
	e.grants = append(e.grants, core.Grant{ID: r.id, Token: r.token})
}

func (e *encoder) slot(s *slot) {
	if s.shape == nil {
		s.shape = s.cur.Shape()
	}
	e.shapes = append(e.shapes, s.shape)
	e.put(bits(s.old.Rev != 0))
	if s.old.Rev != 0 {
		if s.oldShape == nil {
			s.oldShape = s.old.Shape()
		}
		e.shapes = append(e.shapes, s.oldShape)
	}
}

func bits(all ...bool) byte {
	var b byte
	for i, v := range all {
		if v {
			b |= 1 << i
		}
	}
	return b
}
