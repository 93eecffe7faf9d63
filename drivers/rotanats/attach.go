package rotanats

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
)

// A post says which JetStream consumer of a partition is the present one, and
// who uses it. It changes by compare-and-set, to the same or a higher token. Names
// alone cannot tell: to find one's predecessor among ten thousand consumers, all
// would have to be listed.
//
// It is kept twice. On disk, where it changes when a consumer is replaced. And in
// the server's memory, where whoever comes enters its name first and whoever goes
// notes that the consumer is free: a hand-over that waits for no disk. What memory
// has lost was not released, and the consumer is replaced.
type post struct {
	Token    rota.Token `json:"token"`
	Consumer string     `json:"consumer"`
	Stream   time.Time  `json:"stream"`           // when the stream was made: another of the same name counts from 1 again
	Start    uint64     `json:"start"`            // where the consumer began
	Former   string     `json:"former,omitempty"` // the one it has replaced, which may still be there
	Coming   string     `json:"coming,omitempty"` // about to be made in its place; noted before that, so that the next owner finds it
	Stray    string     `json:"stray,omitempty"`  // was to be made and was not found: its creation may have been late
	Released bool       `json:"released"`         // its last owner has settled all it was given, as far as it knows, and will not ask again

	// Notes of the last owner for the next.
	Next uint64        `json:"next,omitempty"` // number of the next delivery; of a work queue the broker is asked
	Each time.Duration `json:"each,omitempty"` // what a message took, lately
}

// Metadata of our consumers.
const (
	metaDurable = "rota.durable"
	metaToken   = "rota.token"
)

const (
	codeNoConsumer = 10014
	codeNotUnique  = 10100 // a work queue has another consumer of the subject
)

// ackTime is longer than anything: whoever owns a partition tries again in place,
// and whoever does not any more has lost its consumer. Redelivery by the clock
// would only break the order.
const ackTime = 7 * 24 * time.Hour

// consumerInfo is what we read of what JetStream tells of a consumer. To read all
// of it would take longer than all else about it.
type consumerInfo struct {
	answer
	Name   string `json:"name"`
	Config struct {
		FilterSubject string            `json:"filter_subject"`
		Metadata      map[string]string `json:"metadata"`
	} `json:"config"`
	Delivered     pair   `json:"delivered"`
	AckFloor      pair   `json:"ack_floor"`
	NumAckPending int    `json:"num_ack_pending"`
	NumPending    uint64 `json:"num_pending"`
}

type pair struct {
	Consumer uint64 `json:"consumer_seq"`
	Stream   uint64 `json:"stream_seq"`
}

// A claim is a consumer that this ownership may use.
type claim struct {
	post
	key  string   // of the post
	disk rota.Rev // of the post on disk
	memo rota.Rev // of the post in memory
	next uint64   // number of the next delivery
	all  bool     // settling one settles all before it
}

// place is the key of a partition's post.
func (s *source) place(partition string) (key, short string) {
	sum := sha256.Sum256([]byte(s.set.Stream + "\x00" + s.set.Durable + "\x00" + partition))
	short = hex.EncodeToString(sum[:8])
	return "post/" + hex.EncodeToString(sum[:16]), short
}

// attach finds the consumer to use: the present one if its last owner has
// released it, with nothing open; otherwise a new one that begins behind what is
// settled. The old one is removed, and with it whatever its owner still asks or
// settles.
func (s *source) attach(ctx context.Context, own rota.Ownership) (*claim, error) {
	f, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := own.Check(); err != nil {
		return nil, err
	}
	c, err := s.claim(ctx, own, f)
	if code(err) == codeNoStream || errors.Is(err, errOtherStream) {
		s.forget()
	}
	return c, err
}

