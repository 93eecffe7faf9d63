package rotanats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
	"github.com/rota-dev/rota/internal/setback"
)

// Source consumes a JetStream stream whose subjects are the partitions, at an
// address like
//
//	nats://host:4222?stream=ORDERS&subject=orders.*&partitions=64
//	embed:DIR?stream=ORDERS&subject=orders.*
//
// With partitions=64 the partitions are orders.0 to orders.63. Without it they are
// the subjects that the stream has messages for, and more as they appear. The stream is
// the topic of all its partitions.
//
// A source reads for one group. Groups are independent readers: each gets every message,
// unless the stream is a work queue, which has one reader; see durable= and takeover= in
// docs/sources/jetstream.md.
//
// Messages of a partition arrive in order, even after its owner was killed: the next
// owner replaces the JetStream consumer by a new one, which begins after the last
// settled message, and removes the old one. An owner that stops in good order leaves
// its consumer to the next owner. A message that was handled but not settled when its
// owner died is redelivered.
func Source(url string, opts ...Option) rota.Source {
	l := newLink(url, opts)
	s := &source{link: l, diskNotes: newStore(l, diskBucket), memoryNotes: newStore(l, memoryBucket), slots: make(chan struct{}, maxAttaching), elsewhere: make(chan elsewhere, 1)}
	s.elsewhere <- elsewhere{}
	s.memoryNotes.memory = true
	if l.bad == nil {
		l.bad = s.check()
	}
	return s
}

// The buckets that hold the notes on disk and in the server's memory.
const (
	diskBucket   = "rota-sources"
	memoryBucket = "rota-sources-now"
)

// maxAttaching limits how many partitions attach or release at the same time. Without
// a limit, most of a thousand partitions had not attached after a minute: late answers
// made ask retry, and the retries delayed the other answers.
const maxAttaching = 32

type source struct {
	*link
	diskNotes   *store
	memoryNotes *store
	slots       chan struct{}          // a semaphore: one element per partition that attaches or releases
	reader      atomic.Pointer[reader] // nil until Bind
	elsewhere   chan elsewhere         // has one element, unless it is being read
	setbacks    setback.Book
	marks       marks
	elections   elections
	meter       meter

	warming sync.Mutex

	mu      sync.Mutex
	facts   *facts
	account *int // limit of consumers per stream, 0 or less for none; nil until it was asked for
}

// facts describe the stream. All but the last three stay the same until the stream is
// deleted and created again.
type facts struct {
	created   time.Time
	queue     bool // a work queue: the stream removes a message once it is settled
	replicas  int
	limit     int    // of consumers that the stream permits; 0 or less for none
	first     uint64 // sequence of the first message that was left when the facts were read
	last      uint64 // sequence of the last message then; there may be more by now
	consumers int    // that it had then
}

func (s *source) check() error {
	set := s.set
	stars := strings.Count(set.Subject, "*")
	switch {
	case set.Stream == "":
		return errors.New("rotanats: a source needs a stream: stream=NAME")
	case strings.ContainsAny(set.Stream, " .*>/\\\t\r\n") || len(set.Stream) > 128:
		return fmt.Errorf("rotanats: stream %.40q: names have no blanks, dots, stars, > or slashes", set.Stream)
	case !address.GoodSubject(set.Subject) || stars != 1 || strings.Contains(set.Subject, ">"):
		return fmt.Errorf("rotanats: subject %.80q: write a pattern with one star for the partition, such as orders.*", set.Subject)
	case set.Dead != "" && (!address.GoodSubject(set.Dead) || strings.ContainsAny(set.Dead, "*>")):
		return fmt.Errorf("rotanats: dead-letter subject %.80q: write one without wildcards, such as dead.orders", set.Dead)
	case set.Most > 0 && set.Partitions > 0:
		return errors.New("rotanats: most and partitions: give one of them, since most limits partitions that are discovered")
	case set.AsItIs:
		return errors.New("rotanats: the option AsItIs is for a store: leave it out")
	}
	if err := useless(set, ofStores, "it is for a store"); err != nil {
		return err
	}
	if set.Most == 0 {
		set.Most = defaultDiscovered
	}
	if set.Dead == "" {
		set.Dead = "dead." + set.Stream
	}
	return nil
}

// Partitions returns the numbered partitions, or the subjects that the stream has
// messages for. JetStream forgets a subject with its last message, so a partition
// that is missing from the list may still exist: the list only adds partitions.
func (s *source) Partitions(ctx context.Context) ([]rota.Partition, error) {
	f, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	list, err := s.list(ctx)
	s.warnOfLimit(ctx, f, len(list))
	return list, err
}

