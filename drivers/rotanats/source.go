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
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// Source consumes a JetStream stream whose subjects are the partitions, at an
// address like
//
//	nats://host:4222?stream=ORDERS&subject=orders.*&partitions=64
//	embed:DIR?stream=ORDERS&subject=orders.*
//
// With a number of partitions they are orders.0 to orders.63; without, they are
// the subjects that the stream has messages for, and more as they appear.
//
// Messages of a partition arrive in order, also when its owner was killed: the
// next one then replaces the JetStream consumer by one of its own, which begins
// behind the last message settled, and the former owner's is gone. An owner that
// stops in good order leaves its consumer to the next. A message that was
// handled but not settled when its owner died comes again.
func Source(url string, opts ...Option) rota.Source {
	l := newLink(url, opts)
	s := &source{link: l, posts: newStore(l, postBucket), memos: newStore(l, memoBucket), door: make(chan struct{}, doorWidth)}
	s.memos.memory = true
	if l.bad == nil {
		l.bad = s.check()
	}
	return s
}

// Where posts are kept, on disk and in memory.
const (
	postBucket = "rota-sources"
	memoBucket = "rota-sources-now"
)

// doorWidth is how many partitions may attach or release at a time. Of a thousand
// at once most had not attached after a minute: an answer that is late makes ask
// put its question again.
const doorWidth = 32

type source struct {
	*link
	posts *store
	memos *store
	door  chan struct{} // holds a token for each that attaches or releases

	warming sync.Mutex

	mu    sync.Mutex
	facts *facts
}

// facts of the stream that do not change while it is the same one.
type facts struct {
	created  time.Time
	queue    bool // a message is gone once it is settled
	replicas int
	last     uint64 // number of the last message when it was asked for; there may be more by now
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
		return errors.New("rotanats: most and partitions: give one of them, since most is for subjects that are found")
	}
	if set.Most == 0 {
		set.Most = defaultDiscovered
	}
	if set.Dead == "" {
		set.Dead = "dead." + set.Stream
	}
	return nil
}

