package rota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/internal/rule"
)

// era is the wall clock in units of 4 s, from which incarnations are numbered. It is
// bounded, so that a clock that is centuries off does not use up the numbers.
func era() uint32 {
	return uint32(min(max(time.Now().Unix(), 0)/4, record.LastIncarnation-1<<20))
}

// key is the store's key for a record.
func key(group string, k core.Key) string {
	switch k.Cell {
	case core.PlanCell:
		return group + "/plan"
	case core.RosterCell:
		return group + "/roster"
	case core.OrdersCell:
		return group + "/orders"
	}
	return group + "/member/" + k.Session.String()
}

// historyKey is the store's key for the history, which the core never reads.
func historyKey(group string) string { return group + "/history" }

// memberKey is the inverse of key for members: it reads the session out of
// "member/<session>".
func memberKey(name string) (record.Session, error) {
	hex, ok := strings.CutPrefix(name, "member/")
	if !ok || len(hex) != 16 {
		return 0, errors.New("not a key of rota")
	}
	v, err := strconv.ParseUint(hex, 16, 64)
	if err != nil || v == 0 {
		return 0, errors.New("not a key of rota")
	}
	return record.Session(v), nil
}

// call makes one store call and sends exactly one answer to the core. After the
// timeout the answer is Unknown, and a later answer of the store is dropped.
func (s *session) call(a core.Action) {
	reads := (a.Verb == core.Get || a.Verb == core.List) && a.Key.Session != s.id && !s.node.Leads()
	s.goDo(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
		defer cancel()
		var answered atomic.Bool
		late := context.AfterFunc(ctx, func() {
			if !answered.Swap(true) {
				if reads {
					s.backOff()
				}
				s.send(core.Event{Kind: core.Answer, Verb: a.Verb, Key: a.Key, Outcome: core.Unknown})
			}
		})
		ev := s.perform(ctx, &a)
		late()
		if ev.Outcome == core.Unknown && reads && !answered.Load() {
			s.backOff()
		}
		// one-answer-per-call: A store call is answered once.
		// Without it: A call is answered as unknown when its time is over, and then by the
		// store. The core takes the late answer for that of its next call.
		if !answered.Swap(true) || rule.OneAnswerPerCall.Off() {
			s.send(ev)
		}
	})
}

func (s *session) perform(ctx context.Context, a *core.Action) core.Event {
	ev := core.Event{Kind: core.Answer, Verb: a.Verb, Key: a.Key, Era: era()}
	k := key(s.m.cfg.Group, a.Key)
	began := s.m.now()
	var err error
	switch a.Verb {
	case core.Put:
		var b []byte
		var rev Rev
		if b, err = record.Encode(s.value(a)); err != nil {
			s.condition(ConditionRecordUnwritable, "", fmt.Sprintf("a record cannot be encoded and was not written: %v", err))
			ev.Outcome = core.Refused
			return ev
		}
		rev, err = s.m.cfg.Store.Put(ctx, k, b, Rev(a.Prev))
		ev.Rev = core.Rev(rev)
	case core.Delete:
		err = s.m.cfg.Store.Delete(ctx, k, Rev(a.Prev))
	case core.Get:
		var e Entry
		if e, err = s.m.cfg.Store.Get(ctx, k); err == nil && e.Deleted {
			err = ErrNotFound
		}
		if err == nil {
			ev.Entries, err = s.decode([]Entry{e})
		}
	case core.List:
		ev.Entries, err = s.list(ctx)
	}
	s.hearStore(a, began, err)
	switch {
	case err == nil:
	case errors.Is(err, ErrConflict):
		ev.Outcome = core.Conflict
	case errors.Is(err, ErrNotFound):
		ev.Outcome = core.NotFound
	default:
		ev.Outcome = core.Unknown
	}
	return ev
}

