package check

import (
	"testing"

	"github.com/rota-dev/rota/internal/record"
)

var i5 = []story{
	{"a plan out of the blue", "I5", func(h *history) {
		h.plan()
	}},
	{"two plans for one reason", "I5", func(h *history) {
		h.change()
		h.plan()
		h.plan()
	}},
	{"two plans for one burst", "I5", func(h *history) {
		h.burst(7)
		h.plan()
		h.burst(7)
		h.plan()
	}},
	{"three plans for two bursts that took turns", "I5", func(h *history) {
		h.burst(7)
		h.burst(8)
		h.burst(7)
		h.burst(8)
		h.plan()
		h.plan()
		h.plan()
	}},
	{"one plan for each reason", "", func(h *history) {
		h.change()
		h.plan()
		h.change()
		h.plan()
	}},
	{"one plan for each burst", "", func(h *history) {
		h.burst(7)
		h.burst(7)
		h.plan()
		h.burst(8)
		h.plan()
	}},
	{"plans that come late", "", func(h *history) {
		h.change()
		h.burst(7)
		h.change()
		h.plan()
		h.plan()
		h.plan()
	}},
	{"one plan for many reasons", "", func(h *history) {
		h.change()
		h.change()
		h.plan()
	}},
}

func TestI5_NoPlanWithoutAReason(t *testing.T) { hear(t, i5) }

var i6 = []story{
	{"granted while somebody runs another", "I6", func(h *history) {
		h.runs(c1, q1, 1, 10)
		h.grantEagerly(q0, c2, 1)
	}},
	{"granted while its new owner runs another", "I6", func(h *history) {
		h.runs(c1, q2, 1, 10)
		h.grantEagerly(q0, c1, 1)
	}},
	{"granted while somebody runs another next to one whose lease is over", "I6", func(h *history) {
		lapse(h)
		h.start(c2, q0, 2)
		h.grantEagerly(q1, c3, 1)
	}},
	{"granted again while somebody runs", "I6", func(h *history) {
		h.grantEagerly(q0, c1, 1)
		h.grantEagerly(q1, c2, 1)
		h.lease(c1, 10)
		h.start(c1, q0, 1)
		h.grantEagerly(q1, c2, 2)
	}},
	{"granted when all leases are over", "", func(h *history) {
		h.runs(c1, q1, 1, 10)
		h.runs(c2, q2, 1, 9)
		h.at(10)
		h.grantEagerly(q0, c3, 1)
	}},
	{"granted when all have stopped or are gone", "", func(h *history) {
		h.runs(c1, q1, 1, 10)
		h.runs(c2, q2, 1, 10)
		h.stop(c1, q1)
		h.gone(c2)
		h.grantEagerly(q0, c1, 1)
		h.grantEagerly(q1, c1, 2)
	}},
	{"granted incrementally while somebody runs another", "", func(h *history) {
		h.runs(c1, q1, 1, 10)
		h.grant(q0, c2, 1)
	}},
	{"a row told again is no grant", "", func(h *history) {
		h.grantEagerly(q0, c1, 1)
		h.lease(c1, 10)
		h.start(c1, q0, 1)
		h.grantEagerly(q0, c1, 1)
	}},
	{"revoked and freed while somebody runs another", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c2, q1, 1, 10)
		h.see(Event{Kind: Row, State: record.Revoking, Part: q0, Who: c1, Token: 1, Eager: true})
		h.stop(c1, q0)
		h.see(Event{Kind: Row, State: record.Free, Part: q0, Who: Nobody, Token: 1, Eager: true})
	}},
}

func TestI6_NobodyRunsAtAnEagerGrant(t *testing.T) { hear(t, i6) }

var i7 = []story{
	{"started twice", "I7", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.start(c1, q0, 1)
	}},
	{"stopped and started again", "I7", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.start(c1, q0, 1)
	}},
	{"started again under a new lease, without resuming", "I7", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.at(12)
		h.lease(c1, 20)
		h.start(c1, q0, 1)
	}},
	{"resumed once, started twice", "I7", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.resume(c1)
		h.start(c1, q0, 1)
		h.stop(c1, q0)
		h.start(c1, q0, 1)
	}},
	{"resumed before the first start", "I7", func(h *history) {
		h.resume(c1)
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.start(c1, q0, 1)
	}},
	{"another resumed", "I7", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.resume(c2)
		h.start(c1, q0, 1)
	}},
	{"the second owner starts twice", "I7", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.runs(c2, q0, 2, 10)
		h.stop(c2, q0)
		h.start(c2, q0, 2)
	}},
	{"an owner that came back starts twice", "I7", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.runs(c2, q0, 2, 10)
		h.stop(c2, q0)
		h.runs(c1, q0, 3, 10)
		h.stop(c1, q0)
		h.start(c1, q0, 3)
	}},
	{"resumed and started again, each time", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.resume(c1)
		h.start(c1, q0, 1)
		h.stop(c1, q0)
		h.resume(c1)
		h.start(c1, q0, 1)
	}},
	{"resumed, and all it ran started again", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c1, q1, 1, 10)
		h.stop(c1, q0)
		h.stop(c1, q1)
		h.resume(c1)
		h.start(c1, q0, 1)
		h.start(c1, q1, 1)
	}},
	{"granted again and started again", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.free(q0, 1)
		h.runs(c1, q0, 2, 10)
	}},
	{"started by one after the other", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.runs(c2, q0, 2, 10)
		h.stop(c2, q0)
		h.runs(c1, q0, 3, 10)
	}},
	{"the same token on many partitions", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c1, q1, 1, 10)
		h.runs(c1, q2, 1, 10)
	}},
	{"the same token of two members", "", func(h *history) {
		h.start(c1, q0, 1)
		h.start(c2, q0, 1)
	}},
}

func TestI7_OneStartForOneGrant(t *testing.T) { hear(t, i7) }
