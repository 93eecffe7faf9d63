package rotaredis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

var errReplaced = errors.New("another server is the master now")

// A dialError means that a server could not be reached, so that nothing was sent to it.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// slots is the number of slots of a Cluster.
const slots = 16384

// slot returns the slot of a group, which is that of its hash tag.
func (l *link) slot(group string) int {
	if l.set.kind != cluster {
		return 0
	}
	crc := uint16(0)
	for _, b := range []byte(group) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// find returns the master of a slot.
func (l *link) find(ctx context.Context, slot int) (*node, error) {
	switch l.set.kind {
	case sentinel:
		addr, err := l.askSentinels(ctx)
		if err != nil {
			return nil, err
		}
		return l.master(ctx, addr)
	case cluster:
		l.mu.Lock()
		addr := l.where[slot] // a node may just have said so
		l.mu.Unlock()
		if addr != "" {
			if n, err := l.master(ctx, addr); err == nil {
				return n, nil
			}
		}
		addr, err := l.askCluster(ctx, slot)
		if err != nil {
			return nil, err
		}
		return l.master(ctx, addr)
	}
	var errs []error
	for _, addr := range l.ordered() {
		n, err := l.master(ctx, addr)
		if err == nil {
			return n, nil
		}
		l.demote(addr)
		errs = append(errs, err)
	}
	return nil, together(errs)
}

// ordered returns the servers of the URL in the order to ask them.
func (l *link) ordered() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.servers)
}

// demote makes a server the last one to ask: one that is frozen costs a caller more time
// than it may have for the next.
func (l *link) demote(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.servers, addr); i >= 0 {
		l.servers = append(slices.Delete(l.servers, i, i+1), addr)
	}
}

// master connects to a server that must be a master.
func (l *link) master(ctx context.Context, addr string) (*node, error) {
	n, err := l.reach(ctx, addr)
	if err != nil {
		return nil, err
	}
	f := n.now()
	if f.role == "master" {
		return n, nil
	}
	n.end(errDemoted)
	err = fmt.Errorf("%s is a read-only replica of %s: name that one, or use redis+sentinel://", addr, f.master)
	if l.set.kind == single && len(l.set.Servers) == 1 {
		return nil, permanent{err}
	}
	return nil, fmt.Errorf("%s is a replica of %s: the failover is not over", addr, f.master)
}

// reach connects to a server and learns what it is, unless that is known.
func (l *link) reach(ctx context.Context, addr string) (*node, error) {
	l.mu.Lock()
	n := l.nodes[addr]
	l.mu.Unlock()
	if n != nil && n.ended() == nil {
		return n, nil
	}
	if l.set.kind != single || len(l.set.Servers) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tryTime)
		defer cancel()
	}
	n = newNode(l.set, addr)
	err := n.learn(ctx)
	if err == nil {
		if err = l.set.suits(n.now()); err != nil {
			err = permanent{err}
		}
	}
	if err != nil {
		n.end(err)
		return nil, fmt.Errorf("%s: %w", addr, inWords(l.set.hint(err)))
	}
	return l.keepNode(n)
}

// keepNode makes a node known to all calls, unless another call was quicker.
func (l *link) keepNode(n *node) (*node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		n.end(errClosed)
		return nil, errClosed
	default:
	}
	if other := l.nodes[n.addr]; other != nil && other.ended() == nil {
		n.end(errClosed)
		return other, nil
	}
	l.nodes[n.addr] = n
	return n, nil
}

// hint adds what is probably wrong to the error of a connection that the server ended.
func (s *settings) hint(err error) error {
	var alert *net.OpError
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !(errors.As(err, &alert) && alert.Op == "remote error") {
		return err
	}
	hint := "does it want TLS? Then write rediss://"
	if s.Secure {
		hint = "does it want a certificate, or another one? That is cert=FILE&key=FILE"
	}
	return fmt.Errorf("the server closed the connection: %s (%w)", hint, err)
}

