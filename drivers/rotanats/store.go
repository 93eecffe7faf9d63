package rotanats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
)

// Store keeps records in a bucket of a NATS server or cluster, at an address like
//
//	nats://host:4222,host:4222?bucket=rota&replicas=3&sync=always
//	tls://user:password@host?ca=ca.pem
//	folder:DIR   the server of the process that serves this folder
//
// embed:DIR needs a server in this process: package embedded opens it.
// The Store connects, and creates its bucket, when it is first used. What is wrong with
// the URL or the options is an error of rota.New, and of every call.
func Store(url string, opts ...Option) rota.Store {
	l := newLink(url, opts)
	if l.bad == nil {
		l.bad = useless(l.set, ofSources, "it is for a source")
	}
	switch {
	case l.bad != nil || l.set.Folder == "":
	case l.set.ClientOnly:
		l.set.Synced = true
	case l.set.Host == nil:
		l.bad = errors.New("rotanats: no server is linked into this program: open embed:DIR with the package drivers/rotanats/embedded, or write folder:DIR to connect to the process that serves the folder")
	default:
		return newHosting(l)
	}
	return newStore(l, l.set.Bucket)
}

// Check returns an error if a URL or an option is wrong. It does not connect.
func Check(url string, opts ...Option) error {
	_, err := read(url, opts)
	return err
}

// store is a rota.Store: one bucket, on one link.
type store struct {
	*link
	name    string // of the bucket
	memory  bool   // create the bucket in the server's memory
	mu      sync.Mutex
	bucket  *bucket       // nil until it was read
	opening chan struct{} // closed when the call that reads it has ended; nil if none does
	met     met
	since   time.Time // when the bucket was created that was read last
	seal    []byte    // the key of the bucket's seals; nil if there is none
	newest  newest
}

func newStore(l *link, bucket string) *store { return &store{link: l, name: bucket} }

// Headers of a write.
const (
	headerExpected  = "Nats-Expected-Last-Subject-Sequence"
	headerSequence  = "Nats-Sequence"
	headerWrite     = "Rota-Write" // an ID, by which a writer recognizes its write
	headerOperation = "KV-Operation"
	headerTTL       = "Nats-TTL"
)

// markTime is the expiry of the mark that a deletion leaves. No rule depends on it: a key
// is absent with or without its mark. Without an expiry, every session that ever was
// would leave a mark for good.
const markTime = time.Hour

func (s *store) stream() string { return "KV_" + s.name }

// subject returns the subject of a key. Slashes become dots, so that a prefix can be
// subscribed to; keys have no dots.
func (s *store) subject(key string) string {
	return "$KV." + s.name + "." + strings.ReplaceAll(key, "/", ".")
}

// echo returns the subject where the server repeats the writes of a key that it has
// accepted. The subject of the key carries refused writes, too.
func (s *store) echo(key string) string {
	return "_rota." + s.name + "." + strings.ReplaceAll(key, "/", ".")
}

// key is the inverse of subject.
func (s *store) key(subject string) string {
	return strings.ReplaceAll(strings.TrimPrefix(subject, "$KV."+s.name+"."), ".", "/")
}

// checkKey refuses keys that would become the subject of another key, a wildcard, or no
// subject at all.
func checkKey(key string) error {
	if key == "" || len(key) > 128 || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") || strings.Contains(key, "//") ||
		strings.IndexFunc(key, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '/')
		}) >= 0 {
		return fmt.Errorf("rotanats: key %.140q: use A-Z, a-z, 0-9, _, - and single slashes between, at most 128 bytes", key)
	}
	return nil
}

func (s *store) Get(ctx context.Context, key string) (rota.Entry, error) {
	if err := checkKey(key); err != nil {
		return rota.Entry{}, err
	}
	if _, err := s.open(ctx); err != nil {
		return rota.Entry{}, err
	}
	v, err := s.read(ctx, key)
	if err == nil && v.Deleted {
		err = rota.ErrNotFound
	}
	if err != nil {
		return rota.Entry{}, err
	}
	return v.Entry, nil
}