// claim is one attempt, by what is known of the stream. Once its name is in memory
// nobody with a lower token gets to use or to replace the consumer, and nobody
// takes it for released. The last owner's word for where to go on needs no proof:
// if the broker has delivered more, its next number or its next sign of life shows
// that, and the consumer is replaced.
func (s *source) claim(ctx context.Context, own rota.Ownership, f *facts) (*claim, error) {
	key, short := s.place(own.Partition())
	c := &claim{key: key, all: !f.queue}
	memo, rev, err := s.post(ctx, s.memos, own, key)
	if err != nil && code(err) == 0 { // memory that cannot be had is like memory that was lost
		return nil, err
	}
	c.memo = rev
	if memo.Released && memo.Next > 0 {
		noted, err := s.enter(ctx, own, c, memo)
		if noted {
			c.post, c.next = memo, memo.Next
		}
		if noted || err != nil {
			return c, err
		}
	}
	// Our name and what else there is to ask cross: with many partitions at once
	// every question in a row is felt.
	var info *consumerInfo
	told := make(chan error, 1)
	go func() {
		var err error
		if memo.Released {
			info, err = s.info(ctx, memo.Consumer)
		} else {
			info, err = s.former(ctx, own, c)
		}
		told <- err
	}()
	noted, err := s.enter(ctx, own, c, memo)
	if err := cmp.Or(err, <-told); err != nil {
		return nil, err
	}
	if memo.Released {
		if noted && info != nil && info.NumAckPending == 0 {
			c.post, c.next = memo, info.Delivered.Consumer+1
			return c, nil
		}
		if info, err = s.former(ctx, own, c); err != nil {
			return nil, err
		}
	}
	return c, s.replace(ctx, own, c, short, info)
}

// enter puts our name into memory. A server that does not let us, for want of room
// or otherwise, is no reason not to work: the consumer is then replaced, by us and
// by whoever comes next.
func (s *source) enter(ctx context.Context, own rota.Ownership, c *claim, memo post) (noted bool, err error) {
	memo.Token, memo.Released = own.Token(), false
	err = s.record(ctx, s.memos, own, c.key, memo, &c.memo)
	if code(err) != 0 {
		s.set.Log.Debug("not noted in memory", "partition", own.Partition(), "token", own.Token(), "err", err)
		return false, nil
	}
	return err == nil, err
}

// post reads one: nothing if there is none, an error if it is a successor's.
func (s *source) post(ctx context.Context, from *store, own rota.Ownership, key string) (p post, rev rota.Rev, err error) {
	e, err := from.Get(ctx, key)
	switch {
	case errors.Is(err, rota.ErrNotFound):
		return p, 0, nil
	case err != nil:
		return p, 0, err
	}
	_, short := s.place(own.Partition())
	p, wrong := readPost(e.Value, s.set.Durable, short, own.Token(), time.Now())
	for _, w := range wrong {
		own.Tell("note-changed", fmt.Sprintf("its note %s in bucket %s was changed by somebody else: %s", key, from.name, w))
	}
	if p.Token > own.Token() {
		return p, 0, fmt.Errorf("rotanats: %s is consumed under token %d, by the note %s in bucket %s; if no other group uses durable %s, remove that note: %w",
			own.Partition(), p.Token, key, from.name, s.set.Durable, rota.ErrLost)
	}
	return p, e.Rev, nil
}

// former reads the post on disk into c, and asks for the consumer it names, which
// may be gone.
func (s *source) former(ctx context.Context, own rota.Ownership, c *claim) (*consumerInfo, error) {
	var err error
	if c.post, c.disk, err = s.post(ctx, s.posts, own, c.key); err != nil || c.Consumer == "" {
		return nil, err
	}
	return s.info(ctx, c.Consumer)
}

// info is what the broker says of a consumer, nil if it has none of that name.
func (s *source) info(ctx context.Context, consumer string) (*consumerInfo, error) {
	var info consumerInfo
	err := s.ask(ctx, "CONSUMER.INFO."+s.set.Stream+"."+consumer, nil, &info)
	if code(err) == codeNoConsumer {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("rotanats: consumer %s: %w", consumer, err)
	}
	return &info, nil
}

