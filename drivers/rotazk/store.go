package rotazk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/rota-dev/rota"
)

// Store keeps records in a ZooKeeper server or ensemble, at an address like
//
//	zk://host:2181,host:2181/chroot
//	zks://user:password@host/chroot?ca=ca.pem
//
// The Store connects, and creates its nodes, when it is first used. What is wrong with
// the URL or the options is an error of rota.New, and of every call.
func Store(url string, opts ...Option) rota.Store { return &store{newLink(url, opts)} }

type store struct{ *link }

// mostValue is the largest value. A server closes the connection to a client that sends
// more than its jute.maxbuffer, 1 MiB unless configured otherwise, and a client cannot
// tell that from an outage.
const mostValue = packetSize - 8<<10

func (s *store) dir(parent string) string { return path.Join(s.set.chroot, parent) }
func (s *store) node(key string) (dir, n string) {
	p, n := paths(key)
	d := s.dir(p)
	return d, d + "/" + n
}

// rights are the ACL of new nodes. Without an acl in the URL, the user has all rights
// and nobody else any; without a user everybody has all.
func (s *store) rights() (acl []zk.ACL) {
	for _, r := range s.set.rights {
		acl = append(acl, zk.ACL{Perms: r.perms, Scheme: r.scheme, ID: r.id})
	}
	switch {
	case acl != nil:
		return acl
	case s.set.User != "":
		return zk.AuthACL(allPerms)
	}
	return zk.WorldACL(allPerms)
}

// begin checks a key and connects.
func (s *store) begin(ctx context.Context, key string) (*conn, error) {
	if err := s.bad; err != nil {
		return nil, permanent{err}
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return s.connected(ctx)
}

// Open connects.
func (s *store) Open(ctx context.Context) error {
	ctx, cancel := within(ctx)
	defer cancel()
	_, err := s.begin(ctx, "open") // no key is read, and this is a good one
	return err
}

func (s *store) Get(ctx context.Context, key string) (rota.Entry, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	c, err := s.begin(ctx, key)
	if err != nil {
		return rota.Entry{}, err
	}
	_, node := s.node(key)
	if err := s.sync(ctx, c, node); err != nil {
		return rota.Entry{}, err
	}
	got, err := ask(ctx, c, "get", node, func(z *zk.Conn) (got data, err error) {
		got.bytes, got.stat, err = z.Get(node)
		return got, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return rota.Entry{}, rota.ErrNotFound
	}
	if err != nil {
		return rota.Entry{}, err
	}
	e, err := entry(key, got.bytes, got.stat)
	if err != nil {
		return e, fmt.Errorf("rotazk: %s of %v: %w: remove it", node, s.set, err)
	}
	return e, nil
}

// data is what a node holds.
type data struct {
	bytes []byte
	stat  *zk.Stat
}

// sync makes the server we are connected to catch up with the leader. A follower may lag
// behind: without a sync its answers are of the past.
func (s *store) sync(ctx context.Context, c *conn, node string) error {
	_, err := ask(ctx, c, "sync", node, func(z *zk.Conn) (string, error) { return z.Sync(node) })
	return err
}

func (s *store) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	c, err := s.begin(ctx, key)
	if err != nil {
		return 0, err
	}
	if len(value) > mostValue {
		return 0, fmt.Errorf("rotazk: the value of %s has %d bytes: ZooKeeper keeps %d at most", key, len(value), mostValue)
	}
	var rev rota.Rev
	if prev == 0 {
		rev, err = s.create(ctx, c, key, value)
	} else {
		rev, err = s.change(ctx, c, key, value, prev)
	}
	if errors.Is(err, errLost) && len(value) > likelyValue {
		err = fmt.Errorf("%w; a server whose jute.maxbuffer is less than the %d bytes of this value also ends the connection: leave that setting at 1 MiB", err, len(value))
	}
	return rev, err
}

// likelyValue is the size from which a lost connection may be the server's answer to it.
const likelyValue = 16 << 10

// create makes the node and its guard, with version 0.
func (s *store) create(ctx context.Context, c *conn, key string, value []byte) (rota.Rev, error) {
	dir, node := s.node(key)
	l, acl := newLife(), s.rights()
	for range 3 {
		_, err := s.multi(ctx, c, "create", node,
			&zk.CreateRequest{Path: node, Data: encode(l, value), Acl: acl},
			&zk.CreateRequest{Path: l.guard(node), Acl: acl})
		switch {
		case err == nil:
			return revision(l, 0), nil
		case errors.Is(err, zk.ErrNodeExists):
			return 0, rota.ErrConflict
		case !errors.Is(err, zk.ErrNoNode):
			return 0, err
		}
		// Nothing was created: the parent is missing. That is so for the first cell of a
		// group only, so nothing looks for the parent before.
		if err := s.makeDir(ctx, c, dir); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("rotazk: create %s at %v: %s is removed again and again", node, s.set, dir)
}

// makeDir creates a node without data, and those above it that are missing.
func (s *store) makeDir(ctx context.Context, c *conn, dir string) error {
	_, err := ask(ctx, c, "create", dir, func(z *zk.Conn) (string, error) { return z.Create(dir, nil, 0, s.rights()) })
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode) && path.Dir(dir) != "/":
		if err := s.makeDir(ctx, c, path.Dir(dir)); err != nil {
			return err
		}
		return s.makeDir(ctx, c, dir)
	}
	return err
}

