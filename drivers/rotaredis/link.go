package rotaredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/address"
)

// A link finds the master of a group when it is first needed, and again whenever it was
// lost. It never repeats a command, unless the server said that it has not carried it
// out.
type link struct {
	set  *settings
	bad  error         // the settings are wrong; every call returns it
	turn chan struct{} // with room for one: who may look for a server
	done chan struct{} // closed at the end of the link

	mu        sync.Mutex
	nodes     map[string]*node // by address
	where     map[int]string   // slot → address; without a Cluster there is one slot
	servers   []string         // those of the URL, the ones that failed last
	first     string           // the group that the store was first used for
	named     chan struct{}    // closed when first is known
	kept      bool             // keep runs
	complaint error            // why the last search failed
	latest    *facts           // of the last server found
	warnings  []string
}

const (
	mostHops   = 8               // of one command, from node to node of a Cluster
	checkEvery = time.Second     // on average: is the master still one?
	factsEvery = 30 * checkEvery // are the settings of the server still good?
)

func newLink(url string, opts []Option) *link {
	set, err := read(url, opts)
	return &link{set: set, bad: err, servers: slices.Clone(set.Servers), turn: make(chan struct{}, 1), done: make(chan struct{}),
		nodes: map[string]*node{}, where: map[int]string{}, named: make(chan struct{})}
}

// within adds callTime as a timeout to a ctx without a deadline.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTime)
}

// do sends a command, or a script, to the master of a group, and returns the node that
// answered.
func (l *link) do(ctx context.Context, group string, sc *script, args ...any) (any, *node, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	asked := "" // the node that the slot is being moved to
	for range mostHops {
		n, err := l.hop(ctx, group, asked)
		if err != nil {
			return nil, nil, err
		}
		asking := asked != ""
		v, err := n.run(ctx, func(ctx context.Context) (any, error) { return n.command(ctx, asking, sc, args) })
		asked = ""
		switch word := code(err); {
		case word == "MOVED" || word == "ASK":
			addr, ok := target(err, n.addr)
			if !ok {
				return nil, n, fmt.Errorf("rotaredis: %v: %w", l.set, err)
			}
			n.redirected() // its watches would miss what happens there
			if asked = addr; word == "MOVED" {
				l.moved(l.slot(group), addr)
				asked = ""
			}
		case err == nil || errors.Is(err, redis.Nil):
			return v, n, err
		default:
			return nil, n, l.failed(n, err)
		}
	}
	return nil, nil, fmt.Errorf("rotaredis: %v: the nodes of the Cluster send us to each other, %d times", l.set, mostHops)
}

// target returns the address in MOVED SLOT ADDRESS and ASK SLOT ADDRESS. A node that does
// not know its own address leaves the host out.
func target(err error, from string) (string, bool) {
	words := strings.Fields(fmt.Sprint(err))
	if len(words) != 3 {
		return "", false
	}
	host, port, ok := cutPort(words[2])
	if host == "" {
		host, _, _ = cutPort(from)
	}
	addr, good := address.HostPort(net.JoinHostPort(strings.Trim(host, "[]"), port), "") // an IPv6 address may lack its brackets
	return addr, ok && good
}

func cutPort(addr string) (host, port string, ok bool) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", "", false
	}
	return addr[:i], addr[i+1:], true
}

// command sends a command once. A script that the server does not know was not run, so it
// is sent again with its text.
func (n *node) command(ctx context.Context, asking bool, sc *script, args []any) (any, error) {
	do := n.client.Do
	if asking { // it counts for the next command of the same connection
		c := n.client.Conn()
		defer c.Close()
		if err := c.Do(ctx, "ASKING").Err(); err != nil {
			return nil, err
		}
		do = c.Do
	}
	if sc == nil {
		return do(ctx, args...).Result()
	}
	v, err := do(ctx, slices.Concat([]any{"EVALSHA", sc.Hash()}, args)...).Result()
	if code(err) != "NOSCRIPT" {
		return v, err
	}
	if asking {
		if err := do(ctx, "ASKING").Err(); err != nil {
			return nil, err
		}
	}
	return do(ctx, slices.Concat([]any{"EVAL", sourceOf[sc]}, args)...).Result()
}

// failed draws conclusions from the error of a command.
func (l *link) failed(n *node, err error) error {
	var dialing dialError
	switch word := code(err); {
	case word == "READONLY":
		n.end(errDemoted)
	case word == "CLUSTERDOWN" || word == "MASTERDOWN":
		n.end(err)
	case errors.As(err, &dialing):
		n.end(err)
	}
	return fmt.Errorf("rotaredis: %v: %w", l.set, inWords(err))
}

// hop returns the node of a group, or the one at an address.
func (l *link) hop(ctx context.Context, group, addr string) (*node, error) {
	if addr == "" {
		return l.node(ctx, group)
	}
	n, err := l.reach(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("rotaredis: %v: %w", l.set, err)
	}
	return n, nil
}