// replace makes a new consumer in the place of c's.
func (s *source) replace(ctx context.Context, own rota.Ownership, c *claim, short string, old *consumerInfo) error {
	name := consumerName(s.set.Durable, short, own.Token())
	announced := make(chan error, 1)
	go func() { announced <- s.announce(ctx, own, c, name) }()
	f, err := s.lookAgain(ctx)
	if err := cmp.Or(err, <-announced); err != nil {
		return err
	}
	c.all = !f.queue
	former := c.Consumer
	next := post{Token: own.Token(), Former: former, Stray: c.Stray, Consumer: name, Stream: f.created, Start: 1}
	if c.Stream.Equal(f.created) && !f.queue {
		if next.Start, err = s.start(ctx, own, c, f, old); err != nil {
			return err
		}
	}
	cfg := jetstream.ConsumerConfig{
		Name: name, Durable: name, Description: "rota: " + own.Partition(), FilterSubject: own.Partition(),
		AckPolicy: jetstream.AckAllPolicy, AckWait: ackTime, MaxDeliver: -1, MaxAckPending: 2 * s.set.Prefetch, MaxWaiting: 16,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: next.Start,
		Metadata: map[string]string{metaDurable: s.set.Durable, metaToken: strconv.FormatUint(uint64(own.Token()), 10)},
	}
	if f.queue { // of a work queue each message has one consumer, and goes when it is settled
		cfg.AckPolicy, cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.AckExplicitPolicy, jetstream.DeliverAllPolicy, 0
		if _, err := s.remove(ctx, own, former); err != nil {
			return err
		}
	}
	err = s.create(ctx, own, &cfg)
	if err == nil && next.Start > 1 && !f.queue {
		err = s.sameStream(ctx, f)
	}
	if err == nil {
		err = s.record(ctx, s.posts, own, c.key, next, &c.disk)
	}
	if err != nil {
		s.discard(name)
		return err
	}
	c.post, c.next = next, 1
	if !f.queue {
		if _, err := s.remove(ctx, own, former); err != nil {
			return err
		}
	}
	return nil
}

