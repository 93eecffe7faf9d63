package rotanats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
)

// Store keeps records in a bucket of a NATS server or cluster, at an address like
//
//	nats://host:4222,host:4222?bucket=rota&replicas=3&sync=always
//	tls://user:password@host?ca=ca.pem
//	folder:DIR   of the process that serves this folder, as long as one does
//
// embed:DIR needs a server in this process: package embedded opens it.
// The bucket is made when it is first used. It connects then, too: an address
// that is wrong is an error of the first call.
func Store(url string, opts ...Option) rota.Store {
	l := newLink(url, opts)
	switch {
	case l.bad != nil || l.set.Folder == "":
	case l.set.Guest:
		l.set.Synced = true
	case l.set.Host == nil:
		l.bad = errors.New("rotanats: no server is linked into this program: open embed:DIR by the package drivers/rotanats/embedded, or write folder:DIR to connect to the process that serves the folder")
	default:
		return newHosting(l)
	}
	return newStore(l, l.set.Bucket)
}

// Check tells what is wrong with a URL, without connecting to it.
func Check(url string, opts ...Option) error {
	_, err := read(url, opts)
	return err
}

// store is a rota.Store on one link.
type store struct {
	*link
	name   string // of the bucket
	memory bool   // to be made in the server's memory
	mu     sync.Mutex
	bucket *bucket // as the server has it; nil until it was looked at
	seal   []byte  // the key of its seals; nil if there is none
}

func newStore(l *link, bucket string) *store { return &store{link: l, name: bucket} }

// A bucket is what the server says of ours.
type bucket struct {
	replicas int
	memory   bool
	marks    bool // deletion marks may have an end
	made     time.Time
}

// What the server answers.
const (
	codeNoMessage     = 10037
	codeNoStream      = 10059
	codeStreamExists  = 10058
	codeWrongSequence = 10071
	codeWrongInFlight = 10164 // another write of the key is on its way through the replicas
)

// Headers of a write.
const (
	headerExpected  = "Nats-Expected-Last-Subject-Sequence"
	headerSequence  = "Nats-Sequence"
	headerOperation = "KV-Operation"
	headerTTL       = "Nats-TTL"
)

// maxValue is the size of the largest write that a bucket takes, headers included.
// A record has at most 768 KiB.
const maxValue = 1 << 20

// markTime is how long the mark of a deletion stays. Nothing depends on it: a
// key without a mark is as absent as one with it. Without an end each session
// there ever was would leave one.
const markTime = time.Hour

func (s *store) stream() string { return "KV_" + s.name }

// subject is where a key is written. Slashes become dots, so that a prefix can
// be subscribed to; keys have no dots.
func (s *store) subject(key string) string {
	return "$KV." + s.name + "." + strings.ReplaceAll(key, "/", ".")
}

// echo is where the server repeats what it has accepted. The subject itself
// carries also what will be refused.
func (s *store) echo(key string) string {
	return "_rota." + s.name + "." + strings.ReplaceAll(key, "/", ".")
}

func (s *store) key(subject string) string {
	return strings.ReplaceAll(strings.TrimPrefix(subject, "$KV."+s.name+"."), ".", "/")
}

// checkKey refuses what would be another subject than meant.
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
	e, err := s.get(ctx, key)
	if err == nil && e.Deleted {
		err = rota.ErrNotFound
	}
	if err != nil {
		return rota.Entry{}, err
	}
	return e, nil
}

// get asks the stream's leader, which has applied all it has acknowledged; a
// direct get would ask any replica. It shows the mark of a deletion too, at the
// mark's revision.
func (s *store) get(ctx context.Context, key string) (rota.Entry, error) {
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
		return rota.Entry{}, rota.ErrNotFound
	case codeNoStream:
		s.forget()
	}
	if err != nil {
		return rota.Entry{}, fmt.Errorf("get %s: %w", key, err)
	}
	e := rota.Entry{Key: key, Value: got.Message.Data, Rev: rota.Rev(got.Message.Seq)}
	if len(got.Message.Hdrs) > 0 {
		h, err := nats.DecodeHeadersMsg(got.Message.Hdrs)
		if err != nil {
			return rota.Entry{}, fmt.Errorf("get %s: its headers: %w", key, err)
		}
		e.Deleted = h.Get(headerOperation) != ""
	}
	return e, nil
}