// node returns the node that is the master of a group. It waits until there is one.
func (l *link) node(ctx context.Context, group string) (*node, error) {
	if l.bad != nil {
		return nil, permanent{l.bad}
	}
	l.bind(group)
	slot := l.slot(group)
	n, err := l.current(slot)
	if n != nil || err != nil {
		return n, err
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, l.explain(ctx.Err())
	case <-l.done:
		return nil, errClosed
	}
	n, err = l.current(slot) // somebody else may have found it meanwhile
	if n != nil || err != nil {
		return n, err
	}
	n, err = l.find(ctx, slot)
	if err != nil {
		return nil, l.complain(ctx, err)
	}
	l.register(slot, n)
	return n, nil
}

// bind notes the first group that the store is used for.
func (l *link) bind(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == "" && group != "" {
		l.first = group
		close(l.named)
	}
}

// current returns the node of a slot if it is known and has not ended.
func (l *link) current(slot int) (*node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		return nil, errClosed
	default:
	}
	n := l.nodes[l.where[slot]]
	if n == nil || n.ended() != nil {
		return nil, nil
	}
	return n, nil
}

func (l *link) register(slot int, n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := n.now()
	l.where[slot], l.latest, l.complaint = n.addr, &f, nil
	if !l.kept {
		l.kept = true
		l.set.WarnExposed(l.set.sentinelPasswordFile)
		go l.keep()
	}
}

// moved notes that a slot of the Cluster has another node. Watches of the former one end.
func (l *link) moved(slot int, addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.where[slot] = addr
}

// complain keeps the cause of a search that failed, for calls that have no time for one.
func (l *link) complain(ctx context.Context, err error) error {
	l.mu.Lock()
	if ctx.Err() == nil || l.complaint == nil {
		l.complaint = err
	}
	l.mu.Unlock()
	if ctx.Err() != nil {
		return l.explain(ctx.Err())
	}
	return fmt.Errorf("rotaredis: %v: %w", l.set, err)
}

// explain adds the last error of a search to a timeout, since it is probably the cause.
func (l *link) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complaint != nil {
		return fmt.Errorf("rotaredis: %v: %w (the last error was: %w)", l.set, err, l.complaint)
	}
	return fmt.Errorf("rotaredis: %v: %w", l.set, err)
}

// keep checks once in a while whether the nodes are still what they were.
func (l *link) keep() {
	facts := time.Now()
	for {
		select {
		case <-l.done:
			return
		case <-time.After(jitter(checkEvery)):
		}
		again := time.Since(facts) > factsEvery
		if again {
			facts = time.Now()
		}
		for _, n := range l.alive() {
			l.verify(n)
			if again {
				l.renew(n)
			}
		}
	}
}

func (l *link) alive() (list []*node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for addr, n := range l.nodes {
		if n.ended() != nil {
			delete(l.nodes, addr)
			continue
		}
		list = append(list, n)
	}
	return list
}

// verify ends a node that is no master any more, or was replaced while it does not answer.
func (l *link) verify(n *node) {
	ctx, cancel := context.WithTimeout(context.Background(), tryTime)
	defer cancel()
	v, err := n.run(ctx, func(ctx context.Context) (any, error) { return n.client.Info(ctx, "replication").Result() })
	if err == nil {
		fields := infoFields(v.(string))
		switch {
		case fields["role"] != "master":
			n.end(errDemoted)
		case promotion(fields) != n.now().promoted:
			n.end(errOther)
		}
		if l.set.kind != sentinel || n.ended() != nil {
			return
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if l.replaced(ctx, n) {
		n.end(errReplaced)
	}
}

// renew reads the settings of a server again: they may have become bad ones.
func (l *link) renew(n *node) {
	ctx, cancel := context.WithTimeout(context.Background(), tryTime)
	defer cancel()
	if n.learn(ctx) != nil {
		return
	}
	f := n.now()
	if f.evicts() {
		l.warn(f.evictionText())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = &f
}

// warn adds a warning to those of the next heartbeat, once.
func (l *link) warn(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.warnings, text) {
		l.warnings = append(l.warnings, text)
	}
}

// Warnings implements rota.Warner.
func (l *link) Warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.warnings
	l.warnings = nil
	return all
}

// learnt returns the facts of the last server found.
func (l *link) learnt() (facts, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest == nil {
		return facts{}, false
	}
	return *l.latest, true
}

func (l *link) close() {
	l.mu.Lock()
	select {
	case <-l.done:
		l.mu.Unlock()
		return
	default:
	}
	close(l.done)
	nodes := slices.Collect(maps.Values(l.nodes))
	l.mu.Unlock()
	for _, n := range nodes {
		n.end(errClosed)
	}
}

var _ rota.Warner = (*link)(nil)
