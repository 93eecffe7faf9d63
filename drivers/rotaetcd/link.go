package rotaetcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A link is the nodes of one cluster. Calls and watches go to one of them, whose turn it
// is, until another answers while that one does not.
type link struct {
	set *settings
	bad error // the settings are wrong; every call returns it

	mu     sync.Mutex
	nodes  []*node // in an order of this process, so that members spread over the nodes
	turn   *turn
	voters int // nodes that vote; 0 until a server has told
	opened bool
	closed bool
	wg     sync.WaitGroup // of probes
}

// A turn lasts as long as calls go to one node first. Its context ends with it.
type turn struct {
	context.Context
	node *node
	end  context.CancelFunc

	mu    sync.Mutex
	heard time.Time // of the node's last answer
}

func newTurn(n *node) *turn {
	ctx, end := context.WithCancel(context.Background())
	return &turn{Context: ctx, node: n, end: end, heard: time.Now()}
}

// silence returns how long ago the node has answered.
func (t *turn) silence() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.heard)
}

func (t *turn) hear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = time.Now()
}

var errClosed = errors.New("rotaetcd: closed")

func newLink(url string, opts []Option) *link {
	set, err := read(url, opts)
	return &link{set: set, bad: err}
}

// connect returns the nodes, the one whose turn it is first.
func (l *link) connect() ([]*node, *turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.bad != nil:
		return nil, nil, permanent{l.bad}
	case l.closed:
		return nil, nil, errClosed
	}
	if l.turn == nil {
		if err := l.makeNodes(); err != nil {
			return nil, nil, err
		}
		l.turn = newTurn(l.nodes[0])
	}
	list := []*node{l.turn.node}
	for _, n := range l.nodes {
		if n != l.turn.node {
			list = append(list, n)
		}
	}
	return list, l.turn, nil
}

// makeNodes needs l.mu. It dials nothing.
func (l *link) makeNodes() error {
	if err := l.set.Readable(); err != nil {
		return permanent{fmt.Errorf("rotaetcd: %v: %w", l.set, err)}
	}
	l.set.WarnExposed()
	var nodes []*node
	for _, i := range rand.Perm(len(l.set.Servers)) {
		n, err := newNode(l.set.Servers[i], l.set)
		if err != nil {
			return permanent{err}
		}
		nodes = append(nodes, n)
	}
	l.nodes = nodes
	return nil
}

// currentTurn is for a link that has been connected.
func (l *link) currentTurn() *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turn
}

// answered notes that a node has answered. If a call had begun in this turn and another
// node answered it first, calls and watches move there.
func (l *link) answered(n *node, during *turn) {
	n.note(nil)
	if l.move(n, during) {
		during.end() // its watches move
		l.set.Log.Warn("an etcd node does not answer; going on with another", "node", during.node.addr, "other", n.addr)
	}
	if t := l.currentTurn(); t.node == n {
		t.hear()
	}
}

// move makes it the turn of a node, unless calls have moved since or the node has it.
func (l *link) move(to *node, during *turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.turn != during || during.node == to {
		return false
	}
	l.turn = newTurn(to)
	return true
}

// open asks for the nodes of the cluster, once: the answer tells the class, and the node
// that it comes from is one that is there.
func (l *link) open(ctx context.Context) error {
	l.mu.Lock()
	opened := l.opened
	l.mu.Unlock()
	if opened {
		return nil
	}
	list, err := ask(ctx, l, question[*pb.MemberListResponse]{
		ask: func(ctx context.Context, n *node, opt callOption) (*pb.MemberListResponse, error) {
			return n.cluster.MemberList(ctx, &pb.MemberListRequest{Linearizable: true}, opt)
		},
	})
	var r refusal
	switch {
	case errors.As(err, &r) && r.denied: // the nodes are none of this user's business
	case err != nil:
		return err
	}
	voters := 0
	for _, m := range list.GetMembers() {
		if !m.IsLearner {
			voters++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened, l.voters = true, voters
	return nil
}

// probe asks for any key, so that a node that does not answer loses its turn.
func (l *link) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	_, _ = ask(ctx, l, question[*pb.RangeResponse]{
		ask: func(ctx context.Context, n *node, opt callOption) (*pb.RangeResponse, error) {
			return n.kv.Range(ctx, &pb.RangeRequest{Key: []byte(l.set.prefix + "/"), KeysOnly: true}, opt)
		},
	})
}

// close ends everything.
func (l *link) close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	nodes, turn := l.nodes, l.turn
	l.mu.Unlock()
	if turn != nil {
		turn.end()
	}
	for _, n := range nodes {
		n.conn.Close() // ends the calls in flight, too
	}
	l.wg.Wait()
}

// goProbe probes in the background, unless the link is closed.
func (l *link) goProbe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.wg.Go(func() { l.probe(context.Background()) })
	}
}