// Partitions are numbered, or those that the stream has messages for. JetStream
// forgets a subject with its last message, so a partition that is not listed
// need not be gone: the list only adds.
func (s *source) Partitions(ctx context.Context) ([]rota.Partition, error) {
	if _, err := s.look(ctx); err != nil {
		return nil, err
	}
	var out []rota.Partition
	for i := range s.set.Partitions {
		out = append(out, rota.Partition{Name: strings.Replace(s.set.Subject, "*", strconv.Itoa(i), 1)})
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

// counts is how many messages the stream has of each subject of ours, and when it
// was made.
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

// look returns the facts, from memory if it can.
func (s *source) look(ctx context.Context) (*facts, error) {
	s.mu.Lock()
	f := s.facts
	s.mu.Unlock()
	if f != nil {
		return f, nil
	}
	return s.lookAgain(ctx)
}

// forget makes the next look ask again.
func (s *source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = nil
}

// lookAgain looks at the stream, which may have been deleted and made again since
// the last time. It makes it if there is none and it may.
func (s *source) lookAgain(ctx context.Context) (*facts, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	var config *jetstream.StreamConfig
	if s.set.Create {
		config = s.config(s.set.Stream, s.set.Subject)
	}
	var info streamInfo
	err := s.find(ctx, s.set.Stream, config, &info)
	if code(err) == codeNoStream && !s.set.Create {
		return nil, fmt.Errorf("rotanats: there is no stream %s at %v: make it with a subject that covers %s, or let create=true do that", s.set.Stream, s.set, s.set.Subject)
	}
	if err != nil {
		return nil, fmt.Errorf("rotanats: stream %s: %w", s.set.Stream, err)
	}
	f := &facts{info.Created, info.Config.Retention == jetstream.WorkQueuePolicy, info.Config.Replicas, info.State.Last}
	s.mu.Lock()
	s.facts = f
	s.mu.Unlock()
	return f, nil
}

// config is that of a stream that we make.
func (s *source) config(name, subject string) *jetstream.StreamConfig {
	return &jetstream.StreamConfig{
		Name: name, Subjects: []string{subject}, Storage: jetstream.FileStorage, Replicas: s.set.Replicas,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
	}
}

// Read counts by the consumers: what they have delivered and what they have yet
// to deliver has arrived since they were made. A partition that nobody has
// consumed yet counts what the stream holds.
func (s *source) Read(ctx context.Context, partitions []string) ([]rota.Reading, error) {
	if _, err := s.look(ctx); err != nil {
		return nil, err
	}
	counts, created, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	consumers, err := s.consumers(ctx)
	if err != nil {
		return nil, err
	}
	var out []rota.Reading
	for _, p := range partitions {
		r := rota.Reading{Partition: p, Arrived: counts[p], Backlog: int64(counts[p]), Epoch: "stream of " + created.UTC().Format(time.RFC3339Nano)}
		if c := consumers[p]; c != nil {
			r.Arrived, r.Epoch = c.Delivered.Consumer+c.NumPending, c.Name
			r.Backlog = int64(c.NumPending) + int64(c.NumAckPending)
		}
		out = append(out, r)
	}
	return out, nil
}

// consumers are the present ones, by partition: those with the highest token.
func (s *source) consumers(ctx context.Context) (map[string]*consumerInfo, error) {
	present, highest := map[string]*consumerInfo{}, map[string]uint64{}
	err := s.eachConsumer(ctx, func(c *consumerInfo, token uint64) {
		if p := c.Config.FilterSubject; token >= highest[p] {
			present[p], highest[p] = c, token
		}
	})
	return present, err
}

// eachConsumer shows every consumer of our durable, and the token it was made under.
// Anybody may write into the metadata of a consumer, so its name has to say the same.
func (s *source) eachConsumer(ctx context.Context, show func(c *consumerInfo, token uint64)) error {
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
			if c == nil || c.Config.Metadata[metaDurable] != s.set.Durable {
				continue
			}
			_, short := s.place(c.Config.FilterSubject)
			token, ok := consumerToken(c.Name, s.set.Durable, short)
			if ok && c.Config.Metadata[metaToken] == strconv.FormatUint(uint64(token), 10) && likely(token, 0, time.Now()) {
				show(c, uint64(token))
			}
		}
		offset += len(page.Consumers)
		if len(page.Consumers) == 0 || offset >= page.Total {
			return nil
		}
	}
}

// Prepare does what the first to attach would wait for: it connects, and looks at
// the stream and the bucket.
func (s *source) Prepare(ctx context.Context, _ rota.Partition) error {
	s.warming.Lock() // one asks for all
	defer s.warming.Unlock()
	if _, err := s.look(ctx); err != nil {
		return err
	}
	_, err := s.memos.open(ctx)
	if code(err) != 0 {
		return nil // attaching does without
	}
	return err
}

// How long a broker may be away, or be of no use, before rota is told.
const awayTime = 5 * time.Second

