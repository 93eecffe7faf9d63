package rotaetcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/rota-dev/rota"
)

// Store keeps records in etcd, at an address like
//
//	etcd://host:2379,host:2379,host:2379/prefix
//	etcds://user:password@host/prefix?ca=ca.pem
//
// Name every node: a call that one of them does not answer goes to another. The Store
// connects when it is first used. What is wrong with the URL or the options is an error
// of rota.New, and of every call.
func Store(url string, opts ...Option) rota.Store { return &store{newLink(url, opts)} }

// store is a rota.Store: the keys under one prefix.
type store struct{ *link }

// key returns etcd's key of a key.
func (s *store) key(key string) []byte { return []byte(s.set.prefix + "/" + key) }

// checkKey refuses keys that rota does not use.
func checkKey(key string) error {
	if key == "" || len(key) > 128 || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") || strings.Contains(key, "//") ||
		strings.IndexFunc(key, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '/')
		}) >= 0 {
		return fmt.Errorf("rotaetcd: key %.140q: use A-Z, a-z, 0-9, _, - and single slashes between, at most 128 bytes", key)
	}
	return nil
}

// begin checks the key of a call and opens the link.
func (s *store) begin(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return s.open(ctx)
}

// Open connects and asks for the nodes of the cluster.
func (s *store) Open(ctx context.Context) error { return s.open(ctx) }

// Get is a linearizable read: the node asks the leader for its commit index first.
func (s *store) Get(ctx context.Context, key string) (rota.Entry, error) {
	if err := s.begin(ctx, key); err != nil {
		return rota.Entry{}, err
	}
	r, err := ask(ctx, s.link, question[*pb.RangeResponse]{
		ask: func(ctx context.Context, n *node, opt callOption) (*pb.RangeResponse, error) {
			return n.kv.Range(ctx, &pb.RangeRequest{Key: s.key(key)}, opt)
		},
	})
	if err != nil {
		return rota.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	if len(r.Kvs) == 0 {
		return rota.Entry{}, rota.ErrNotFound
	}
	return rota.Entry{Key: key, Value: r.Kvs[0].Value, Rev: rota.Rev(r.Kvs[0].ModRevision)}, nil
}

func (s *store) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if err := s.begin(ctx, key); err != nil {
		return 0, err
	}
	rev, err := s.write(ctx, key, prev, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: s.key(key), Value: value},
	}})
	if err != nil && err != rota.ErrConflict {
		err = fmt.Errorf("put %s: %w", key, err)
	}
	return rev, err
}

func (s *store) Delete(ctx context.Context, key string, prev rota.Rev) error {
	if err := s.begin(ctx, key); err != nil {
		return err
	}
	if prev == 0 {
		return rota.ErrConflict // no key is at revision 0
	}
	_, err := s.write(ctx, key, prev, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: s.key(key)},
	}})
	if err != nil && err != rota.ErrConflict {
		err = fmt.Errorf("delete %s: %w", key, err)
	}
	return err
}

// write is one compare-and-set. A key that does not exist is at revision 0. The revision
// of the transaction is that of the key, since nothing else is written in it.
func (s *store) write(ctx context.Context, key string, prev rota.Rev, op *pb.RequestOp) (rota.Rev, error) {
	request := &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: s.key(key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: int64(prev)},
		}},
		Success: []*pb.RequestOp{op},
	}
	r, err := ask(ctx, s.link, question[*pb.TxnResponse]{
		ask: func(ctx context.Context, n *node, opt callOption) (*pb.TxnResponse, error) {
			return n.kv.Txn(ctx, request, opt)
		},
		settles: func(r *pb.TxnResponse) bool { return r.Succeeded },
		once:    prev == 0,
	})
	switch {
	case err != nil:
		return 0, err
	case !r.Succeeded:
		return 0, rota.ErrConflict
	}
	return rota.Rev(r.Header.Revision), nil
}

func (s *store) Close() error {
	s.close()
	return nil
}

// Class is A on a cluster of three voting nodes or more. It is B on a smaller one, and
// before the number is known, since it is at least that: every node syncs a write to disk
// before it counts.
func (s *store) Class() rota.Class {
	if s.bad != nil {
		return rota.ClassUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	voters := s.voters
	if voters == 0 {
		voters = s.set.nodes
	}
	if voters >= 3 {
		return rota.ClassA
	}
	return rota.ClassB
}

// String names the cluster without secrets.
func (s *store) String() string { return s.set.String() }

// Format keeps secrets out of every verb.
func (s *store) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// Groups returns the names of the groups that have records here.
func (s *store) Groups(ctx context.Context) ([]string, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	first, after := s.key(""), s.key("")
	after[len(after)-1]++ // the character after the slash
	r, err := ask(ctx, s.link, question[*pb.RangeResponse]{
		ask: func(ctx context.Context, n *node, opt callOption) (*pb.RangeResponse, error) {
			return n.kv.Range(ctx, &pb.RangeRequest{Key: first, RangeEnd: after, KeysOnly: true}, opt)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	groups := map[string]bool{}
	for _, kv := range r.Kvs {
		group, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), string(first)), "/")
		groups[group] = true
	}
	return slices.Sorted(maps.Keys(groups)), nil
}