func (s *source) list(ctx context.Context) (out []rota.Partition, err error) {
	for i := range s.set.Partitions {
		out = append(out, rota.Partition{Name: strings.Replace(s.set.Subject, "*", strconv.Itoa(i), 1), Topic: s.set.Stream})
	}
	if out != nil {
		return out, nil
	}
	counts, _, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	return s.discovered(ctx, slices.Sorted(maps.Keys(counts)))
}

// counts returns how many messages the stream has of each of our subjects, and when
// the stream was created.
func (s *source) counts(ctx context.Context) (all map[string]uint64, created time.Time, err error) {
	all = map[string]uint64{}
	for {
		var page streamInfo
		q := map[string]any{"subjects_filter": s.set.Subject, "offset": len(all)}
		if err := s.ask(ctx, "STREAM.INFO."+s.set.Stream, q, &page); err != nil {
			return nil, created, fmt.Errorf("rotanats: stream %s: %w", s.set.Stream, err)
		}
		for subject, n := range page.State.Subjects {
			all[subject] = n
		}
		if len(page.State.Subjects) == 0 || len(all) >= page.Total {
			return all, page.Created, nil
		}
	}
}

// look returns the cached facts, or reads them.
func (s *source) look(ctx context.Context) (*facts, error) {
	s.mu.Lock()
	f := s.facts
	s.mu.Unlock()
	if f != nil {
		return f, nil
	}
	return s.readFacts(ctx)
}

// forget makes the next look read the facts again.
func (s *source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = nil
}

// readFacts reads the facts from the server: the stream may have been deleted and
// created again since the last time. It creates the stream if there is none and the
// URL says create=true.
func (s *source) readFacts(ctx context.Context) (*facts, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	var config *jetstream.StreamConfig
	if s.set.Create {
		config = s.config(s.set.Stream, s.set.Subject)
		config.MaxConsumers = room(max(s.set.Partitions, s.set.Most))
	}
	var info streamInfo
	err := s.find(ctx, s.set.Stream, config, &info)
	if code(err) == codeMaxConsumers && s.set.Create { // the account has a limit: then there needs to be none
		config.MaxConsumers = -1
		err = s.find(ctx, s.set.Stream, config, &info)
	}
	if code(err) == codeNoStream && !s.set.Create {
		return nil, permanent{fmt.Errorf("rotanats: there is no stream %s at %v: create it with a subject that covers %s, or add create=true to the URL", s.set.Stream, s.set, s.set.Subject)}
	}
	if err != nil {
		return nil, fmt.Errorf("rotanats: stream %s: %w", s.set.Stream, err)
	}
	f := &facts{info.Created, info.Config.Retention == jetstream.WorkQueuePolicy, info.Config.Replicas, info.Config.MaxConsumers, info.State.First, info.State.Last, info.State.Consumers}
	s.mu.Lock()
	s.facts = f
	s.mu.Unlock()
	return f, nil
}

// config is the configuration of a stream that we create.
func (s *source) config(name, subject string) *jetstream.StreamConfig {
	return &jetstream.StreamConfig{
		Name: name, Subjects: []string{subject}, Storage: jetstream.FileStorage, Replicas: s.set.Replicas,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
	}
}

// eachConsumer calls show for every consumer of our durable that the group may use, with
// the token under which it was created.
func (s *source) eachConsumer(ctx context.Context, r *reader, show func(c *consumerInfo, token uint64)) error {
	return s.listConsumers(ctx, func(c *consumerInfo) {
		if token, ok := s.ofReader(r, c); ok {
			show(c, uint64(token))
		}
	})
}

// ofReader tells whether a consumer is of our durable and the group may use it, and returns
// the token under which it was created. Other applications can write any metadata into
// their consumers, so the name has to contain the same token.
func (s *source) ofReader(r *reader, c *consumerInfo) (token rota.Token, ok bool) {
	meta := c.Config.Metadata
	if meta[metaDurable] != r.durable || r.others(meta[metaGroup]) && meta[metaGroup] != r.takeover {
		return 0, false
	}
	_, short := s.noteKey(r, c.Config.FilterSubject)
	token, ok = consumerToken(c.Name, r.durable, short)
	return token, ok && meta[metaToken] == strconv.FormatUint(uint64(token), 10) && likely(token, 0, time.Now())
}