func (s *store) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if _, err := s.open(ctx); err != nil {
		return 0, err
	}
	rev, err := s.write(ctx, key, value, prev, nil)
	// A key that was deleted is at the revision of its mark, and at none once the
	// mark has run out: so this may come out either way, but not for ever.
	for range 3 {
		if prev != 0 || !errors.Is(err, rota.ErrConflict) {
			break
		}
		mark, lerr := s.get(ctx, key)
		switch {
		case errors.Is(lerr, rota.ErrNotFound):
			mark = rota.Entry{Deleted: true}
		case lerr != nil:
			return 0, lerr
		}
		if !mark.Deleted {
			break
		}
		rev, err = s.write(ctx, key, value, mark.Rev, nil)
	}
	return rev, err
}

func (s *store) Delete(ctx context.Context, key string, prev rota.Rev) error {
	if err := checkKey(key); err != nil {
		return err
	}
	b, err := s.open(ctx)
	if err != nil {
		return err
	}
	if prev == 0 {
		return rota.ErrConflict // it has none, or another
	}
	h := nats.Header{headerOperation: {"DEL"}}
	if b.marks {
		h.Set(headerTTL, markTime.String())
	}
	_, err = s.write(ctx, key, nil, prev, h)
	return err
}

// write is one compare-and-set. A replicated stream also refuses a write for
// being too quick: the one before it is applied and acknowledged, but its leader
// has not taken it off the list of those under way. Nothing was begun then, so
// asking again cannot write twice; whether it was a conflict, a read tells.
func (s *store) write(ctx context.Context, key string, value []byte, prev rota.Rev, h nats.Header) (rota.Rev, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		rev, err := s.writeOnce(ctx, key, value, prev, h)
		if !errors.Is(err, errInFlight) {
			return rev, err
		}
		now, err := s.get(ctx, key)
		if err != nil && !errors.Is(err, rota.ErrNotFound) {
			return 0, err
		}
		if now.Rev != prev {
			return 0, rota.ErrConflict
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, s.explain(ctx.Err())
		}
	}
}

// errInFlight: refused for being too quick.
var errInFlight = errors.New("rotanats: another write of the key is under way")

// writeOnce asks once. Only the two refusals are known to have changed nothing.
func (s *store) writeOnce(ctx context.Context, key string, value []byte, prev rota.Rev, h nats.Header) (rota.Rev, error) {
	msg := nats.NewMsg(s.subject(key))
	msg.Data = value
	if h != nil {
		msg.Header = h
	}
	msg.Header.Set(headerExpected, strconv.FormatUint(uint64(prev), 10))
	if key := s.sealing(); key != nil {
		msg.Header.Set(headerSeal, seal(key, msg.Subject, msg.Header.Get(headerOperation), value))
	}
	r, err := s.request(ctx, msg)
	if errors.Is(err, nats.ErrNoResponders) {
		s.forget() // no stream, or no leader of it
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	var ack struct {
		answer
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
	}
	if err := json.Unmarshal(r.Data, &ack); err != nil {
		return 0, fmt.Errorf("write %s: the answer: %w", key, err)
	}
	switch code(ack.err()) {
	case codeWrongSequence:
		return 0, rota.ErrConflict
	case codeWrongInFlight:
		return 0, errInFlight
	}
	if err := ack.err(); err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	if ack.Stream != s.stream() || ack.Seq == 0 {
		return 0, fmt.Errorf("write %s: stream %q acknowledged it at %d, want %s", key, ack.Stream, ack.Seq, s.stream())
	}
	return rota.Rev(ack.Seq), nil
}

// answer is what begins every answer of JetStream.
type answer struct {
	Error *jetstream.APIError `json:"error"`
}

// clear: an answer without an error says nothing of errors.
func (a *answer) clear() { a.Error = nil }

func (a *answer) err() error {
	if a.Error == nil {
		return nil
	}
	return a.Error
}

// code is JetStream's own number of an error, 0 if it is not one of its errors.
func code(err error) int {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return int(api.ErrorCode)
	}
	return 0
}

// A reply is something with an answer in it.
type reply interface {
	clear()
	err() error
}

// ask puts a question to JetStream, and again if there is no answer: a server
// that is about to lead a stream, or no longer does, keeps silent. All questions
// are such that asking twice does no harm; records are not written this way.
func (l *link) ask(ctx context.Context, verb string, question any, to reply) error {
	return l.askIf(ctx, func() error { return nil }, verb, question, to)
}

