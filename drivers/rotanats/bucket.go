package rotanats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
)

// A bucket has the properties of our bucket, as the server reports them.
type bucket struct {
	replicas int
	memory   bool
	marks    bool // deletion marks may expire
	made     time.Time
}

// maxValue is the size of the largest write that a bucket accepts, with headers. A
// record has at most 768 KiB.
const maxValue = 1 << 20

// open returns the properties of the bucket, cached after the first call. Unless AsItIs
// is set, it creates a bucket that does not exist and mends a weak one.
func (s *store) open(ctx context.Context) (*bucket, error) {
	b, done := s.claimRead(ctx)
	if b != nil {
		return b, ctx.Err()
	}
	defer done()
	return s.readBucket(ctx)
}

// Open connects and makes the bucket ready.
func (s *store) Open(ctx context.Context) error {
	_, err := s.open(ctx)
	return err
}

// claimRead returns the bucket if it was read. If another call reads it, it waits for that
// for a moment: a member that joins makes four calls at once. Otherwise the caller has to
// read the bucket and then call done.
func (s *store) claimRead(ctx context.Context) (b *bucket, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.opening; s.bucket == nil && other != nil {
		s.mu.Unlock()
		select {
		case <-other:
		case <-time.After(openTime):
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	if s.bucket != nil {
		return s.bucket, nil
	}
	if s.opening != nil {
		return nil, func() {} // one that takes long: this one asks beside it
	}
	reading := make(chan struct{})
	s.opening = reading
	return nil, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opening = nil
		close(reading)
	}
}

// openTime is how long a call waits for another that reads the bucket.
const openTime = 200 * time.Millisecond

// readBucket asks the server for the bucket.
func (s *store) readBucket(ctx context.Context) (*bucket, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	config := s.config()
	if s.set.AsItIs {
		config = nil
	}
	nc, on, err := s.conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", s.name, err)
	}
	at := time.Now()
	var info streamInfo
	err = s.find(ctx, s.stream(), config, &info)
	if code(err) == codeNoStream && s.set.AsItIs {
		return nil, fmt.Errorf("rotanats: there is no bucket %s at %v: %w", s.name, s.set, rota.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", s.name, err)
	}
	if err := s.suits(&info.Config); err != nil {
		return nil, permanent{err}
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
	b := &bucket{info.Config.Replicas, info.Config.Storage == jetstream.MemoryStorage, info.Config.AllowMsgTTL, info.Created}
	id := identity(&info, nc)
	s.mu.Lock()
	s.bucket, s.met = b, met{on, at, id}
	other := !b.made.Equal(s.since)
	s.since = b.made
	s.mu.Unlock()
	if other {
		s.newest.forget()
	}
	return b, nil
}

// replicated tells whether the bucket has several replicas, as far as that is known.
func (s *store) replicated() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bucket != nil && s.bucket.replicas > 1
}

// made asks the server when the bucket was created. A bucket that was deleted and
// created again is another one: its revisions begin at 1.
func (s *store) made(ctx context.Context) (time.Time, error) {
	var info streamInfo
	err := s.ask(ctx, "STREAM.INFO."+s.stream(), nil, &info)
	if err == nil {
		s.observe(&info)
	}
	return info.Created, err
}

// observe updates what may change while the bucket is used: another member may have mended
// it, or a person has changed the number of its replicas, on which its class depends.
func (s *store) observe(info *streamInfo) {
	s.sealWith(&info.Config)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bucket != nil {
		b := *s.bucket
		b.replicas = info.Config.Replicas
		s.bucket = &b
	}
}

// forget makes the next call read the properties of the bucket again.
func (s *store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bucket = nil
}

// config is the configuration of a bucket: that of NATS's own clients, but without
// direct gets, roll-ups and purges, and with an echo and a seal key. A roll-up is a write
// whose header makes the server remove all other records: a credential of one group
// could remove those of all groups.
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

// reached returns once writes reach the bucket. In a cluster a new stream has no leader
// for a moment, or the server we are connected to does not know it yet: a write then
// gets no answer. A write must not be retried, since its outcome is unknown; so reached
// sends one that is certainly refused, at a revision that no key ever has.
func (s *store) reached(ctx context.Context) error {
	var no *mismatch
	for wait := findTime; ; wait = min(2*wait, 16*findTime) {
		once, cancel := context.WithTimeout(ctx, replyTimeout)
		_, err := s.writeOnce(once, "_reached", nil, 1<<62, "", nil)
		silence := once.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case errors.As(err, &no):
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

// suits refuses a bucket that would lose records, or has no echo.
func (s *store) suits(c *jetstream.StreamConfig) error {
	wrong := ""
	switch {
	case c.MaxAge > 0:
		wrong = fmt.Sprintf("it lets records expire after %v", c.MaxAge)
	case c.Discard != jetstream.DiscardNew && (c.MaxMsgs > 0 || c.MaxBytes > 0):
		wrong = "it drops old records when it is full"
	case c.Mirror != nil || len(c.Sources) > 0:
		wrong = "it is a copy of another bucket"
	case c.RePublish == nil || c.RePublish.Destination != "_rota."+s.name+".>" || c.RePublish.HeadersOnly:
		wrong = "it was not made by rota and does not repeat changes on _rota." + s.name + ".>"
	default:
		return nil
	}
	return fmt.Errorf("rotanats: bucket %s cannot be used: %s; choose another with bucket=NAME, and rota creates it", s.name, wrong)
}
