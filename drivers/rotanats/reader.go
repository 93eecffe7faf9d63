package rotanats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// A reader is a group that reads a stream, by consumers that belong to it alone.
type reader struct {
	group    string
	durable  string // in the keys of its notes and the names of its consumers
	takeover string // the group whose notes and consumers it may use as well; "" for none
}

// Bind tells the source its group. Without durable= in the URL the durable has the name
// of the group, so that groups are independent readers. With takeover=OLD alone it is
// OLD, the durable of that group.
func (s *source) Bind(group string) error {
	if !address.Plain(group) {
		return fmt.Errorf("rotanats: group %.40q: use A-Z, a-z, 0-9, _ and -, at most 64 of them", group)
	}
	r := &reader{group: group, durable: cmp.Or(s.set.Durable, s.set.Takeover, group), takeover: s.set.Takeover}
	if s.reader.CompareAndSwap(nil, r) {
		return nil
	}
	if bound := s.reader.Load(); bound.group != group {
		return fmt.Errorf("rotanats: this source reads for group %s and cannot read for group %s too: make another Source for %[2]s", bound.group, group)
	}
	return nil
}

// errUnbound means that a member consumes from a source that was never bound.
var errUnbound = errors.New("rotanats: this source does not know its group: a Source that wraps it must forward Bind, see rota.Binder")

// A foreign error means that a consumer belongs to another group, or to none. It says
// whose it is and what to do, in the same words for all partitions: then it can be told
// once for all.
type foreign string

func foreignf(format string, args ...any) error { return foreign(fmt.Sprintf(format, args...)) }

func (f foreign) Error() string { return "rotanats: " + string(f) }

// hopeless tells whether attaching again would not help after an error: rota reports it
// and backs off.
func hopeless(err error) bool {
	var f foreign
	return errors.As(err, &f) || denied(err) || code(err) == codeMaxConsumers || errors.Is(err, errUnbound) || errors.Is(err, errNoSubject) || errors.Is(err, errDeadLetter) && !errors.Is(err, errGone)
}

// others tells whether a group that a note or a consumer names is another one. Those of
// earlier versions name none: they belong to any group that uses their durable.
func (r *reader) others(group string) bool { return group != "" && group != r.group }

// mayUse returns an error if the group may not use the consumers that a note names,
// because they belong to another group.
//
// Two groups could each be told to take over from the other, or three in a circle. So a
// note keeps the groups that it was taken from, and none of them may have it back. A
// group without takeover= clears that list: then it may be renamed to an earlier name.
func (r *reader) mayUse(n *note) error {
	former := slices.Contains(strings.Fields(n.From), r.group)
	switch {
	case !r.others(n.Group):
		return nil
	case n.Group != r.takeover && former:
		return foreignf("group %s has taken durable %s over from group %s, and this is group %[3]s: stop it, or give it another durable by durable=NAME in its URL",
			n.Group, r.durable, r.group)
	case n.Group != r.takeover:
		return foreignf("durable %s belongs to group %s, and this is group %s: to read independently, %s; to continue in place of %[2]s, add durable=%[1]s&takeover=%[2]s",
			r.durable, n.Group, r.group, r.otherDurable())
	case former:
		return foreignf("group %s has taken durable %s over from group %s, and takeover=%[1]s in the URL of %[3]s would take it back: remove one of the two; once %[1]s has run without takeover=, %[3]s may take over",
			n.Group, r.durable, r.group)
	}
	return nil
}

// otherDurable says how a group gets a durable of its own.
func (r *reader) otherDurable() string {
	if r.durable == r.group {
		return "give it another durable by durable=NAME in its URL"
	}
	return fmt.Sprintf("leave durable and takeover out of its URL: then its durable is %s", r.group)
}

// adopt makes a note that the group may use its own. A token of another group means
// nothing to this one, but it limits the tokens in the names of consumers that the note
// may contain until they are replaced. A consumer of another group or of an earlier
// version, or one whose note has an outdated list of groups, is not continued but
// replaced: only then do its metadata and the note on disk say whose it is.
func (r *reader) adopt(n *note) {
	if r.others(n.Group) {
		n.From = strings.Join(last(append(strings.Fields(n.From), n.Group), maxFrom), " ")
		n.Before, n.Token = max(n.Before, n.Token), 0
	}
	outdated := r.takeover == "" && n.From != ""
	if outdated {
		n.From = ""
	}
	if outdated || n.Group != r.group {
		n.Group, n.Released = r.group, false
	}
}

// maxFrom limits how many groups a note remembers that it was taken from.
const maxFrom = 16

// last returns the last elements of a list, n at most.
func last(list []string, n int) []string { return list[max(0, len(list)-n):] }

// inTheWay returns why JetStream refuses a consumer of a partition of a work queue, after
// every consumer that is in the way and belongs to this group is gone.
func (s *source) inTheWay(ctx context.Context, r *reader, own rota.Ownership) error {
	var found *consumerInfo
	err := s.listConsumers(ctx, func(c *consumerInfo) {
		if found == nil && c.reads(own.Partition()) {
			found = c
		}
	})
	if err != nil || found == nil {
		return err
	}
	group, durable := found.Config.Metadata[metaGroup], found.Config.Metadata[metaDurable]
	var who string
	switch {
	case !address.Plain(durable), group != "" && !address.Plain(group), durable == r.durable && !r.others(group): // clearWay has removed ours
		who = fmt.Sprintf("consumer %s, which no group of rota has made, reads it: remove that consumer, or let group %s read another stream", found.Name, r.group)
	case group == r.group:
		who = fmt.Sprintf("group %s itself reads it under durable %s: write durable=%[2]s into its URL", group, durable)
	case group == "":
		who = fmt.Sprintf("durable %s of an earlier version of rota reads it: to continue there, write durable=%[1]s into the URL of group %s", durable, r.group)
	default:
		who = fmt.Sprintf("group %s reads it under durable %s, and this is group %s: let one of them read another stream; or stop %[1]s and continue in its place by durable=%[2]s&takeover=%[1]s in the URL of %[3]s",
			group, durable, r.group)
	}
	return foreignf("stream %s is a work queue, where a subject has one reader, and %s", s.set.Stream, who)
}

// reads tells whether the consumer gets messages of a subject.
func (c *consumerInfo) reads(subject string) bool {
	filters := c.Config.FilterSubjects
	if c.Config.FilterSubject != "" {
		filters = append(filters, c.Config.FilterSubject)
	}
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool { return address.Matches(f, subject) })
}
