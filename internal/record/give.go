package record

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
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
	"freeze":  {"", 0, 0, func(x *Orders, _ []string) error { x.Freeze = true; return nil }},
	"thaw":    {"", 0, 0, func(x *Orders, _ []string) error { x.Freeze = false; return nil }},
	"set":     {"a partition and KEY=VALUE", 2, many, set},
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
	pairs := slices.Clone(meta[i].Pairs)
	for _, arg := range args[1:] {
		k, v, ok := strings.Cut(arg, "=")
		if !ok || k == "" {
			return fmt.Errorf("%q: want KEY=VALUE", arg)
		}
		pairs = slices.DeleteFunc(pairs, func(p Pair) bool { return p.Key == k })
		if v != "" {
			pairs = append(pairs, Pair{k, v})
		}
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.Key, b.Key) })
	meta[i].Pairs = pairs
	if len(pairs) == 0 {
		meta = slices.Delete(meta, i, i+1)
	}
	x.Meta = meta
	return nil
}

// Fit tells whether the partitions of r, with the partitions and metadata that x
// orders, still make a roster that can be written.
func (x *Orders) Fit(r *Roster) error {
	next := &Roster{Ver: r.Ver, Entries: slices.Clone(r.Entries)}
	at := make(map[string]int, len(next.Entries))
	for i := range next.Entries {
		at[next.Entries[i].Name] = i
	}
	for _, name := range x.Add {
		if _, known := at[name]; !known {
			at[name] = len(next.Entries)
			next.Entries = append(next.Entries, Partition{Name: name})
		}
	}
	for _, m := range x.Meta {
		if i, known := at[m.Partition]; known {
			next.Entries[i].Meta = MergeMeta(next.Entries[i].Meta, m.Pairs)
		}
	}
	_, err := Encode(next)
	return err
}