// replaced asks others whether a node is still the master. Without an answer it is.
func (l *link) replaced(ctx context.Context, n *node) bool {
	switch l.set.kind {
	case sentinel:
		addr, err := l.askSentinels(ctx)
		return err == nil && addr != n.addr
	case cluster:
		l.mu.Lock()
		var mine []int
		for slot, addr := range l.where {
			if addr == n.addr {
				mine = append(mine, slot)
			}
		}
		l.mu.Unlock()
		other := false
		for _, slot := range mine {
			if addr, err := l.askCluster(ctx, slot); err == nil && addr != n.addr {
				other = true
				l.moved(slot, addr)
			}
		}
		return other
	}
	return len(l.set.Servers) > 1
}

// askEach asks one server after another by a connection of its own, until one answers.
func (l *link) askEach(ctx context.Context, servers []string, question func(ctx context.Context, addr string, c *redis.Client) (string, error)) (string, error) {
	var errs []error
	for _, addr := range servers {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		n := &node{addr: addr, set: l.set, gone: make(chan struct{}), client: redis.NewClient(l.set.options(addr, l.set.kind == sentinel))}
		once, cancel := context.WithTimeout(ctx, tryTime)
		answer, err := n.run(once, func(ctx context.Context) (any, error) { return question(ctx, addr, n.client) })
		cancel()
		n.end(errClosed)
		if err == nil {
			return answer.(string), nil
		}
		l.demote(addr)
		errs = append(errs, fmt.Errorf("%s: %w", addr, inWords(l.set.hint(err))))
	}
	return "", together(errs)
}

// askSentinels returns the address of the master.
func (l *link) askSentinels(ctx context.Context) (string, error) {
	return l.askEach(ctx, l.ordered(), func(ctx context.Context, _ string, c *redis.Client) (string, error) {
		got, err := c.Do(ctx, "SENTINEL", "get-master-addr-by-name", l.set.master).StringSlice()
		switch {
		case errors.Is(err, redis.Nil):
			return "", permanent{fmt.Errorf("it is a Sentinel and knows no master %s: see SENTINEL MASTERS", l.set.master)}
		case err != nil && strings.Contains(err.Error(), "unknown command"):
			return "", permanent{fmt.Errorf("it is no Sentinel: write redis://HOST (%w)", err)}
		case err != nil:
			return "", err
		case len(got) != 2:
			return "", fmt.Errorf("the Sentinel answers %.80q", got)
		}
		return net.JoinHostPort(got[0], got[1]), nil
	})
}

// askCluster returns the address of the master of a slot.
func (l *link) askCluster(ctx context.Context, slot int) (string, error) {
	servers := l.ordered()
	for _, n := range l.alive() { // the URL may name a few nodes only, and those may be gone
		if !slices.Contains(servers, n.addr) {
			servers = append(servers, n.addr)
		}
	}
	return l.askEach(ctx, servers, func(ctx context.Context, addr string, c *redis.Client) (string, error) {
		got, err := c.Do(ctx, "CLUSTER", "SLOTS").Slice()
		if err != nil {
			if strings.Contains(err.Error(), "cluster support disabled") {
				return "", permanent{fmt.Errorf("it is no node of a Cluster: write redis://HOST (%w)", err)}
			}
			return "", err
		}
		host, _, _ := net.SplitHostPort(addr)
		master := slotMaster(got, slot, host)
		if master == "" {
			return "", errors.New("the Cluster has no master for the slot of this group")
		}
		return master, nil
	})
}

// slotMaster finds the master of a slot in an answer to CLUSTER SLOTS, "" if it has none.
// A node that does not know its own address leaves it out: then it is at host.
func slotMaster(ranges []any, slot int, host string) string {
	for _, r := range ranges {
		r, _ := r.([]any)
		if len(r) < 3 {
			continue
		}
		from, ok := r[0].(int64)
		to, ok2 := r[1].(int64)
		n, _ := r[2].([]any)
		if !ok || !ok2 || int64(slot) < from || int64(slot) > to || len(n) < 2 {
			continue
		}
		name, _ := n[0].(string)
		if name == "" || name == "?" {
			name = host
		}
		if port, ok := n[1].(int64); ok && 0 < port && port < 1<<16 {
			return net.JoinHostPort(name, strconv.FormatInt(port, 10))
		}
	}
	return ""
}
