package check

import (
	"testing"

	"github.com/rota-dev/rota/internal/record"
)

// lapse: c1 ran q0@1 until its lease was over at 5 and hangs; q0 is c2's, who
// has not started yet.
func lapse(h *history) {
	h.runs(c1, q0, 1, 5)
	h.at(5)
	h.free(q0, 1)
	h.grant(q0, c2, 2)
	h.lease(c2, 20)
	h.at(6)
}

var i1 = []story{
	{"two start the same", "I1", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.lease(c2, 10)
		h.start(c2, q0, 1)
	}},
	{"a start when the former owner trusts its lease again", "I1", func(h *history) {
		lapse(h)
		h.lease(c1, 9)
		h.at(8)
		h.start(c2, q0, 2)
	}},
	{"a start when that lease is just over", "", func(h *history) {
		lapse(h)
		h.lease(c1, 9)
		h.at(9)
		h.start(c2, q0, 2)
	}},
	{"a lease extended while another runs", "I1", func(h *history) {
		lapse(h)
		h.start(c2, q0, 2)
		h.lease(c1, 9)
	}},
	{"a lease extended while another runs one of many", "I1", func(h *history) {
		h.runs(c1, q0, 1, 5)
		h.runs(c1, q1, 1, 5)
		h.runs(c1, q2, 1, 5)
		h.at(5)
		h.free(q1, 1)
		h.runs(c2, q1, 2, 20)
		h.lease(c1, 9)
	}},
	{"a lease extended while the third in a row runs", "I1", func(h *history) {
		lapse(h)
		h.start(c2, q0, 2)
		h.at(20)
		h.free(q0, 2)
		h.runs(c3, q0, 3, 30)
		h.lease(c2, 25)
	}},
	{"a lease extended to a moment that is over", "", func(h *history) {
		lapse(h)
		h.start(c2, q0, 2)
		h.lease(c1, 6)
	}},
	{"a start before the lease, which comes while another runs", "I1", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.start(c2, q0, 2)
		h.lease(c2, 10)
	}},
	{"a start after the other's lease ran out", "", func(h *history) {
		lapse(h)
		h.start(c2, q0, 2)
		h.lease(c2, 30)
	}},
	{"a start after the other gave its lease up", "", func(h *history) {
		h.runs(c1, q0, 1, 50)
		h.lease(c1, 0)
		h.free(q0, 1)
		h.runs(c2, q0, 2, 50)
	}},
	{"a start after the other stopped", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.free(q0, 1)
		h.runs(c2, q0, 2, 10)
		h.lease(c1, 20)
	}},
	{"a start after the other was gone", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.gone(c1)
		h.free(q0, 1)
		h.runs(c2, q0, 2, 10)
	}},
	{"a lease reported after its process was gone, and all it ran", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c1, q2, 1, 10)
		h.gone(c1)
		h.lease(c1, 20)
		h.runs(c2, q0, 2, 10)
		h.runs(c2, q2, 2, 10)
	}},
	{"each runs its own", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c2, q1, 1, 10)
		h.lease(c1, 20)
		h.lease(c2, 20)
	}},
	{"one runs many", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c1, q1, 1, 10)
		h.lease(c1, 20)
	}},
	{"a bystander's lease is extended", "", func(h *history) {
		lapse(h)
		h.start(c2, q0, 2)
		h.lease(c3, 9)
	}},
	{"an effect begun when the lease is just over", "I1", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.at(10)
		h.act(c1, q0, 1)
	}},
	{"an effect begun without any lease", "I1", func(h *history) {
		h.lease(c2, 10)
		h.act(c1, q0, 1)
	}},
	{"an effect begun within the lease", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.at(9)
		h.act(c1, q0, 1)
	}},
	{"an effect begun by one that was to stop, within its lease", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.revoking(q0, c1, 1)
		h.act(c1, q0, 1)
	}},
}

func TestI1_NoTwoRunOneWithValidLeases(t *testing.T) { hear(t, i1) }