func (s *session) value(a *core.Action) record.Record {
	switch {
	case a.Plan != nil:
		return a.Plan
	case a.Roster != nil:
		return a.Roster
	}
	m := *a.Member
	// Our own heartbeat only: declaring a peer dead must not overwrite its last Sent
	// and Conditions.
	if m.Session == s.id {
		for _, from := range []any{s.m.cfg.Store, s.m.cfg.Source} {
			if w, ok := from.(Warner); ok {
				for _, text := range w.Warnings() {
					s.condition(ConditionWarning, "", text)
				}
			}
		}
		s.renewHold()
		m.Sent = time.Now().UnixMilli()
		m.Conditions = s.conditions.now(time.Now())
		m.Letters = uint64(s.dead.Load())
		if s.m.cfg.Strategy == Pack {
			m.Load, m.Handled, m.Busy = s.tally.report(time.Now(), s.m.cfg.Parallel)
		}
	}
	return &m
}

// list reads the records of all members: the first batch of a watch is such a list.
func (s *session) list(ctx context.Context) ([]core.Entry, error) {
	for batch, err := range s.m.cfg.Store.Watch(ctx, s.m.cfg.Group+"/member/") {
		if err != nil {
			return nil, err
		}
		// A list shows what is there. A driver that lists a deletion, too, does no harm.
		return s.decode(slices.DeleteFunc(slices.Clone(batch), func(e Entry) bool { return e.Deleted }))
	}
	return nil, errors.New("watch closed before its first batch")
}

// decode turns entries of the store into records. An entry that cannot be decoded is
// left out with a condition, so that the core keeps the last good version. It is an
// error only if it was the only entry.
func (s *session) decode(batch []Entry) ([]core.Entry, error) {
	out := make([]core.Entry, 0, len(batch))
	var bad error
	for _, e := range batch {
		if e.Key == historyKey(s.m.cfg.Group) || e.Key == loadsKey(s.m.cfg.Group) {
			continue // for people only
		}
		x, err := decodeEntry(s.m.cfg.Group, e)
		if err != nil {
			bad = fmt.Errorf("%s: %w", e.Key, err)
			if s.unreadable.first(e.Key, e.Rev) {
				s.condition(ConditionRecordUnreadable, "", "the store holds a record that cannot be read: "+bad.Error())
			}
			continue
		}
		out = append(out, x)
	}
	if len(batch) == 1 && bad != nil {
		return nil, bad
	}
	return out, nil
}

// unreadable remembers which versions of which records have been reported as such:
// every poll and every listing meets them again.
type unreadable struct {
	mu       sync.Mutex
	reported map[string]Rev
}

// mostUnreadable is how many keys are remembered. Only somebody who writes bad records
// on purpose gets beyond it; some of them are then reported twice.
const mostUnreadable = 4096

// first tells whether this version has not been reported yet, and notes it.
func (u *unreadable) first(key string, rev Rev) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if was, reported := u.reported[key]; reported && was == rev {
		return false
	}
	if u.reported == nil || len(u.reported) >= mostUnreadable {
		u.reported = map[string]Rev{}
	}
	u.reported[key] = rev
	return true
}

func decodeEntry(group string, e Entry) (core.Entry, error) {
	x := core.Entry{Rev: core.Rev(e.Rev), Deleted: e.Deleted}
	name, ok := strings.CutPrefix(e.Key, group+"/")
	if !ok {
		return x, errors.New("not a key of this group")
	}
	var err error
	switch {
	case name == "plan":
		x.Cell = core.PlanCell
		if !e.Deleted {
			x.Plan, err = record.OpenPlan(e.Value)
		}
	case name == "roster":
		x.Cell = core.RosterCell
		if !e.Deleted {
			x.Roster, err = record.OpenRoster(e.Value)
		}
	case name == "orders":
		x.Cell = core.OrdersCell
		if !e.Deleted {
			x.Orders, err = record.DecodeOrders(e.Value)
		}
	default:
		x.Cell = core.MemberCell
		if x.Session, err = memberKey(name); err == nil && !e.Deleted {
			x.Member, err = record.DecodeMember(e.Value)
			if err == nil && x.Member.Session != x.Session {
				err = fmt.Errorf("it is the record of %v", x.Member.Session)
			}
		}
	}
	return x, err
}

