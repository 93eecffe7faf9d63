package check

import "testing"

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
	{"an owner runs it, and one without a lease came after", "", func(h *history) {
		atRest(h)
		h.start(c3, q0, 1)
		h.rest(two, two, both)
	}},
	{"nobody lives, and nothing runs", "", func(h *history) {
		h.rest(nil, two, both)
	}},
	{"one lives and nothing is to be run", "", func(h *history) {
		h.rest([]int32{c3}, []int32{c3}, nil)
	}},
}

func TestL1_AtRestAllIsOwnedAndRuns(t *testing.T) { hear(t, l1) }
