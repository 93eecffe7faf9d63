package rotaredis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rota-dev/rota"
)

type script = redis.Script

// Store keeps records in Redis, at an address like
//
//	redis://host:6379                         a server, or several of which one is the master
//	rediss://user:password@host?ca=ca.pem     with TLS
//	redis+sentinel://s1,s2,s3/NAME            the master that Sentinels know as NAME
//	redis+cluster://n1,n2,n3                  a Cluster
//
// It connects when it is first used. What is wrong with the URL or the options is an
// error of rota.New, and of every call. A Store that names a node of a Cluster, as
// Identity does, means the node of the group that it was first used for: open one for
// each group.
func Store(url string, opts ...Option) rota.Store { return &store{newLink(url, opts)} }

// store is a rota.Store on one link.
type store struct{ *link }

func (s *store) Get(ctx context.Context, key string) (rota.Entry, error) {
	if err := checkKey(key); err != nil {
		return rota.Entry{}, err
	}
	group, field := split(key)
	v, _, err := s.do(ctx, group, nil, "HGET", s.set.hash(group), field)
	if errors.Is(err, redis.Nil) {
		return rota.Entry{}, rota.ErrNotFound
	}
	if err != nil {
		return rota.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	text, _ := v.(string)
	rev, value, err := openCell(text)
	if err != nil {
		return rota.Entry{}, fmt.Errorf("rotaredis: record %s: %w", key, err)
	}
	return rota.Entry{Key: key, Value: value, Rev: rev}, nil
}

func (s *store) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if len(value) > maxValue {
		return 0, fmt.Errorf("rotaredis: the value of %s has %d bytes, more than %d", key, len(value), maxValue)
	}
	nonce := newNonce()
	n, err := s.change(ctx, "put", key, prev, nonce, string(value)) // a copy: the call may go on after ctx has ended
	if err != nil {
		return 0, err
	}
	return revision(n, nonce)
}

func (s *store) Delete(ctx context.Context, key string, prev rota.Rev) error {
	if prev == 0 {
		if err := checkKey(key); err != nil {
			return err
		}
		return errors.Join(ctx.Err(), rota.ErrConflict) // no key is at revision 0
	}
	_, err := s.change(ctx, "del", key, prev, 0, "")
	return err
}

// change is one compare-and-set. It returns the count of the group's changes.
func (s *store) change(ctx context.Context, verb, key string, prev rota.Rev, nonce uint64, value string) (uint64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	group, field := split(key)
	publish := "PUBLISH"
	if s.set.kind == cluster {
		publish = "SPUBLISH"
	}
	args := []any{1, s.set.hash(group), verb, field, revText(prev), rand.Text(), nonce, value, publish}
	for _, channel := range s.set.channels(group, field) {
		args = append(args, channel)
	}
	v, _, err := s.do(ctx, group, change, args...)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", strings.NewReplacer("put", "write", "del", "delete").Replace(verb), key, err)
	}
	n, ok := v.(int64)
	if !ok || n < 0 {
		return 0, fmt.Errorf("rotaredis: write %s: the answer is %.40v", key, v)
	}
	if n == 0 {
		return 0, rota.ErrConflict
	}
	return uint64(n), nil
}

// Remove removes what is there of a group without records: the count of its changes. If
// somebody uses the group again, its revisions begin anew, with other random bits.
func (s *store) Remove(ctx context.Context, group string) error {
	if err := checkKey(group); err != nil {
		return err
	}
	v, _, err := s.do(ctx, group, remove, 1, s.set.hash(group))
	if err != nil {
		return fmt.Errorf("remove %s: %w", group, err)
	}
	if v != int64(0) {
		return fmt.Errorf("rotaredis: remove %s: it has %v records", group, v)
	}
	return nil
}

func (s *store) Close() error {
	s.close()
	return nil
}

// Check implements rota.Checker: it returns what is wrong with the URL or the options.
func (s *store) Check() error { return s.bad }

// Class is C until a single server has said that it syncs every write and has no replica
// that could be promoted.
func (s *store) Class() rota.Class {
	f, known := s.learnt()
	if !known || s.set.kind != single || len(s.set.Servers) > 1 {
		return rota.ClassC
	}
	return f.class(s.set.synced)
}

// Open connects and asks the server what it is. Which node of a Cluster that would be depends
// on the group, so there it does nothing.
func (s *store) Open(ctx context.Context) error {
	if s.set.kind == cluster {
		return s.bad
	}
	_, err := s.Identity(ctx)
	return err
}

// Identity names one life of the master: its start, or its promotion.
func (s *store) Identity(ctx context.Context) (string, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	group := ""
	if s.set.kind == cluster { // which node it is depends on the group
		select {
		case <-s.named:
			group = s.first
		case <-ctx.Done():
			return "", fmt.Errorf("rotaredis: identity: no group was used yet: %w", ctx.Err())
		}
	}
	v, _, err := s.do(ctx, group, nil, "INFO")
	if err != nil {
		return "", fmt.Errorf("identity: %w", err)
	}
	text, _ := v.(string)
	f, err := readInfo(text)
	if err != nil {
		return "", fmt.Errorf("rotaredis: identity: %w", err)
	}
	return f.identity(), nil
}

// String names the server without secrets.
func (s *store) String() string { return fmt.Sprintf("%v prefix %s", s.set, s.set.prefix) }

// Format keeps secrets out of every verb.
func (s *store) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// Groups returns the names of the groups that have, or had, records here. The nodes of a
// Cluster are not asked: it returns an error that wraps errors.ErrUnsupported.
func (s *store) Groups(ctx context.Context) ([]string, error) {
	if s.set.kind == cluster {
		return nil, fmt.Errorf("rotaredis: the groups of a Cluster are not listed, since each is on a node of its own: %w", errors.ErrUnsupported)
	}
	before, after, _ := strings.Cut(s.set.hash("*"), "*")
	groups := map[string]bool{}
	for cursor := "0"; ; {
		v, _, err := s.do(ctx, "", nil, "SCAN", cursor, "MATCH", s.set.hash("*"), "COUNT", 1000)
		if err != nil {
			return nil, fmt.Errorf("list groups: %w", err)
		}
		page, _ := v.([]any)
		if len(page) != 2 {
			return nil, fmt.Errorf("rotaredis: list groups: the answer is %.40v", v)
		}
		keys, _ := page[1].([]any)
		for _, key := range keys {
			text, _ := key.(string)
			groups[strings.TrimSuffix(strings.TrimPrefix(text, before), after)] = true
		}
		if cursor, _ = page[0].(string); cursor == "0" || cursor == "" {
			return slices.Sorted(maps.Keys(groups)), nil
		}
	}
}
