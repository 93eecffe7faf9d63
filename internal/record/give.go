package record

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Give applies one command of an operator to the orders, and tells whether it
// changed anything. Lists that x had before are not written to: others may still
// read them.
func (x *Orders) Give(verb string, args ...string) (changed bool, err error) {
	v, known := verbs[verb]
	if !known {
		return false, fmt.Errorf("unknown order %q; there are %s", verb, strings.Join(slices.Sorted(maps.Keys(verbs)), ", "))
	}
	if len(args) < v.least || len(args) > v.most {
		return false, fmt.Errorf("%s takes %s, not %q", verb, cmp.Or(v.wants, "no arguments"), args)
	}
	was := x.Append(nil)
	if err := v.do(x, args); err != nil {
		return false, fmt.Errorf("%s %s: %w", verb, args[0], err)
	}
	return !bytes.Equal(was, x.Append(nil)), nil
}

// many is more arguments than anyone gives.
const many = 1 << 20

var verbs = map[string]struct {
	wants       string
	least, most int
	do          func(x *Orders, args []string) error
}{
	"pause":   {"partitions", 1, many, edit(pauses, with)},
	"resume":  {"partitions", 1, many, edit(pauses, without)},
	"drain":   {"members", 1, many, edit(drains, with)},
	"undrain": {"members", 1, many, edit(drains, without)},
	"add":     {"partitions", 1, many, both(edit(add, with), edit(remove, without))},
	"remove":  {"partitions", 1, many, both(edit(remove, with), edit(add, without))},
	"pin":     {"a partition and a member", 2, 2, pin},
	"unpin":   {"partitions", 1, many, unpin},
	"ban":     {"a partition and members", 2, many, ban},
	"unban":   {"a partition and, unless all its bans are meant, members", 1, many, unban},
	"release": {"a partition and how many deaths to forgive it", 2, 2, release},
	"freeze":  {"", 0, 0, func(x *Orders, _ []string) error { x.Freeze = true; return nil }},
	"thaw":    {"", 0, 0, func(x *Orders, _ []string) error { x.Freeze = false; return nil }},
	"set":     {"a partition and KEY=VALUE", 2, many, set},

	"set-topic": {"a topic and KEY=VALUE", 2, many, setTopic},
}

func pauses(x *Orders) *[]string { return &x.Pauses }
func drains(x *Orders) *[]string { return &x.Drains }
func add(x *Orders) *[]string    { return &x.Add }
func remove(x *Orders) *[]string { return &x.Remove }

func edit(list func(*Orders) *[]string, how func(list, names []string) []string) func(*Orders, []string) error {
	return func(x *Orders, names []string) error {
		l := list(x)
		*l = how(*l, names)
		return nil
	}
}

func both(first, then func(*Orders, []string) error) func(*Orders, []string) error {
	return func(x *Orders, args []string) error { return cmp.Or(first(x, args), then(x, args)) }
}

func with(list, names []string) []string {
	out := slices.Concat(list, names)
	slices.Sort(out)
	return slices.Compact(out)
}

func without(list, names []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(names, s) })
}

func pin(x *Orders, args []string) error {
	unpin(x, args[:1])
	x.Pins = append(x.Pins, Pin{args[0], args[1]})
	slices.SortFunc(x.Pins, byPartition)
	return nil
}

func unpin(x *Orders, args []string) error {
	x.Pins = slices.DeleteFunc(slices.Clone(x.Pins), func(p Pin) bool { return slices.Contains(args, p.Partition) })
	return nil
}

func ban(x *Orders, args []string) error {
	unban(x, args)
	for _, m := range with(nil, args[1:]) {
		x.Bans = append(x.Bans, Pin{args[0], m})
	}
	slices.SortFunc(x.Bans, byPartition)
	return nil
}

