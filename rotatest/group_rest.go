package rotatest

import (
	"strings"
	"time"
)

// steady checks that members at rest write one heartbeat each per period, and nothing
// else. A store that fails meanwhile is not at rest: then nothing is counted.
func (g *groupTest) steady(members ...*testMember) {
	g.Helper()
	failures := g.failures(members)
	g.periods(2, members) // what belongs to the last plan is written by then
	before, began := g.writes(members), time.Now()
	const periods = 4
	g.periods(periods, members)
	after, most := g.writes(members), int(time.Since(began)/testHeartbeat)+2
	if g.failures(members) > failures {
		g.Log("the store has failed meanwhile: the writes of members at rest are not counted")
		return
	}
	for key, n := range after {
		n -= before[key]
		switch own := strings.Contains(key, "/member/"); {
		case !own && n > 0:
			g.Errorf("at rest %s was written %d times, want heartbeats only", key, n)
		case own && n > most:
			g.Errorf("at rest %s was written %d times in %v, want once per %v", key, n, time.Since(began).Round(time.Millisecond), testHeartbeat)
		}
	}
}

// periods waits until each member has written so many heartbeats.
func (g *groupTest) periods(n int, members []*testMember) {
	g.Helper()
	for _, m := range members {
		before := m.beats()
		eventually(g, g.bound, m.name+" writes heartbeats", func() bool { return m.beats() >= before+n })
	}
}

// beats is how often the member has written the record of a session, at rest its own.
func (m *testMember) beats() (n int) {
	for key, times := range m.store.writes() {
		if _, session, ok := strings.Cut(key, "/member/"); ok && session != "" {
			n += times
		}
	}
	return n
}

// writes is how often each key was written by the members.
func (g *groupTest) writes(members []*testMember) map[string]int {
	all := map[string]int{}
	for _, m := range members {
		for key, n := range m.store.writes() {
			all[key] += n
		}
	}
	return all
}

func (g *groupTest) failures(members []*testMember) (n int) {
	for _, m := range members {
		n += m.store.failures()
	}
	return n
}
