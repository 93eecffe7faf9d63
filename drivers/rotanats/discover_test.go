package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// discovering is a source of group g whose partitions are the subjects of the stream.
func (b *broker) discovering(query string) rota.Source {
	s := rotanats.Source(with(b.url, "stream="+b.stream+"&subject="+b.stream+".in.*"+query))
	b.t.Cleanup(func() { s.(interface{ Close() error }).Close() })
	if err := s.(rota.Binder).Bind("g"); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// raw publishes to any subject, without the checks of the client.
func (b *broker) raw(subject string) {
	b.t.Helper()
	r, err := b.js.Conn().RequestMsg(&nats.Msg{Subject: subject, Data: []byte("x")}, 10*time.Second)
	if err != nil || strings.Contains(string(r.Data), `"error"`) {
		b.t.Fatalf("publish to %q: %v, %v", subject, r, err)
	}
}

func partitionNames(list []rota.Partition) (out []string) {
	for _, p := range list {
		out = append(out, p.Name)
	}
	return out
}

// TestBadSubjectsAreLeftOut publishes to subjects that cannot be partitions. The others
// are served, by a new group and by the next leader, and each bad one is reported once.
func TestBadSubjectsAreLeftOut(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	in := b.stream + ".in."
	b.names = []string{in + "a", in + "b"}
	b.flow(1, 1)
	for _, token := range []string{"\x01", strings.Repeat("n", 300), "\xff\xfe", "*", ">"} {
		b.raw(in + token)
	}
	says := []string{"has control characters", fmt.Sprintf("is %d bytes long, more than 256", len(in)+300), "is not UTF-8",
		`.in.*" of stream ` + b.stream + " is a pattern", `.in.>" of stream ` + b.stream + " is a pattern"}
	l, mem := newLedger(t), rotatest.NewMemStore()
	var mu sync.Mutex
	reported := map[string][]string{}
	hear := func(name string) func(*rota.Config) {
		return func(c *rota.Config) {
			c.Trace = func(e rota.Event) {
				if e.Kind == rota.EventCondition {
					mu.Lock()
					reported[name] = append(reported[name], e.Because)
					mu.Unlock()
				}
			}
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := l.memberUntil(ctx, "first", mem.Open(), b.discovering(""), hear("first"))
	l.wait("a new group", 30*time.Second, l.reached(b, 1))
	leave()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	l.member("next", mem.Open(), b.discovering(""), hear("next"))
	b.flow(2, 2)
	l.wait("the next leader", 30*time.Second, l.reached(b, 2))
	b.names = append(b.names, in+"c") // new subjects are still found
	if err := b.Publish(in+"c", fmt.Appendf(nil, "%sc %d", in, 1), fmt.Appendf(nil, "%sc %d", in, 2)); err != nil {
		t.Fatal(err)
	}
	l.wait("a new partition", 60*time.Second, l.reached(b, 2))
	mu.Lock()
	defer mu.Unlock()
	for name, list := range reported {
		for _, s := range says {
			n := len(slices.DeleteFunc(slices.Clone(list), func(text string) bool { return !strings.Contains(text, s) }))
			if n != 1 {
				t.Errorf("%s tells %q %d times: %q", name, s, n, list)
			}
		}
		if len(list) != len(says) {
			t.Errorf("%s tells more: %q", name, list)
		}
	}
	if len(reported) != 2 {
		t.Errorf("told: %q", reported)
	}
}

// TestManyBadSubjects checks that the number of conditions has a limit, and that unusual
// subjects which are none of the bad ones are partitions.
func TestManyBadSubjects(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	in := b.stream + ".in."
	for i := range 20 {
		b.raw(fmt.Sprintf("%s\x01%d", in, i))
	}
	var want []string
	for _, token := range []string{"a*b", "a>", "é", `"q"`, `\`, "$x", "a/b", "%s", "{{x}}", "\u200b", strings.Repeat("l", 256-len(in))} {
		b.raw(in + token)
		want = append(want, in+token)
	}
	slices.Sort(want)
	list, err := b.discovering("").Partitions(t.Context())
	if got := partitionNames(list); !slices.Equal(got, want) {
		t.Errorf("partitions are %q, want %q", got, want)
	}
	if said := fmt.Sprint(err); strings.Count(said, "has control characters") != 9 {
		t.Errorf("says %v", err)
	}
	handled := make(chan string, len(want))
	newLedger(t).member("a", rotatest.NewMemStore(), b.discovering(""), func(c *rota.Config) {
		c.Handle = func(_ context.Context, m rota.Message) error { handled <- m.Partition; return nil }
	})
	var got []string
	for range want {
		select {
		case p := <-handled:
			got = append(got, p)
		case <-time.After(30 * time.Second):
			t.Fatalf("handled messages of %q only", got)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("handled messages of %q, want %q", got, want)
	}
}

// TestAPatternIsNotConsumed has a partition whose name is a pattern: an order can add any.
func TestAPatternIsNotConsumed(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	b.names = b.names[:1]
	l, f := newLedger(t), newFindings()
	l.member("a", rotatest.NewMemStore(), &withPartition{b.Source(), b.stream + ".in.*"}, f.tune)
	b.flow(1, 3)
	l.wait("the others", 30*time.Second, l.reached(b, 3))
	f.wait(t, "source-failed "+b.stream+".in.*", "is a pattern")
}

// withPartition is a source whose list has one more partition.
type withPartition struct {
	rota.Source
	more string
}

func (s *withPartition) Partitions(ctx context.Context) ([]rota.Partition, error) {
	list, err := s.Source.Partitions(ctx)
	return append(list, rota.Partition{Name: s.more}), err
}

func (s *withPartition) Bind(group string) error { return s.Source.(rota.Binder).Bind(group) }

// TestMostSubjects publishes to more subjects than are allowed. As many as are allowed are
// served, and both numbers reported. Once they are consumed, new subjects that come
// before them in the alphabet do not displace them.
func TestMostSubjects(t *testing.T) {
	t.Parallel()
	b := newBroker(t, serve(t).URL())
	in := b.stream + ".in."
	for _, token := range []string{"e", "d", "h", "g", "f", "\x01"} {
		b.raw(in + token)
	}
	list := func(most int) []string {
		t.Helper()
		got, err := b.discovering(fmt.Sprint("&most=", most)).Partitions(t.Context())
		if want := fmt.Sprintf("has 5 subjects like %s*, more than most=%d; only %d are served", in, most, most); most < 5 &&
			(!errors.Is(err, rota.ErrPartial) || !strings.Contains(err.Error(), want)) {
			t.Errorf("most=%d: %v, want %q", most, err, want)
		}
		return partitionNames(got)
	}
	if got := list(5); !slices.Equal(got, []string{in + "d", in + "e", in + "f", in + "g", in + "h"}) {
		t.Errorf("all: %q", got)
	}
	if got := list(2); !slices.Equal(got, []string{in + "d", in + "e"}) {
		t.Errorf("two: %q", got)
	}
	l := newLedger(t)
	started := make(chan string, 100)
	l.member("a", rotatest.NewMemStore(), b.discovering("&most=2"), func(c *rota.Config) {
		c.Handle = func(_ context.Context, m rota.Message) error { started <- m.Partition; return nil }
	})
	for range 2 {
		select {
		case <-started:
		case <-time.After(30 * time.Second):
			t.Fatal("the first two are not consumed")
		}
	}
	for _, token := range []string{"a", "b", "c"} {
		b.raw(in + token)
	}
	got, err := b.discovering("&most=2").Partitions(t.Context())
	if !slices.Equal(partitionNames(got), []string{in + "d", in + "e"}) || !errors.Is(err, rota.ErrPartial) || !strings.Contains(err.Error(), "has 8 subjects") {
		t.Errorf("with more in front of them: %q, %v", got, err)
	}
	got, err = b.discovering("&most=4").Partitions(t.Context())
	if !slices.Equal(partitionNames(got), []string{in + "a", in + "b", in + "d", in + "e"}) || !errors.Is(err, rota.ErrPartial) {
		t.Errorf("with room for two more: %q, %v", got, err)
	}
	for query, says := range map[string]string{"most=0": "from 1 to 32768", "most=40000": "from 1 to 32768"} {
		if err := rotanats.Check("nats://a?stream=S&subject=s.*&" + query); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", query, err)
		}
	}
	_, err = rotanats.Source("nats://a?stream=S&subject=s.*&most=3&partitions=4").Partitions(t.Context())
	if err == nil || !strings.Contains(err.Error(), "most and partitions") {
		t.Errorf("most and partitions: %v", err)
	}
}