// change is one compare-and-set.
func (s *store) change(ctx context.Context, c *conn, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	_, node := s.node(key)
	l, version := split(prev)
	done, err := s.multi(ctx, c, "set", node,
		&zk.CheckVersionRequest{Path: l.guard(node), Version: anyVersion},
		&zk.SetDataRequest{Path: node, Data: encode(l, value), Version: version})
	switch {
	case elsewhere(err):
		return 0, rota.ErrConflict
	case err != nil:
		return 0, err
	case len(done) != 2 || done[1].Stat == nil:
		return 0, fmt.Errorf("rotazk: set %s at %v: the answer has no version", node, s.set)
	}
	return revision(l, done[1].Stat.Version), nil
}

const anyVersion = -1

// elsewhere tells whether the cell is at another revision: the guard of that life or the
// node is gone, or the version is another one.
func elsewhere(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion)
}

func (s *store) Delete(ctx context.Context, key string, prev rota.Rev) error {
	ctx, cancel := within(ctx)
	defer cancel()
	c, err := s.begin(ctx, key)
	if err != nil {
		return err
	}
	if prev == 0 {
		return rota.ErrConflict // no cell is at revision 0
	}
	_, node := s.node(key)
	l, version := split(prev)
	_, err = s.multi(ctx, c, "delete", node,
		&zk.DeleteRequest{Path: l.guard(node), Version: anyVersion},
		&zk.DeleteRequest{Path: node, Version: version})
	if elsewhere(err) {
		return rota.ErrConflict
	}
	return err
}

// Remove deletes the node of a group without records.
func (s *store) Remove(ctx context.Context, group string) error {
	ctx, cancel := within(ctx)
	defer cancel()
	c, err := s.begin(ctx, group)
	if err != nil {
		return err
	}
	dir := s.dir(group)
	_, err = ask(ctx, c, "delete", dir, func(z *zk.Conn) (struct{}, error) { return struct{}{}, z.Delete(dir, anyVersion) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// multi is one transaction: all of it happens, or nothing. It is sent once: if it
// happened and only its answer was lost, a repetition would be answered with a conflict.
func (s *store) multi(ctx context.Context, c *conn, verb, node string, ops ...any) ([]zk.MultiResponse, error) {
	return ask(ctx, c, verb, node, func(z *zk.Conn) ([]zk.MultiResponse, error) { return z.Multi(ops...) })
}

func (s *store) Close() error {
	s.close()
	return nil
}

// Class is A in an ensemble of three voters or more, which the servers tell, and B for
// less and before the first call: a server syncs its log before it acknowledges.
func (s *store) Class() rota.Class {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voters >= 3 {
		return rota.ClassA
	}
	return rota.ClassB
}

// Groups returns the names of the nodes that may be groups: those below the chroot.
func (s *store) Groups(ctx context.Context) ([]string, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	c, err := s.begin(ctx, "groups") // no key is read, and this is a good one
	if err != nil {
		return nil, err
	}
	root := s.dir("")
	if err := s.sync(ctx, c, root); err != nil {
		return nil, err
	}
	names, err := ask(ctx, c, "list", root, func(z *zk.Conn) ([]string, error) {
		names, _, err := z.Children(root)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(n string) bool { return checkKey(n) != nil })
	slices.Sort(names)
	return names, err
}