// listConsumers calls show for every consumer of the stream.
func (s *source) listConsumers(ctx context.Context, show func(c *consumerInfo)) error {
	for offset := 0; ; {
		var page struct {
			answer
			Consumers []*consumerInfo `json:"consumers"`
			Total     int             `json:"total"`
		}
		if err := s.ask(ctx, "CONSUMER.LIST."+s.set.Stream, map[string]int{"offset": offset}, &page); err != nil {
			return fmt.Errorf("rotanats: consumers of %s: %w", s.set.Stream, err)
		}
		for _, c := range page.Consumers {
			if c != nil {
				show(c)
			}
		}
		offset += len(page.Consumers)
		if len(page.Consumers) == 0 || offset >= page.Total {
			return nil
		}
	}
}

// Prepare does what the first attach would otherwise wait for: it connects, and looks
// up the stream and the bucket in memory.
func (s *source) Prepare(ctx context.Context, _ rota.Partition) error {
	s.warming.Lock() // the first call fills the caches for the others
	defer s.warming.Unlock()
	if _, err := s.look(ctx); err != nil {
		return err
	}
	_, err := s.memoryNotes.open(ctx)
	if refusedBy(err) {
		return nil // attach works without the bucket in memory
	}
	return err
}

// Consume attaches to the partition and delivers its messages. When the connection
// or the consumer is lost it attaches again, with back-off.
func (s *source) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	err := s.setbacks.Try(ctx, own.Partition(), own.Stop(), func() (bool, error) { return s.consume(ctx, own, deliver) }, func(err error, failing bool) setback.Verdict {
		switch {
		case s.over(err):
			return setback.Over
		case hopeless(err) || failing && refusedBy(err):
			return setback.GiveUp
		}
		s.set.Log.Debug("attach again", "partition", own.Partition(), "token", own.Token(), "err", err)
		return setback.Again
	})
	if err == nil || ctx.Err() != nil || s.over(err) {
		s.marks.remove(own)
	}
	return err
}

// over tells whether no further attempt to consume could help after an error.
func (s *source) over(err error) bool { return errors.Is(err, rota.ErrLost) || s.bad != nil }

// errNoSubject is about a partition that was added by order, with a name that the source
// does not have. JetStream would make a consumer for it all the same.
var errNoSubject = errors.New("none of the subjects")

// covers tells whether a partition is one of our subjects: any word may stand for the star.
func (s *source) covers(partition string) bool {
	before, after, _ := strings.Cut(s.set.Subject, "*")
	word, begins := strings.CutPrefix(partition, before)
	word, ends := strings.CutSuffix(word, after)
	return begins && ends && word != "" && !strings.ContainsAny(word, ". \t")
}

// consume attaches once and delivers until it fails or stops. worked tells whether it was
// of use: a message was settled, or it was attached for a while.
func (s *source) consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) (worked bool, err error) {
	if !s.covers(own.Partition()) {
		return false, fmt.Errorf("rotanats: %q is %w %s: no message can arrive for it; rota partitions remove takes it away", own.Partition(), errNoSubject, s.set.Subject)
	}
	select {
	case s.slots <- struct{}{}:
	case <-own.Stop():
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	p, err := s.begin(ctx, own)
	<-s.slots
	if err != nil {
		return false, err
	}
	own.Started()
	begun := time.Now()
	err = p.run(ctx, deliver)
	s.marks.put(own, p.claim.settled)
	if err != nil && ctx.Err() == nil {
		p.leaveMark(ctx)
	}
	return p.proven || time.Since(begun) > setback.Away, err
}

// begin attaches and pulls the first messages.
func (s *source) begin(ctx context.Context, own rota.Ownership) (*pump, error) {
	c, err := s.attach(ctx, own)
	if err != nil {
		return nil, err
	}
	return s.newPump(ctx, c, own)
}

// publish publishes a message and checks that a stream has stored it.
func (s *source) publish(ctx context.Context, msg *nats.Msg) error {
	r, err := s.request(ctx, msg)
	if err != nil {
		return err
	}
	return acknowledged(r)
}

// Close closes the connection. Every Consume that is running fails.
func (s *source) Close() error {
	s.close()
	return nil
}

// String names the source without secrets.
func (s *source) String() string {
	return fmt.Sprintf("%v stream %s subject %s", s.set, s.set.Stream, s.set.Subject)
}

// Format keeps secrets out of every verb.
func (s *source) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
