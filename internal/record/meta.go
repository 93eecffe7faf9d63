package record

import (
	"cmp"
	"slices"
)

// Ordered finds by name what operators have ordered as metadata.
type Ordered struct{ partitions, topics map[string][]Pair }

// Ordered returns the metadata of x in a form that finds each name at once. There may be
// no orders at all.
func (x *Orders) Ordered() Ordered {
	if x == nil {
		return Ordered{}
	}
	o := Ordered{make(map[string][]Pair, len(x.Meta)), make(map[string][]Pair, len(x.Topics))}
	for _, m := range x.Meta {
		o.partitions[m.Partition] = m.Pairs
	}
	for _, t := range x.Topics {
		o.topics[t.Name] = t.Pairs
	}
	return o
}

// Over puts what is ordered for a partition and for its topic over base, its source's
// own metadata. The partition's wins over the topic's.
func (o Ordered) Over(partition, topic string, base []Pair) []Pair {
	return MergeMeta(MergeMeta(base, o.topics[topic]), o.partitions[partition])
}

// OverAlone is Over without what is ordered for the topic.
func (o Ordered) OverAlone(partition string, base []Pair) []Pair {
	return MergeMeta(base, o.partitions[partition])
}

// Any tells whether anything is ordered for a partition or its topic.
func (o Ordered) Any(partition, topic string) bool {
	return len(o.partitions[partition]) > 0 || len(o.topics[topic]) > 0
}

// Without returns metadata without the keys that are ordered for a partition or its
// topic.
func (o Ordered) Without(partition, topic string, meta []Pair) []Pair {
	has := func(in []Pair, key string) bool {
		_, found := slices.BinarySearchFunc(in, key, byKey)
		return found
	}
	return slices.DeleteFunc(slices.Clone(meta), func(p Pair) bool {
		return has(o.partitions[partition], p.Key) || has(o.topics[topic], p.Key)
	})
}

func byKey(p Pair, key string) int { return cmp.Compare(p.Key, key) }

// OnlyTopic returns the topic of all partitions that are not removed, if it is the same;
// otherwise none.
func OnlyTopic(all []Partition) string {
	topic, first := "", true
	for i := range all {
		switch p := &all[i]; {
		case p.Removed:
		case first:
			topic, first = p.Topic, false
		case p.Topic != topic:
			return ""
		}
	}
	return topic
}

// MergeMeta puts pairs over base, both sorted by Key: where both have a key, pairs
// win.
func MergeMeta(base, pairs []Pair) []Pair {
	if len(pairs) == 0 {
		return base
	}
	out := slices.Clone(base)
	for _, p := range pairs {
		at, ok := slices.BinarySearchFunc(out, p.Key, byKey)
		if ok {
			out[at] = p
		} else {
			out = slices.Insert(out, at, p)
		}
	}
	return out
}

// MetaFits tells whether a partition can have this metadata.
func MetaFits(pairs []Pair) bool { return (&Partition{Name: "p", Meta: pairs}).check() == nil }