var i2 = []story{
	{"a lower token after a higher one", "I2", func(h *history) {
		h.accept(c2, q0, 2)
		h.accept(c1, q0, 1)
	}},
	{"a lower token of the very same session", "I2", func(h *history) {
		h.accept(c1, q0, 2)
		h.accept(c1, q0, 1)
	}},
	{"a token of an older incarnation, though its counter is higher", "I2", func(h *history) {
		h.accept(c2, q0, record.MakeToken(2, 1))
		h.accept(c1, q0, record.MakeToken(1, 9))
	}},
	{"one token from two sessions", "I2", func(h *history) {
		h.accept(c1, q0, 1)
		h.accept(c1, q0, 1)
		h.accept(c2, q0, 1)
	}},
	{"the zero token from two sessions", "I2", func(h *history) {
		h.accept(c2, q0, 0)
		h.accept(c1, q0, 0)
	}},
	{"a lower token, one refusal later", "I2", func(h *history) {
		h.accept(c2, q0, 2)
		h.refuse(c1, q0, 1)
		h.accept(c1, q0, 1)
	}},
	{"lower and stolen tokens refused", "", func(h *history) {
		h.accept(c2, q0, 2)
		h.refuse(c1, q0, 1)
		h.refuse(c3, q0, 2)
		h.accept(c2, q0, 2)
	}},
	{"a higher token refused is not a token seen", "", func(h *history) {
		h.refuse(c2, q0, 9)
		h.accept(c1, q0, 1)
	}},
	{"tokens grow, and each session repeats its own", "", func(h *history) {
		h.accept(c1, q0, 1)
		h.accept(c1, q0, 1)
		h.accept(c2, q0, 3)
		h.accept(c2, q0, 3)
		h.accept(c1, q0, record.MakeToken(1, 1))
	}},
	{"each partition counts for itself", "", func(h *history) {
		h.accept(c1, q0, 2)
		h.accept(c1, q1, 1)
		h.accept(c2, q2, 2)
	}},
	{"whatever comes first", "", func(h *history) {
		h.accept(c2, q0, 0)
	}},
}

func TestI2_TheSinkNeverGoesBack(t *testing.T) { hear(t, i2) }

var i3 = []story{
	{"the token of the last grant, after the row was free", "I3", func(h *history) {
		h.grant(q0, c1, 2)
		h.free(q0, 2)
		h.grant(q0, c2, 2)
	}},
	{"a lower token, after the row was free", "I3", func(h *history) {
		h.grant(q0, c1, 2)
		h.free(q0, 2)
		h.grant(q0, c2, 1)
	}},
	{"a free row that forgot its token", "I3", func(h *history) {
		h.grant(q0, c1, 1)
		h.free(q0, 0)
		h.grant(q0, c1, 1)
	}},
	{"from hand to hand under one token", "I3", func(h *history) {
		h.grant(q0, c1, 1)
		h.grant(q0, c2, 1)
	}},
	{"a lower token for the same owner", "I3", func(h *history) {
		h.grant(q0, c1, 2)
		h.grant(q0, c1, 1)
	}},
	{"a revoke taken back", "I3", func(h *history) {
		h.grant(q0, c1, 1)
		h.revoking(q0, c1, 1)
		h.grant(q0, c1, 1)
	}},
	{"an older incarnation, though its counter is higher", "I3", func(h *history) {
		h.grant(q0, c1, record.MakeToken(2, 1))
		h.free(q0, record.MakeToken(2, 1))
		h.grant(q0, c2, record.MakeToken(1, 9))
	}},
	{"a grant without a token", "I3", func(h *history) {
		h.grant(q0, c1, 0)
	}},
	{"tokens grow from owner to owner", "", func(h *history) {
		h.grant(q0, c1, 1)
		h.revoking(q0, c1, 1)
		h.free(q0, 1)
		h.grant(q0, c2, 2)
		h.grant(q0, c2, 7)
		h.grant(q0, c1, 8)
	}},
	{"a new incarnation counts on", "", func(h *history) {
		h.grant(q0, c1, record.MakeToken(1, 4))
		h.free(q0, record.MakeToken(1, 4))
		h.grant(q0, c1, record.MakeToken(2, 5))
	}},
	{"a new incarnation counts from one", "", func(h *history) {
		h.grant(q0, c1, record.MakeToken(1, 4))
		h.free(q0, record.MakeToken(1, 4))
		h.grant(q0, c1, record.MakeToken(2, 1))
	}},
	{"a row told again is no grant", "", func(h *history) {
		h.grant(q0, c1, 1)
		h.grant(q0, c1, 1)
	}},
	{"each partition counts for itself", "", func(h *history) {
		h.grant(q0, c1, 2)
		h.grant(q1, c1, 1)
		h.grant(q2, c2, 2)
	}},
}

