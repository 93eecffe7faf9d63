package rota

import (
	"context"
	"time"
)

// Observe is Inspect by a reader with patience: it also finds out which members are
// silent. One read cannot tell, since a heartbeat is dated by the clock of its sender.
// If all heartbeats look new, as they do in a group that is well, one read is all.
// Otherwise Observe reads on, until a heartbeat has come from each member in doubt, or
// should have come on the clock of this machine, for 30 s at most.
func Observe(ctx context.Context, store Store, group string) (Status, error) {
	o := observer{began: time.Now(), seen: map[string]sighting{}}
	for {
		st, err := Inspect(ctx, store, group)
		if err != nil {
			return st, err
		}
		wait := o.compare(&st)
		if wait <= 0 {
			st.assess()
			return st, nil
		}
		select {
		case <-ctx.Done():
			return st, ctx.Err()
		case <-time.After(min(wait, readEvery)):
		}
	}
}

const (
	readEvery  = 200 * time.Millisecond
	mostLooked = 30 * time.Second
	// ahead is how far the clock of another machine may be ahead of ours before its
	// heartbeats are in doubt.
	ahead = time.Second
)

// An observer knows which heartbeats it has seen.
type observer struct {
	began time.Time
	seen  map[string]sighting // by session
}

// A sighting is the first heartbeat that was seen of a session.
type sighting struct {
	sent time.Time
	at   time.Time // on this machine's clock
}

// compare marks the members that are silent, and returns how long to go on looking
// for those in doubt.
func (o *observer) compare(st *Status) (wait time.Duration) {
	now := time.Now()
	for i := range st.Members {
		m := &st.Members[i]
		first, known := o.seen[m.Session]
		if !known {
			first = sighting{m.Sent, now}
			o.seen[m.Session] = first
		}
		late := overdue(m)
		if !m.lives() || !m.Sent.Equal(first.sent) || !m.Sent.IsZero() && m.Age >= -ahead && m.Age <= late {
			continue
		}
		looked := now.Sub(first.at)
		m.Silent = looked >= late || now.Sub(o.began) >= mostLooked && m.Age > m.deadAfter()
		if !m.Silent && now.Sub(o.began) < mostLooked {
			wait = max(wait, late-looked)
		}
	}
	return wait
}

// overdue is the time after which the next heartbeat of a member is missed.
func overdue(m *MemberInfo) time.Duration { return m.Heartbeat * 3 / 2 }
