package rotaetcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
)

// putTime is the timeout of a write here. A heartbeat has 1.25 s by default; a busy machine
// needs more for what is certain to come.
const putTime = 5 * time.Second

// pair is a store on two fakes. first is the one that it asks first.
type pair struct {
	rota.Store
	first, second *fake
}

func newPair(t *testing.T) *pair {
	t.Helper()
	a, b := newFake(t), newFake(t)
	p := &pair{rotaetcd.Store(urlOf(a, b)), a, b}
	t.Cleanup(func() { p.Close() })
	if _, err := p.Get(t.Context(), "k"); !errors.Is(err, rota.ErrNotFound) {
		t.Fatal(err)
	}
	if rotaetcd.NodeOf(p.Store) == b.addr {
		p.first, p.second = b, a
	}
	return p
}

// put writes over a revision, or creates with revision 0, within putTime.
func (p *pair) put(prev rota.Rev) error {
	ctx, cancel := context.WithTimeout(context.Background(), putTime)
	defer cancel()
	_, err := p.Put(ctx, "k", nil, prev)
	return err
}

// after returns an answer that comes after a while.
func after(d time.Duration, r *pb.TxnResponse, err error) func(context.Context) (*pb.TxnResponse, error) {
	return func(ctx context.Context) (*pb.TxnResponse, error) {
		select {
		case <-time.After(d):
			return r, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TestAWriteThatOneNodeDoesNotAnswer lets two nodes answer one write. Only what is
// certain is reported as a success or as a conflict.
func TestAWriteThatOneNodeDoesNotAnswer(t *testing.T) {
	t.Parallel()
	lost := status.Error(codes.Unavailable, "the connection was lost")
	const late = 2 * time.Second // after the second node was asked
	type answer = func(context.Context) (*pb.TxnResponse, error)
	for name, c := range map[string]struct {
		first, second answer
		want          string // "" is a success, "conflict", "unknown"
	}{
		"the other writes": {hang, after(0, wrote(8), nil), ""},
		"the other has a conflict, perhaps with this one": {hang, after(0, conflict(), nil), "unknown"},
		"the other has a conflict with this one":          {after(late, wrote(8), nil), after(0, conflict(), nil), ""},
		"both have a conflict":                            {after(late, conflict(), nil), after(0, conflict(), nil), "conflict"},
		"the answer was lost, and the other writes":       {after(0, nil, lost), after(0, wrote(8), nil), ""},
		"the answer was lost, and the other has conflict": {after(0, nil, lost), after(0, conflict(), nil), "unknown"},
		"both answers were lost":                          {after(0, nil, lost), after(0, nil, lost), "unknown"},
		"neither answers":                                 {hang, hang, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.first.answer(c.first)
			p.second.answer(c.second)
			err := p.put(7)
			got := "unknown"
			switch {
			case err == nil:
				got = ""
			case errors.Is(err, rota.ErrConflict):
				got = "conflict"
			}
			if got != c.want {
				t.Errorf("it is %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// TestLaterCallsGoToTheNodeThatAnswers checks that a silent node costs one call its time
// and no other.
func TestLaterCallsGoToTheNodeThatAnswers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.first.answer(hang)
	for range 5 {
		if err := p.put(7); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := p.first.writes(), p.second.writes(); a != 1 || b != 5 {
		t.Errorf("the silent node got %d writes, the other %d; want 1 and 5", a, b)
	}
}

// TestACreationIsAskedOnce checks that no second node gets a creation: if the first did it
// late, after the key was deleted, the key would be there again. The next call goes to the
// other node all the same.
func TestACreationIsAskedOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.first.freeze()
	if err := p.put(0); err == nil || errors.Is(err, rota.ErrConflict) {
		t.Errorf("a creation without an answer: %v, want an unknown outcome", err)
	}
	if n := p.second.writes(); n != 0 {
		t.Errorf("the second node got %d writes", n)
	}
	eventually(t, "calls go to the other node", func() bool { return rotaetcd.NodeOf(p.Store) == p.second.addr })
	if err := p.put(0); err != nil {
		t.Errorf("the next creation: %v", err)
	}
}

// TestACreationThatWasNotSentIsAskedElsewhere closes the node whose turn it is.
func TestACreationThatWasNotSentIsAskedElsewhere(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.first.server.Stop()
	eventually(t, "a creation succeeds", func() bool { return p.put(0) == nil })
	if n := p.first.writes(); n != 0 {
		t.Errorf("the closed node got %d writes", n)
	}
}

// TestARefusalIsNotRepeated checks that a node's refusal is the answer of the cluster.
func TestARefusalIsNotRepeated(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.first.answer(after(0, nil, status.Error(codes.ResourceExhausted, "etcdserver: mvcc: database space exceeded")))
	err := p.put(7)
	if err == nil || !strings.Contains(err.Error(), "etcd has used up its space") || errors.Is(err, rota.ErrPermanent) {
		t.Errorf("got %v", err)
	}
	if n := p.second.writes(); n != 0 {
		t.Errorf("the second node got %d writes", n)
	}
}

// TestCompactionIsAGap lets a node say that the history of a watch was compacted.
func TestCompactionIsAGap(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.watch = func(s pb.Watch_WatchServer) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		return s.Send(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 99}, Canceled: true, CompactRevision: 50})
	}
	s := rotaetcd.Store(urlOf(f))
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var last error
	for _, err := range s.Watch(ctx, "dir/") {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "the watch may have missed changes: the history of the keys was compacted before it was read (until revision 50") {
		t.Errorf("the watch ended with %v", last)
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}