func TestI3_TokensGrow(t *testing.T) { hear(t, i3) }

var i4 = []story{
	{"a start of what was never granted", "I4", func(h *history) {
		h.lease(c1, 10)
		h.start(c1, q0, 1)
	}},
	{"a start of what was freed before it started", "I4", func(h *history) {
		h.grant(q0, c1, 1)
		h.lease(c1, 10)
		h.free(q0, 1)
		h.start(c1, q0, 1)
	}},
	{"a start by one the plan does not name", "I4", func(h *history) {
		h.grant(q0, c1, 1)
		h.lease(c2, 10)
		h.start(c2, q0, 1)
	}},
	{"a start with an old token", "I4", func(h *history) {
		h.grant(q0, c1, 2)
		h.lease(c1, 10)
		h.start(c1, q0, 1)
	}},
	{"a start with a token nobody granted", "I4", func(h *history) {
		h.grant(q0, c1, 1)
		h.lease(c1, 10)
		h.start(c1, q0, 2)
	}},
	{"a start of what is being revoked from another", "I4", func(h *history) {
		h.grant(q0, c1, 1)
		h.revoking(q0, c1, 1)
		h.lease(c2, 10)
		h.start(c2, q0, 1)
	}},
	{"freed while its owner runs it", "I4", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.revoking(q0, c1, 1)
		h.at(9)
		h.free(q0, 1)
	}},
	{"freed while its owner runs it next to one whose lease is over", "I4", func(h *history) {
		lapse(h)
		h.start(c2, q0, 2)
		h.free(q0, 2)
	}},
	{"freed and granted in one write while its owner runs it", "I4", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.revoking(q0, c1, 1)
		h.at(9)
		h.grant(q0, c2, 2)
	}},
	{"granted anew to its owner while it still runs it", "I4", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.grant(q0, c1, 2)
	}},
	{"freed after its owner stopped another", "I4", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c1, q1, 1, 10)
		h.stop(c1, q1)
		h.free(q0, 1)
	}},
	{"freed after another stopped", "I4", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c2, q0)
		h.free(q0, 1)
	}},
	{"freed after another was gone", "I4", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.gone(c2)
		h.free(q0, 1)
	}},
	{"freed when the lease is just over", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.at(10)
		h.free(q0, 1)
	}},
	{"freed and granted in one write when the lease is just over", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.at(10)
		h.grant(q0, c2, 2)
	}},
	{"freed and granted in one write when its owner has stopped", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.stop(c1, q0)
		h.grant(q0, c2, 2)
	}},
	{"told again while its owner runs it", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.grant(q0, c1, 1)
	}},
	{"freed when its owner has stopped", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.revoking(q0, c1, 1)
		h.stop(c1, q0)
		h.free(q0, 1)
	}},
	{"freed when its owner is gone, and all it ran", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c1, q2, 1, 10)
		h.gone(c1)
		h.free(q0, 1)
		h.free(q2, 1)
	}},
	{"one freed while its owner runs another", "", func(h *history) {
		h.runs(c1, q0, 1, 10)
		h.runs(c1, q1, 1, 10)
		h.stop(c1, q0)
		h.free(q0, 1)
	}},
	{"the owner starts what it is to give back: it has not heard yet", "", func(h *history) {
		h.grant(q0, c1, 1)
		h.lease(c1, 10)
		h.revoking(q0, c1, 1)
		h.start(c1, q0, 1)
	}},
	{"a start of what is free, without a lease", "", func(h *history) {
		h.start(c1, q0, 1)
	}},
	{"a start of another's, the own lease just over", "", func(h *history) {
		h.grant(q0, c1, 1)
		h.lease(c2, 10)
		h.at(10)
		h.start(c2, q0, 1)
	}},
	{"a lease ends with its process", "", func(h *history) {
		h.lease(c1, 10)
		h.gone(c1)
		h.start(c1, q0, 1)
	}},
}

func TestI4_OnlyTheOwnerRunsIt(t *testing.T) { hear(t, i4) }