// A version is a version of a record as the bucket has it.
type version struct {
	rota.Entry
	write string // the ID of the write; "" of earlier versions and other writers
	over  string // the revision that it has replaced, as its header says
}

// get asks the stream's leader, which has applied every write it has acknowledged; a
// direct get would ask any replica. Of a deleted key it returns the mark, at the mark's
// revision.
func (s *store) get(ctx context.Context, key string) (version, error) {
	var got struct {
		answer
		Message struct {
			Seq  uint64 `json:"seq"`
			Hdrs []byte `json:"hdrs"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	err := s.ask(ctx, "STREAM.MSG.GET."+s.stream(), map[string]string{"last_by_subj": s.subject(key)}, &got)
	switch code(err) {
	case 0:
	case codeNoMessage:
		return version{}, rota.ErrNotFound
	case codeNoStream:
		s.forget()
	}
	if err != nil {
		return version{}, fmt.Errorf("get %s: %w", key, err)
	}
	v := version{Entry: rota.Entry{Key: key, Value: got.Message.Data, Rev: rota.Rev(got.Message.Seq)}}
	if len(got.Message.Hdrs) > 0 {
		h, err := nats.DecodeHeadersMsg(got.Message.Hdrs)
		if err != nil {
			return version{}, fmt.Errorf("get %s: its headers: %w", key, err)
		}
		v.Deleted, v.write, v.over = h.Get(headerOperation) != "", h.Get(headerWrite), h.Get(headerExpected)
	}
	return v, nil
}

func (s *store) Close() error {
	s.close()
	return nil
}

// Class is C unless sync=always vouches for the server. With it, it is B until the
// number of replicas is known, since it is at least that.
func (s *store) Class() rota.Class {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.bad != nil || !s.set.Synced || s.bucket != nil && s.bucket.memory:
		return rota.ClassC
	case s.bucket != nil && s.bucket.replicas >= 3:
		return rota.ClassA
	}
	return rota.ClassB
}

// Identity names the stream and the term of its leader. If the stream is not replicated,
// it names the start of its server instead: a restore needs a restart.
func (s *store) Identity(ctx context.Context) (string, error) {
	if _, err := s.open(ctx); err != nil {
		return "", err
	}
	nc, on, err := s.conn(ctx)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	first := s.met
	s.met = met{}
	s.mu.Unlock()
	if first.on == on && time.Since(first.at) < time.Second {
		return first.id, nil
	}
	var info streamInfo
	if err := s.ask(ctx, "STREAM.INFO."+s.stream(), nil, &info); err != nil {
		return "", fmt.Errorf("identity: %w", err)
	}
	s.observe(&info)
	return identity(&info, nc), nil
}

// met is the identity that was read together with the bucket, for one who asks at once, in
// the same epoch of the connection: a member that joins does.
type met struct {
	on *epoch
	at time.Time
	id string
}

func identity(info *streamInfo, nc *nats.Conn) string {
	id := info.Created.UTC().Format(time.RFC3339Nano)
	c := info.Cluster
	switch {
	case c == nil:
	case c.LeaderSince != nil:
		return fmt.Sprintf("%s %s since %s", id, c.Leader, c.LeaderSince.UTC().Format(time.RFC3339Nano))
	case c.Name != "":
		return id + " " + c.Leader // on one server of a cluster, perhaps not the one we are connected to
	}
	return id + " " + nc.ConnectedServerId()
}

// String names the server without secrets.
func (s *store) String() string { return fmt.Sprintf("%v bucket %s", s.set, s.name) }

// Format keeps secrets out of every verb.
func (s *store) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// Groups returns the names of the groups that have records here. A group that was removed
// may be among them for an hour.
func (s *store) Groups(ctx context.Context) ([]string, error) {
	if _, err := s.open(ctx); err != nil {
		return nil, err
	}
	keys, _, err := s.list(ctx, "")
	if err != nil {
		return nil, err
	}
	groups := map[string]bool{}
	for _, key := range keys {
		group, _, _ := strings.Cut(key, "/")
		groups[group] = true
	}
	return slices.Sorted(maps.Keys(groups)), nil
}