// askIf is ask for what only an owner may do. It calls may directly before each
// try: the process may have been frozen since the last.
func (l *link) askIf(ctx context.Context, may func() error, verb string, question any, to reply) error {
	msg := nats.NewMsg(l.api(verb))
	if question != nil {
		var err error
		if msg.Data, err = json.Marshal(question); err != nil {
			return err
		}
	}
	ctx, cancel := within(ctx)
	defer cancel()
	for wait := askTime; ; wait *= 2 {
		if err := may(); err != nil {
			return err
		}
		once, cancel := context.WithTimeout(ctx, wait)
		r, err := l.request(once, msg)
		silence := once.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			to.clear()
			if err := json.Unmarshal(r.Data, to); err != nil {
				return fmt.Errorf("the answer to %s: %w", verb, err)
			}
			return to.err()
		case !silence:
			return err
		}
	}
}

// api is the subject of a question to JetStream.
func (l *link) api(verb string) string { return cmp.Or(l.set.API, "$JS.API") + "." + verb }

// askTime is how long the first answer may take before a question is asked again.
const askTime = 400 * time.Millisecond

// streamInfo is what a stream's leader tells of it.
type streamInfo struct {
	answer
	Config  jetstream.StreamConfig `json:"config"`
	Created time.Time              `json:"created"`
	State   struct {
		Subjects map[string]uint64 `json:"subjects"`
		Last     uint64            `json:"last_seq"`
	} `json:"state"`
	Cluster *struct {
		Name        string     `json:"name"`
		RaftGroup   string     `json:"raft_group"`
		Leader      string     `json:"leader"`
		LeaderSince *time.Time `json:"leader_since"`
	} `json:"cluster"`
	Total  int `json:"total"`
	Offset int `json:"offset"`
	Limit  int `json:"limit"`
}

// open looks at the bucket, and makes it if there is none, unless it is to be used
// as it is.
func (s *store) open(ctx context.Context) (*bucket, error) {
	s.mu.Lock()
	b := s.bucket
	s.mu.Unlock()
	if b != nil {
		return b, ctx.Err()
	}
	ctx, cancel := within(ctx)
	defer cancel()
	config := s.config()
	if s.set.AsItIs {
		config = nil
	}
	var info streamInfo
	err := s.find(ctx, s.stream(), config, &info)
	if code(err) == codeNoStream && s.set.AsItIs {
		return nil, fmt.Errorf("rotanats: there is no bucket %s at %v: %w", s.name, s.set, rota.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", s.name, err)
	}
	if err := s.suits(&info.Config); err != nil {
		return nil, err
	}
	if !s.set.AsItIs {
		if err := s.mend(ctx, &info.Config); err != nil {
			return nil, err
		}
	}
	s.sealWith(&info.Config)
	if info.Cluster != nil && info.Cluster.Name != "" && !s.set.AsItIs {
		if err := s.reached(ctx); err != nil {
			return nil, fmt.Errorf("bucket %s: %w", s.name, err)
		}
	}
	b = &bucket{info.Config.Replicas, info.Config.Storage == jetstream.MemoryStorage, info.Config.AllowMsgTTL, info.Created}
	s.mu.Lock()
	s.bucket = b
	s.mu.Unlock()
	return b, nil
}

// made asks when the bucket was made: another of the same name is another bucket,
// whose revisions begin at 1 again.
func (s *store) made(ctx context.Context) (time.Time, error) {
	var info streamInfo
	err := s.ask(ctx, "STREAM.INFO."+s.stream(), nil, &info)
	if err == nil {
		s.sealWith(&info.Config) // somebody may have mended it
	}
	return info.Created, err
}

// forget makes the next call look at the bucket again.
func (s *store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bucket = nil
}

// config is that of a bucket as NATS's own clients make it, but without direct
// gets and roll-ups, without purges, and with an echo. A roll-up is a write with a
// header that removes all other records: it would let a credential of one group
// wipe the others.
func (s *store) config() *jetstream.StreamConfig {
	storage := jetstream.FileStorage
	if s.memory {
		storage = jetstream.MemoryStorage
	}
	return &jetstream.StreamConfig{
		Name: s.stream(), Subjects: []string{"$KV." + s.name + ".>"}, Description: "records of rota",
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: maxValue, MaxConsumers: -1,
		Storage: storage, Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true, AllowMsgTTL: true,
		RePublish: &jetstream.RePublish{Source: "$KV." + s.name + ".>", Destination: "_rota." + s.name + ".>"},
		Replicas:  s.set.Replicas,
		Metadata:  map[string]string{metaSeal: newSeal()},
	}
}

// find looks for a stream, and makes it if there is none and config says how.
// Others may be about to make it at the same time: until it is there for
// everybody, one server of a cluster says that it exists and another that it does
// not.
func (l *link) find(ctx context.Context, name string, config *jetstream.StreamConfig, info *streamInfo) error {
	for wait := findTime; ; wait = min(2*wait, 16*findTime) {
		err := l.ask(ctx, "STREAM.INFO."+name, nil, info)
		if code(err) != codeNoStream || config == nil {
			return err
		}
		err = l.make(ctx, *config, info)
		if c := code(err); c != codeStreamExists && c != codeNoStream {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return l.explain(errors.Join(ctx.Err(), err))
		}
	}
}

// findTime is how soon a stream is looked for again that somebody is making.
const findTime = 10 * time.Millisecond

// make creates a stream, replicated if that can be.
func (l *link) make(ctx context.Context, c jetstream.StreamConfig, info *streamInfo) error {
	nc, _, err := l.conn(ctx)
	if err != nil {
		return err
	}
	if c.Replicas == 0 {
		c.Replicas = 1
		if nc.ConnectedClusterName() != "" {
			c.Replicas = 3
		}
	}
	err = l.ask(ctx, "STREAM.CREATE."+c.Name, c, info)
	if code(err) != 0 && c.Replicas > 1 {
		return fmt.Errorf("make it with %d replicas: %w; a cluster with fewer servers wants replicas=1", c.Replicas, err)
	}
	return err
}

// reached returns once writes reach the bucket. In a cluster a stream that was just
// made exists for a moment without a leader, or the server we are connected to has
// not heard of it: what is written then is answered by nobody. A write cannot be
// tried again, since nobody knows what became of it; so this tries one that is
// refused for certain, at a revision that no key ever has.
func (s *store) reached(ctx context.Context) error {
	for wait := findTime; ; wait = min(2*wait, 16*findTime) {
		once, cancel := context.WithTimeout(ctx, askTime)
		_, err := s.writeOnce(once, "_reached", nil, 1<<62, nil)
		silence := once.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case errors.Is(err, rota.ErrConflict) || errors.Is(err, errInFlight):
			return nil
		case !silence && !errors.Is(err, nats.ErrNoResponders):
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return s.explain(errors.Join(ctx.Err(), err))
		}
	}
}