// unban lifts the bans of a partition from the members named, or all of its bans if
// none is named.
func unban(x *Orders, args []string) error {
	p, members := args[0], args[1:]
	x.Bans = slices.DeleteFunc(slices.Clone(x.Bans), func(b Pin) bool {
		return b.Partition == p && (len(members) == 0 || slices.Contains(members, b.Member))
	})
	return nil
}

// release forgives a partition the deaths of its owners.
func release(x *Orders, args []string) error {
	deaths, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return fmt.Errorf("%q is no number of deaths", args[1])
	}
	x.Release = slices.DeleteFunc(slices.Clone(x.Release), func(r Release) bool { return r.Partition == args[0] })
	x.Release = append(x.Release, Release{args[0], uint32(deaths)})
	slices.SortFunc(x.Release, func(a, b Release) int { return strings.Compare(a.Partition, b.Partition) })
	return nil
}

func byPartition(a, b Pin) int {
	return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.Member, b.Member))
}

// set sets metadata of a partition; KEY= removes a key.
func set(x *Orders, args []string) error {
	meta := slices.Clone(x.Meta)
	i, found := slices.BinarySearchFunc(meta, args[0], func(m Meta, p string) int { return strings.Compare(m.Partition, p) })
	if !found {
		meta = slices.Insert(meta, i, Meta{Partition: args[0]})
	}
	pairs, err := setPairs(meta[i].Pairs, args[1:])
	if err != nil {
		return err
	}
	meta[i].Pairs = pairs
	if len(pairs) == 0 {
		meta = slices.Delete(meta, i, i+1)
	}
	x.Meta = meta
	return nil
}

// setTopic is set for all partitions of a topic.
func setTopic(x *Orders, args []string) error {
	topics := slices.Clone(x.Topics)
	i, found := slices.BinarySearchFunc(topics, args[0], func(t Topic, name string) int { return strings.Compare(t.Name, name) })
	if !found {
		topics = slices.Insert(topics, i, Topic{Name: args[0]})
	}
	pairs, err := setPairs(topics[i].Pairs, args[1:])
	if err != nil {
		return err
	}
	topics[i].Pairs = pairs
	if len(pairs) == 0 {
		topics = slices.Delete(topics, i, i+1)
	}
	x.Topics = topics
	return nil
}

// setPairs returns pairs as KEY=VALUE arguments change them.
func setPairs(pairs []Pair, args []string) ([]Pair, error) {
	pairs = slices.Clone(pairs)
	for _, arg := range args {
		k, v, ok := strings.Cut(arg, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("%q: want KEY=VALUE", arg)
		}
		pairs = slices.DeleteFunc(pairs, func(p Pair) bool { return p.Key == k })
		if v != "" {
			pairs = append(pairs, Pair{k, v})
		}
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.Key, b.Key) })
	return pairs, nil
}

// Fit tells whether the partitions of r, with the partitions and metadata that x
// orders, still make a roster that can be written. The metadata in r has what was
// ordered before, which does not count: x has replaced it, or taken it away.
func (x *Orders) Fit(r *Roster, before *Orders) error {
	next := &Roster{Ver: r.Ver, Entries: slices.Clone(r.Entries)}
	known := make(map[string]bool, len(next.Entries))
	for i := range next.Entries {
		known[next.Entries[i].Name] = true
	}
	topic := OnlyTopic(r.Entries)
	for _, name := range x.Add {
		if !known[name] {
			known[name] = true
			next.Entries = append(next.Entries, Partition{Name: name, Topic: topic})
		}
	}
	was, is := before.Ordered(), x.Ordered()
	for i := range next.Entries {
		e := &next.Entries[i]
		if e.Removed {
			continue
		}
		e.Meta = is.Over(e.Name, e.Topic, was.Without(e.Name, e.Topic, e.Meta))
		if err := pairs(fmt.Sprintf("metadata of %q, from its source, for its topic and for itself", e.Name), e.Meta); err != nil {
			return err
		}
	}
	_, err := Encode(next)
	return err
}
