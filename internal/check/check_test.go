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

var (
	two  = []int32{c1, c2}
	both = []int32{q0, q1}
)

// atRest: c1 runs q0@1 and c2 runs q1@1, q2 is free.
func atRest(h *history) {
	h.runs(c1, q0, 1, 10)
	h.runs(c2, q1, 1, 10)
	h.at(9)
}

var l1 = []story{
	{"all run what they own", "", func(h *history) {
		atRest(h)
		h.rest(two, []int32{c2, c1}, both)
	}},
	{"a member lives that is not planned", "L1", func(h *history) {
		atRest(h)
		h.rest([]int32{c1, c2, c3}, two, both)
	}},
	{"a member is planned that does not live", "L1", func(h *history) {
		atRest(h)
		h.rest(two, []int32{c1, c2, c3}, both)
	}},
	{"the numbers are right and the names are not", "L1", func(h *history) {
		atRest(h)
		h.rest(two, []int32{c1, c3}, both)
	}},
	{"a partition is free", "L1", func(h *history) {
		atRest(h)
		h.rest(two, two, []int32{q0, q1, q2})
	}},
	{"a partition that should not run is free", "", func(h *history) {
		atRest(h)
		h.rest(two, two, both)
	}},
	{"a partition is being revoked from one that runs it", "L1", func(h *history) {
		atRest(h)
		h.revoking(q1, c2, 1)
		h.rest(two, two, both)
	}},
	{"an owner never started", "L1", func(h *history) {
		atRest(h)
		h.grant(q2, c1, 1)
		h.rest(two, two, []int32{q0, q1, q2})
	}},
	{"an owner stopped", "L1", func(h *history) {
		atRest(h)
		h.stop(c2, q1)
		h.rest(two, two, both)
	}},
	{"an owner runs it under its former token", "L1", func(h *history) {
		atRest(h)
		h.at(10)
		h.grant(q1, c2, 2)
		h.lease(c1, 20)
		h.lease(c2, 20)
		h.rest(two, two, both)
	}},
	{"another runs it, not the owner", "L1", func(h *history) {
		atRest(h)
		h.grant(q2, c1, 1)
		h.start(c3, q2, 1)
		h.lease(c3, 10)
		h.rest([]int32{c1, c2, c3}, []int32{c1, c2, c3}, []int32{q2})
	}},
	{"an owner's lease is just over", "L1", func(h *history) {
		atRest(h)
		h.lease(c1, 20)
		h.at(10)
		h.rest(two, two, both)
	}},
	{"an owner runs it next to one whose lease is over", "", func(h *history) {
		lapse(h)
		h.start(c2, q0, 2)
		h.rest([]int32{c2}, []int32{c2}, []int32{q0})
	}},
	{"nobody lives, and nothing runs", "", func(h *history) {
		h.rest(nil, two, both)
	}},
	{"one lives and nothing is to be run", "", func(h *history) {
		h.rest([]int32{c3}, []int32{c3}, nil)
	}},
}

func TestL1_AtRestAllIsOwnedAndRuns(t *testing.T) { hear(t, l1) }