// Consume attaches to the partition, again and again while the broker comes and
// goes, and delivers.
func (s *source) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	wait, since := 20*time.Millisecond, time.Now()
	for {
		select {
		case <-own.Stop():
			return nil
		default:
		}
		begun := time.Now()
		moved, err := s.consume(ctx, own, deliver)
		if err == nil || ctx.Err() != nil || errors.Is(err, rota.ErrLost) || s.bad != nil {
			return err
		}
		if errors.Is(err, errUnburied) && !errors.Is(err, errGone) {
			return err // attaching again would not help: rota tells it and waits longer each time
		}
		if moved || time.Since(begun) > awayTime { // it was of use until now
			wait, since = 20*time.Millisecond, time.Now()
		}
		if time.Since(since) > awayTime {
			return err
		}
		s.set.Log.Debug("attach again", "partition", own.Partition(), "token", own.Token(), "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-own.Stop():
			return nil // nothing of ours is open: the connection is, or was, gone
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

// consume attaches once. It tells whether messages came.
func (s *source) consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) (moved bool, err error) {
	select {
	case s.door <- struct{}{}:
	case <-own.Stop():
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	c, p, err := s.begin(ctx, own)
	<-s.door
	if err != nil {
		return false, err
	}
	own.Started()
	first := c.next
	err = p.run(ctx, deliver)
	return c.next > first, err
}

// begin attaches and asks for the first messages.
func (s *source) begin(ctx context.Context, own rota.Ownership) (*claim, *pump, error) {
	c, err := s.attach(ctx, own)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.newPump(ctx, c, own)
	return c, p, err
}

// deadLetter stores a message that failed too often, and makes a stream for
// those if nobody stores them.
func (s *source) deadLetter(ctx context.Context, own rota.Ownership, made time.Time, msg *rota.Message, because error) error {
	partition := own.Partition()
	dead := nats.NewMsg(s.set.Dead + "." + partition)
	dead.Data = msg.Value
	for _, h := range msg.Headers {
		if !forServer(h.Key) { // those were meant for the publication there
			dead.Header.Add(h.Key, string(h.Value))
		}
	}
	dead.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%s-%d-%d", s.set.Stream, made.UnixNano(), msg.Position)) // whoever tries again does not store it twice
	dead.Header.Set("Rota-Stream", s.set.Stream)
	dead.Header.Set("Rota-Partition", partition)
	dead.Header.Set("Rota-Sequence", strconv.FormatUint(msg.Position, 10))
	dead.Header.Set("Rota-Error", oneLine(because))
	err := s.bury(ctx, own, dead)
	if errors.Is(err, nats.ErrMaxPayload) {
		dead.Header = nats.Header{nats.MsgIdHdr: dead.Header[nats.MsgIdHdr]} // the message is more than the story
		err = s.bury(ctx, own, dead)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		dead.Header = nil
		err = s.bury(ctx, own, dead)
	}
	if err != nil {
		return fmt.Errorf("%w: message %d of %s to %s: %w", errUnburied, msg.Position, partition, dead.Subject, err)
	}
	return nil
}

// errUnburied: a message that failed too often could not be stored elsewhere. It is
// not settled then, and everything behind it waits.
var errUnburied = errors.New("rotanats: cannot dead-letter")

// forServer tells whether a header is one by which publishers give orders to the
// server. New ones come with new versions of it: all begin alike.
func forServer(header string) bool {
	const prefix = "nats-"
	return len(header) >= len(prefix) && strings.EqualFold(header[:len(prefix)], prefix)
}

// bury publishes a dead letter until a stream has it; if none wants it, one is
// made. A stream of a cluster that was just made may swallow what comes too early.
// To try again is safe here: the message has a number. The lease is asked before
// each try: the process may have been frozen since the last.
func (s *source) bury(ctx context.Context, own rota.Ownership, msg *nats.Msg) error {
	for tries := 1; ; tries++ {
		if err := own.Check(); err != nil {
			return err
		}
		once, cancel := context.WithTimeout(ctx, time.Second)
		err := s.publish(once, msg)
		if errors.Is(err, nats.ErrNoResponders) {
			var info streamInfo
			err = errors.Join(err, s.find(once, s.set.Stream+"_dead", s.config(s.set.Stream+"_dead", s.set.Dead+".>"), &info))
		}
		cancel()
		if err == nil || errors.Is(err, nats.ErrMaxPayload) || code(err) != 0 || ctx.Err() != nil || tries == 5 {
			return err
		}
		select {
		case <-time.After(time.Duration(tries) * 20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func oneLine(err error) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "?")
	return text[:min(len(text), 500)]
}

// publish stores a message and sees that a stream took it.
func (s *source) publish(ctx context.Context, msg *nats.Msg) error {
	r, err := s.request(ctx, msg)
	if err != nil {
		return err
	}
	return acknowledged(r)
}

// Close ends the connection. What is being consumed fails.
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
