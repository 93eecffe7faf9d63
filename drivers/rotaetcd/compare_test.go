package rotaetcd

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// TestAListTellsWhatHasHappened compares lists with what a watch has seen: key a at
// revision 5 and b at 7, and all until revision 9.
func TestAListTellsWhatHasHappened(t *testing.T) {
	kv := func(key string, rev int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte("rota/" + key), Value: []byte(key), ModRevision: rev}
	}
	for name, c := range map[string]struct {
		now          int64
		all, changed []*mvccpb.KeyValue
		news         string // key:revision, 0 if it is gone
		older        bool
	}{
		"nothing":                      {now: 12, all: []*mvccpb.KeyValue{kv("a", 5), kv("b", 7)}},
		"a change":                     {now: 12, all: []*mvccpb.KeyValue{kv("a", 11), kv("b", 7)}, changed: []*mvccpb.KeyValue{kv("a", 11)}, news: "a:11 "},
		"a new key":                    {now: 12, all: []*mvccpb.KeyValue{kv("a", 5), kv("b", 7), kv("c", 10)}, changed: []*mvccpb.KeyValue{kv("c", 10)}, news: "c:10 "},
		"a deletion":                   {now: 12, all: []*mvccpb.KeyValue{kv("a", 5)}, news: "b:0 "},
		"an older revision":            {now: 8, all: []*mvccpb.KeyValue{kv("a", 5), kv("b", 7)}, older: true},
		"an older version of a key":    {now: 12, all: []*mvccpb.KeyValue{kv("a", 5), kv("b", 6)}, older: true},
		"another history":              {now: 12, all: []*mvccpb.KeyValue{kv("a", 5), kv("b", 8)}, older: true},
		"a key that was deleted":       {now: 12, all: []*mvccpb.KeyValue{kv("a", 5), kv("b", 7), kv("c", 3)}, older: true},
		"older, with newer writes too": {now: 40, all: []*mvccpb.KeyValue{kv("a", 4), kv("b", 30)}, changed: []*mvccpb.KeyValue{kv("b", 30)}, older: true},
	} {
		w := &watch{s: &store{newLink("etcd://h", nil)}, prefix: "", dir: true, seen: map[string]int64{"a": 5, "b": 7}, upTo: 9, at: map[string]int{}, wake: make(chan struct{}, 1)}
		err := w.compare(c.now, c.all, c.changed)
		if errors.Is(err, errOlder) != c.older {
			t.Errorf("%s: %v", name, err)
		}
		news, _ := w.next()
		got := ""
		for _, e := range news {
			got += e.Key + ":" + fmt.Sprint(e.Rev) + " "
		}
		if got != c.news || !c.older && w.upTo != c.now {
			t.Errorf("%s: %q until %d, want %q", name, got, w.upTo, c.news)
		}
	}
}
