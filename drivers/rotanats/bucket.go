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

// A bucket is what the server says of ours.
type bucket struct {
	replicas int
	memory   bool
	marks    bool // deletion marks may have an end
	made     time.Time
}

// maxValue is the size of the largest write that a bucket takes, headers included.
// A record has at most 768 KiB.
const maxValue = 1 << 20

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
