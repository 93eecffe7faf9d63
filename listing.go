package rota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// ask lists the partitions of the source and gives the result to the core.
func (s *session) ask() {
	ctx, cancel := context.WithTimeout(s.ctx, max(s.m.timing.CallTime(), 5*time.Second))
	defer cancel()
	list, err := s.m.cfg.Source.Partitions(ctx)
	ev := core.Event{Kind: core.Listed}
	if l, ok := s.m.cfg.Source.(Lister); ok {
		ev.Complete = l.ListsAll()
	}
	if ev.Complete {
		s.m.sourceListsAll.Store(true)
	}
	empty := s.m.sourceListsAll.Load() // whether the list may be
	if errors.Is(err, ErrPartial) {
		s.leftOut(parts(err))
		empty, err = true, nil
	}
	if err != nil {
		ev.Outcome = core.Unknown
		s.sourceAway(err, ConditionPartitionsUnknown, "", fmt.Sprintf("the source cannot list its partitions: %v", err))
	} else {
		if s.conditions.end(ConditionPartitionsUnknown) {
			s.m.log.Warn("the source lists its partitions again", "member", s.m.name)
		}
		var bad []error
		if ev.Listing, bad, err = listing(list, empty); err != nil {
			ev.Outcome, ev.Text = core.Unknown, err.Error()
			s.condition(ConditionNotServed, "", "the source lists what cannot be served: "+ev.Text)
		}
		s.leftOut(bad)
	}
	s.send(ev)
}

// tellNothing reports, for as long as this member leads, that the source lists nothing
// and the group has no partition. The member waits: in many brokers a queue or a topic
// appears with its first message.
func (s *session) tellNothing(ev *core.Event) {
	if ev.Outcome != core.OK {
		return
	}
	is := len(ev.Listing) == 0
	if is == s.nothing {
		return
	}
	if s.nothing = is; !is {
		s.endNothing()
		return
	}
	c := ConditionInfo{ConditionNoPartitions, "", fmt.Sprintf("the source lists no partition: it is asked again every %v until there is one", s.m.timing.Ask)}
	s.conditions.begin(c, time.Now())
	s.report(c, 1)
}

func (s *session) endNothing() {
	s.nothing = false
	s.conditions.over(ConditionNoPartitions, "")
}

// mostLeftOut is how many names that are left out are reported one by one. In many
// brokers any publisher can make up names, and they must not crowd out other
// conditions.
const mostLeftOut = 8

// leftOut reports the partitions of a listing that are not served, each once.
func (s *session) leftOut(bad []error) {
	for i, b := range bad {
		if i == mostLeftOut {
			s.conditionOnce(ConditionNotServed, "", fmt.Sprintf("the source lists more than %d names that cannot be served", mostLeftOut))
			return
		}
		s.conditionOnce(ConditionNotServed, "", strings.TrimPrefix(b.Error(), "rota: "))
	}
}

// parts are the errors that were joined into err, if each of them wraps ErrPartial;
// otherwise err alone.
func parts(err error) []error {
	j, ok := err.(interface{ Unwrap() []error })
	if !ok || slices.ContainsFunc(j.Unwrap(), func(p error) bool { return !errors.Is(p, ErrPartial) }) {
		return []error{err}
	}
	return j.Unwrap()
}

// sourceAway reports an error of the source as a condition. An error that will not end
// by itself makes a member leave that never had an answer from its source: a stream
// that was removed, say, is a condition to the members that were at work on it, and
// they go on when it is back.
func (s *session) sourceAway(err error, code Condition, partition, text string) {
	if errors.Is(err, ErrPermanent) && !s.m.sourceAnswered.Load() {
		s.refuse(fmt.Errorf("rota: the source cannot be used: %w", err))
		return
	}
	s.condition(code, partition, text)
}

// refuses tells whether the source's first answer makes this member leave: nothing
// in it can be served, and the group has no roster yet. A group that has a roster
// goes on with it, so that a broker's bad moment does not end one leader after the
// other. Later answers never end a member.
func (s *session) refuses(ev *core.Event) bool {
	if ev.Outcome != core.OK && ev.Text == "" {
		return false // the source has not answered
	}
	if s.m.sourceAnswered.Swap(true) || ev.Text == "" || s.node.Roster() != nil {
		return false
	}
	s.refused = fmt.Errorf("rota: Config.Source lists what cannot be served: %s", ev.Text)
	return true
}

// listing checks a source's list. Names that cannot be served are left out: in many
// brokers any publisher can make up a partition, and a bad name must not keep the
// leader from planning the others.
// A list may be empty if its broker was asked for it: something may appear.
func listing(list []Partition, mayBeEmpty bool) (good []record.Partition, bad []error, err error) {
	if len(list) == 0 && mayBeEmpty {
		return nil, nil, nil
	}
	if len(list) == 0 {
		return nil, nil, errors.New("no partition at all: name at least one")
	}
	seen := map[string]bool{}
	r := &record.Roster{Ver: 1}
	var first error
	for i, p := range list {
		if err := checkName("partition", p.Name, 256); err != nil {
			bad = append(bad, fmt.Errorf("not served: %w", err))
			first = cmp.Or(first, checkName(fmt.Sprintf("partition %d", i), p.Name, 256))
			continue
		}
		if seen[p.Name] {
			return nil, nil, fmt.Errorf("%q twice: names must differ", p.Name)
		}
		seen[p.Name] = true
		meta := usersMeta(p.Meta)
		if len(meta) < len(p.Meta) {
			bad = append(bad, fmt.Errorf("metadata of %q is left out: keys that begin with %q are rota's own", p.Name, reservedMeta))
		}
		if err := checkName("topic", p.Topic, 256); p.Topic != "" && err != nil {
			bad = append(bad, fmt.Errorf("%q is served without its topic: %w", p.Name, err))
			p.Topic = ""
		}
		r.Entries = append(r.Entries, record.Partition{Name: p.Name, Topic: p.Topic, Meta: pairs(meta)})
	}
	if len(r.Entries) == 0 {
		return nil, nil, first
	}
	if _, err := record.Encode(r); err != nil {
		return nil, bad, fmt.Errorf("%w: make the list shorter or its metadata smaller", err)
	}
	return r.Entries, bad, nil
}