// start is the number of the first message of a new consumer. The end of the stream
// is asked for again before a number beyond it counts as wrong: a server that has
// just begun to lead the stream may tell an older one.
func (s *source) start(ctx context.Context, own rota.Ownership, c *claim, f *facts, old *consumerInfo) (uint64, error) {
	var floor uint64
	if old != nil {
		floor = old.AckFloor.Stream
	}
	for tries := 1; ; tries++ {
		from, ok := begin(c.Start, floor, f.last)
		if ok {
			return from, nil
		}
		if tries == 3 {
			own.Tell("stream-went-back", fmt.Sprintf("it was settled up to message %d, but stream %s ends at %d: consuming it from message %d on",
				max(c.Start-1, floor), s.set.Stream, f.last, from))
			return from, nil
		}
		select {
		case <-time.After(astrayTime):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		var err error
		if f, err = s.lookAgain(ctx); err != nil {
			return 0, err
		}
	}
}

// announce notes the name of a consumer on disk before the consumer is made. If
// the answer to the creation is lost, or the owner dies before it has noted the
// consumer as the present one, the next attempt removes the consumer, whoever
// makes that attempt.
//
// What earlier attempts have left is removed here. The server handles requests
// side by side, so a creation that nobody waits for any more may come behind its
// removal: a name that was not found is tried once more by the attempt after this.
func (s *source) announce(ctx context.Context, own rota.Ownership, c *claim, name string) error {
	note := c.post
	note.Token, note.Former, note.Stray, note.Coming = own.Token(), "", "", name
	for _, left := range []string{c.Former, c.Stray, c.Coming} {
		found, err := s.remove(ctx, own, left)
		if err != nil {
			return err
		}
		if left == c.Coming && !found {
			note.Stray = left
		}
	}
	if err := s.record(ctx, s.posts, own, c.key, note, &c.disk); err != nil {
		return err
	}
	c.post = note
	return nil
}

// create makes a consumer. A work queue has one for each subject, and refuses
// another: what then stands in the way and is a former owner's of ours is removed.
// No post names it; older versions could leave such a consumer behind, and so can
// the creation of a former owner that arrives late.
func (s *source) create(ctx context.Context, own rota.Ownership, cfg *jetstream.ConsumerConfig) error {
	verb := "CONSUMER.CREATE." + s.set.Stream + "." + cfg.Name + "." + own.Partition()
	q := map[string]any{"stream_name": s.set.Stream, "config": cfg, "action": "create"}
	var made consumerInfo
	err := s.askIf(ctx, own.Check, verb, q, &made)
	if code(err) == codeNotUnique {
		if err := s.clearWay(ctx, own); err != nil {
			return err
		}
		err = s.askIf(ctx, own.Check, verb, q, &made)
	}
	if err != nil {
		return fmt.Errorf("rotanats: make a consumer of %s: %w", own.Partition(), err)
	}
	return nil
}

// clearWay removes every consumer of the partition that is of our durable, unless one
// was made under a higher token than ours.
func (s *source) clearWay(ctx context.Context, own rota.Ownership) error {
	var old []string
	var highest uint64
	err := s.eachConsumer(ctx, func(c *consumerInfo, token uint64) {
		if c.Config.FilterSubject == own.Partition() {
			old, highest = append(old, c.Name), max(highest, token)
		}
	})
	if err != nil {
		return err
	}
	if highest > uint64(own.Token()) {
		return fmt.Errorf("rotanats: %s is consumed under token %d: %w", own.Partition(), highest, rota.ErrLost)
	}
	for _, name := range old {
		s.set.Log.Info("removing a consumer that nobody has noted", "partition", own.Partition(), "token", own.Token(), "consumer", name)
		if _, err := s.remove(ctx, own, name); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a consumer that we have made, or may have, and shall not use. Its
// name is unique and nobody else uses it, so the lease is not asked. Nor does
// anybody wait for this: the partition may be another's by now, and whoever comes
// next knows the name.
func (s *source) discard(consumer string) {
	if nc, _, wait, err := s.link.look(); wait == nil && err == nil {
		nc.Publish(s.api("CONSUMER.DELETE."+s.set.Stream+"."+consumer), nil)
	}
}

var errOtherStream = errors.New("rotanats: the stream was deleted and made again meanwhile")

// sameStream sees that the stream is still the one whose numbers we use.
func (s *source) sameStream(ctx context.Context, f *facts) error {
	now, err := s.lookAgain(ctx)
	if err == nil && !now.created.Equal(f.created) {
		err = errOtherStream
	}
	return err
}

// record changes the post at a revision. Losing means that another owner has come.
func (s *source) record(ctx context.Context, to *store, own rota.Ownership, key string, p post, at *rota.Rev) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return own.Settle(func() error {
		rev, err := to.Put(ctx, key, text, *at)
		if err != nil {
			return fmt.Errorf("the post of %s: %w", own.Partition(), err)
		}
		*at = rev
		return nil
	})
}

// remove removes a consumer and tells whether there was one.
func (s *source) remove(ctx context.Context, own rota.Ownership, consumer string) (found bool, err error) {
	if consumer == "" {
		return false, nil
	}
	var done answer
	err = s.askIf(ctx, own.Check, "CONSUMER.DELETE."+s.set.Stream+"."+consumer, nil, &done)
	switch {
	case err == nil:
		return true, nil
	case code(err) == codeNoConsumer || code(err) == codeNoStream:
		return false, nil
	}
	return false, fmt.Errorf("rotanats: remove consumer %s: %w", consumer, err)
}

// acknowledged reads a stream's answer to a publication.
func acknowledged(r *nats.Msg) error {
	var ack struct {
		answer
		Stream string `json:"stream"`
	}
	if err := json.Unmarshal(r.Data, &ack); err != nil {
		return err
	}
	if ack.Error == nil && ack.Stream == "" {
		return errors.New("no stream has stored it")
	}
	return ack.err()
}