// suits refuses a bucket that would lose records, or not tell of changes.
func (s *store) suits(c *jetstream.StreamConfig) error {
	wrong := ""
	switch {
	case c.MaxAge > 0:
		wrong = fmt.Sprintf("it lets records expire after %v", c.MaxAge)
	case c.Discard != jetstream.DiscardNew && (c.MaxMsgs > 0 || c.MaxBytes > 0):
		wrong = "it drops old records when it is full"
	case c.Mirror != nil || len(c.Sources) > 0:
		wrong = "it is a copy of another"
	case c.RePublish == nil || c.RePublish.Destination != "_rota."+s.name+".>" || c.RePublish.HeadersOnly:
		wrong = "it was not made by rota and does not repeat changes on _rota." + s.name + ".>"
	default:
		return nil
	}
	return fmt.Errorf("rotanats: bucket %s does not suit: %s; choose another with bucket=NAME, and rota makes it", s.name, wrong)
}

func (s *store) Close() error {
	s.close()
	return nil
}

// Class is what SyncAlways allows to say: B until the number of replicas is
// known, for it is that at least.
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

// Identity names the stream and its leader's term; of a stream that is not
// replicated, the start of its server, which a restore cannot do without.
func (s *store) Identity(ctx context.Context) (string, error) {
	if _, err := s.open(ctx); err != nil {
		return "", err
	}
	var info streamInfo
	if err := s.ask(ctx, "STREAM.INFO."+s.stream(), nil, &info); err != nil {
		return "", fmt.Errorf("identity: %w", err)
	}
	id := info.Created.UTC().Format(time.RFC3339Nano)
	c := info.Cluster
	switch {
	case c == nil:
	case c.LeaderSince != nil:
		return fmt.Sprintf("%s %s since %s", id, c.Leader, c.LeaderSince.UTC().Format(time.RFC3339Nano)), nil
	case c.Name != "":
		return id + " " + c.Leader, nil // on some server of a cluster, maybe not the one we talk to
	}
	nc, _, err := s.conn(ctx)
	if err != nil {
		return "", err
	}
	return id + " " + nc.ConnectedServerId(), nil
}

// String names the server without secrets.
func (s *store) String() string { return fmt.Sprintf("%v bucket %s", s.set, s.name) }

// Format keeps secrets out of every verb.
func (s *store) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