// setWatch starts and ends watches, so that they are those that the core wants.
func (s *session) setWatch(w core.Watch) {
	want := map[string]bool{"plan": true, "roster": true, "orders": w.Orders, "member/": w.All}
	if !w.All && w.Leader != 0 {
		want["member/"+w.Leader.String()] = true
	}
	for k, cancel := range s.watches {
		if !want[k] {
			cancel()
			delete(s.watches, k)
		}
	}
	for k, on := range want {
		if on && s.watches[k] == nil {
			s.watch(k, k == "member/")
		}
	}
}

// watch sends the core the changes under one key or prefix, until it is cancelled. A
// watch that breaks is begun again after a back-off, and the core hears of the gap: it
// then reads what it may have missed.
func (s *session) watch(name string, all bool) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.watches[name] = cancel
	s.goDo(func() {
		for ctx.Err() == nil {
			first := true
			for batch, err := range s.m.cfg.Store.Watch(ctx, s.m.cfg.Group+"/"+name) {
				if err != nil {
					break
				}
				s.saw(ctx, batch, first, all)
				first = false
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.m.timing.Retry):
			}
			s.missed()
		}
	})
}

// saw gives the core a batch of a watch.
func (s *session) saw(ctx context.Context, batch []Entry, first, all bool) {
	es, _ := s.decode(batch)
	if ctx.Err() == nil {
		s.send(core.Event{Kind: core.Seen, First: first, AllMembers: all, Entries: es})
	}
}

// missed tells the core of the gap after a watch broke. It is not inlined, see tellRun.
//
//go:noinline
func (s *session) missed() {
	s.backOff()
	s.identify() // the store may be connected to another server now
	s.send(core.Event{Kind: core.Gap})
}

// identify tells the core which server the store is connected to.
func (s *session) identify() {
	st, ok := s.m.cfg.Store.(Identifier)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
	defer cancel()
	if id, err := st.Identity(ctx); err == nil && id != "" {
		s.send(core.Event{Kind: core.Server, Text: id})
	}
}

// meet opens the store and asks whether it is new, where it can tell, before the core
// begins. It answers Status meanwhile. Nothing waits for the source to be open. How long opening takes goes into the member's record;
// longer than the leader would make of it nobody waits.
// Only the first session of a Member believes that the store is new: if a store that
// this process made is empty when a session comes back, it has lost a group, and
// members that are cut off may still have their leases.
func (s *session) meet(ctx context.Context, cfg *core.Config) {
	if src, ok := s.m.cfg.Source.(Opener); ok {
		s.goDo(func() { src.Open(s.ctx) }) // what goes wrong will be told by the call that needs it
	}
	if st, ok := s.m.cfg.Store.(Opener); ok {
		began, most := time.Now(), core.MostForSlow*s.m.timing.Quiet
		s.whileAsked(ctx, time.After(most), func() { s.callStore(st.Open) })
		cfg.Self.Took = min(time.Since(began), most) // the process may have stood still
	}
	if st, ok := s.m.cfg.Store.(Fresher); ok && !cfg.Fresh {
		is := false
		if s.whileAsked(ctx, nil, func() { is = s.isNew(st) }) {
			// rejoined-session-is-not-fresh: see newSession.
			cfg.Fresh = is && (s.m.joins == 1 || rule.RejoinedSessionIsNotFresh.Off())
		}
	}
}

// whileAsked answers Status until f, which it starts, has returned, until it is enough, or
// until ctx ends. It tells whether f has returned.
func (s *session) whileAsked(ctx context.Context, enough <-chan time.Time, f func()) bool {
	done := make(chan struct{})
	s.goDo(func() {
		defer close(done)
		f()
	})
	for {
		select {
		case <-done:
			return true
		case <-enough:
			return false
		case ask := <-s.m.asks:
			ask(s)
		case <-ctx.Done():
			return false
		}
	}
}

func (s *session) isNew(st Fresher) (is bool) {
	err := s.callStore(func(ctx context.Context) (err error) {
		is, err = st.Fresh(ctx)
		return err
	})
	return is && err == nil // if in doubt it is not: that costs one lease of waiting
}

// callStore calls the store, for as long as a call may take.
func (s *session) callStore(call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.m.timing.CallTime())
	defer cancel()
	return call(ctx)
}
