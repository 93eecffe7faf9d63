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

// A note names the current JetStream consumer of a partition and the token of the owner
// that uses it. It changes by compare-and-set, to the same or a higher token of its group,
// or to a group that takes it over. The names
// of consumers are not enough: to find the last owner's consumer among ten thousand, an
// owner would have to list them all.
//
// Each partition has two notes. The one on disk changes when the consumer is replaced.
// In the one in the server's memory a new owner first enters its token, and an owner
// that stops writes that the consumer is released: such a hand-over does not wait for a
// disk. If the server has lost its memory, the consumer counts as not released, and the
// next owner replaces it.
type note struct {
	Group    string     `json:"group,omitempty"`  // the group that reads the partition; "" in notes of earlier versions
	From     string     `json:"from,omitempty"`   // the groups it was taken over from, with blanks between them
	Before   rota.Token `json:"before,omitempty"` // the highest token of those groups, which their consumers may have in their names
	Token    rota.Token `json:"token"`
	Consumer string     `json:"consumer"`
	Stream   time.Time  `json:"stream"`           // when the stream was created: a new stream of the same name counts from 1 again
	Start    uint64     `json:"start"`            // sequence of the consumer's first message
	Former   string     `json:"former,omitempty"` // the consumer it has replaced, which may still exist
	Coming   string     `json:"coming,omitempty"` // the consumer that is about to replace it; noted before its creation, so that the next owner finds it
	Stray    string     `json:"stray,omitempty"`  // a noted consumer that was not found; the request to create it may still be in flight
	Released bool       `json:"released"`         // its last owner has settled all messages it got and will not pull again

	// Notes of the last owner for the next.
	Next        uint64        `json:"next,omitempty"`         // number of the next delivery; 0 for a work queue, where the next owner asks the broker
	Back        bool          `json:"back,omitempty"`         // deliveries from Next on were given back, unsettled
	Reply       string        `json:"reply,omitempty"`        // the reply subject of some delivery
	Each        time.Duration `json:"each,omitempty"`         // recent average of the time that a message took
	Settled     uint64        `json:"settled,omitempty"`      // sequence of the last settled message; 0 for a work queue
	SettledTime int64         `json:"settled_time,omitempty"` // of that message, in nanoseconds since 1970
	Prefetch    int           `json:"prefetch,omitempty"`     // the most messages that the consumer was created for
	Paced       bool          `json:"paced,omitempty"`        // its limit is that for slow messages, or may be
}

// Metadata of our consumers.
const (
	metaGroup   = "rota.group"
	metaDurable = "rota.durable"
	metaToken   = "rota.token"
)

const (
	codeNoConsumer   = 10014
	codeMaxConsumers = 10026 // the stream, or the account, has as many consumers as it permits
	codeNotUnique    = 10100 // a work queue already has a consumer of the subject
)

// ackTime is the AckWait of our consumers. It is so long that the broker never
// redelivers by timeout, which would only break the order: an owner retries a message
// in place, and the consumer of a former owner is removed.
const ackTime = 7 * 24 * time.Hour

// noteTime is the timeout of a write of a note in memory. The server does not answer one that
// it got just when somebody deleted the bucket; whether it was written need not be known.
const noteTime = 2 * time.Second

// consumerInfo has those fields of JetStream's answer about a consumer that are used
// here. Decoding all of them would take longer than the rest of an attach.
type consumerInfo struct {
	answer
	Name   string `json:"name"`
	Config struct {
		FilterSubject  string            `json:"filter_subject"`
		FilterSubjects []string          `json:"filter_subjects"`
		Metadata       map[string]string `json:"metadata"`
	} `json:"config"`
	Delivered     pair   `json:"delivered"`
	AckFloor      pair   `json:"ack_floor"`
	NumAckPending int    `json:"num_ack_pending"`
	NumPending    uint64 `json:"num_pending"`
	NumWaiting    int    `json:"num_waiting"` // pulls
	PushBound     bool   `json:"push_bound"`
}

type pair struct {
	Consumer uint64 `json:"consumer_seq"`
	Stream   uint64 `json:"stream_seq"`
}

// A claim is a consumer that this ownership may use.
type claim struct {
	note
	reader    *reader
	key       string   // of both notes
	diskRev   rota.Rev // of the note on disk
	memoryRev rota.Rev // of the note in memory
	next      uint64   // number of the next delivery
	settled   mark     // the last settled message, as far as it is known
	given     pair     // the last delivery that was given back, if there are any
	floor     uint64   // sequence of the last settled message then
	all       bool     // acknowledging a message acknowledges all before it
}

// noteKey returns the key of a partition's notes, and the short hash that the names of
// its consumers contain. The prefix post is kept for the notes of earlier versions.
func (s *source) noteKey(r *reader, partition string) (key, short string) {
	sum := sha256.Sum256([]byte(s.set.Stream + "\x00" + r.durable + "\x00" + partition))
	short = hex.EncodeToString(sum[:8])
	return "post/" + hex.EncodeToString(sum[:16]), short
}

// attach returns the consumer to use. If the last owner has released its consumer and
// no message is unacknowledged, it is that one; otherwise a new one that begins after
// the last settled message. The old consumer is then removed, so pulls and
// acknowledgements of the former owner have no effect.
func (s *source) attach(ctx context.Context, own rota.Ownership) (*claim, error) {
	r := s.reader.Load()
	if r == nil {
		return nil, errUnbound
	}
	if why := unfit(own.Partition()); why != "" { // an order has added it, or an earlier version has discovered it
		return nil, fmt.Errorf("rotanats: partition %.80q %s: remove it from the group", own.Partition(), why)
	}
	f, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := own.Check(); err != nil {
		return nil, err
	}
	c, err := s.claim(ctx, r, own, f)
	if code(err) == codeNoStream || errors.Is(err, errOtherStream) {
		s.forget()
	}
	return c, err
}

// claim is one attempt to attach. Once our token is in the note in memory, no owner with
// a lower token can use or replace the consumer, and no owner takes it for released.
// The last owner's Next needs no check: if the broker has delivered more messages, the
// next delivery or heartbeat shows a gap, and the consumer is replaced.
func (s *source) claim(ctx context.Context, r *reader, own rota.Ownership, f *facts) (*claim, error) {
	key, short := s.noteKey(r, own.Partition())
	c := &claim{reader: r, key: key, all: !f.queue}
	inMemory, rev, ours, err := s.note(ctx, s.memoryNotes, own, c)
	// If the server refuses access to the bucket in memory, treat it as empty: the
	// consumer is replaced.
	if err != nil && !refusedBy(err) {
		return nil, err
	}
	c.memoryRev = rev
	c.settled = inMemory.mark().later(s.marks.get(own))
	if inMemory.Prefetch < s.set.Prefetch { // its limit for unacknowledged messages would slow us down
		inMemory.Released = false
	}
	if !ours {
		return c, s.firstClaim(ctx, own, c, short, inMemory, f)
	}
	if inMemory.Released && inMemory.Next > 0 {
		noted, err := s.reuse(ctx, own, c, inMemory)
		if noted || err != nil {
			return c, err
		}
		inMemory.Released = false
	}
	// The write and the read run at the same time: when many partitions attach at
	// once, every further round trip shows.
	var info *consumerInfo
	read := make(chan error, 1)
	go func() {
		var err error
		if inMemory.Released {
			info, err = s.info(ctx, inMemory.Consumer)
		} else {
			info, err = s.former(ctx, own, c)
		}
		read <- err
	}()
	noted, err := s.enter(ctx, own, c, inMemory)
	if err := cmp.Or(err, <-read); err != nil {
		return nil, err
	}
	if inMemory.Released {
		if noted && info != nil && info.NumAckPending == 0 {
			c.note, c.next = inMemory, info.Delivered.Consumer+1
			return c, nil
		}
		if info, err = s.former(ctx, own, c); err != nil {
			return nil, err
		}
	}
	return c, s.replace(ctx, own, c, short, info)
}

// reuse makes c the consumer of the last owner. If that has given deliveries back, the broker
// is asked which: at the same time, since a hand-over waits for both.
func (s *source) reuse(ctx context.Context, own rota.Ownership, c *claim, n note) (noted bool, err error) {
	var info *consumerInfo
	read := make(chan error, 1)
	if !n.Back {
		read <- nil
	} else {
		go func() {
			var err error
			info, err = s.info(ctx, n.Consumer)
			read <- err
		}()
	}
	noted, err = s.enter(ctx, own, c, n)
	if err := cmp.Or(err, <-read); err != nil || !noted {
		return false, err
	}
	if n.Back {
		var fits bool
		if c.given, fits = n.given(info); !fits {
			return false, nil
		}
		c.floor = info.AckFloor.Stream
	}
	c.note, c.next = n, n.Next
	return true, nil
}

// firstClaim is claim without a note in memory that our group has written. The note on
// disk may be another group's, so it is read before anything is written: otherwise, after
// the server has lost its memory, a group that is refused by the note on disk would have
// entered its token in memory and kept the rightful group out.
func (s *source) firstClaim(ctx context.Context, own rota.Ownership, c *claim, short string, inMemory note, f *facts) error {
	info, err := s.former(ctx, own, c)
	if err != nil {
		return err
	}
	if c.diskRev == 0 && c.all { // on a work queue JetStream itself refuses a second consumer
		left, err := s.startsAnew(ctx, c.reader, own.Partition())
		if err != nil {
			return err
		}
		if info, err = s.inherit(ctx, own, c, f, left); err != nil {
			return err
		}
	}
	if c.diskRev == 0 && info == nil && s.set.After != "" {
		if err := s.follow(ctx, own, c, f); err != nil {
			return err
		}
	}
	if _, err := s.enter(ctx, own, c, inMemory); err != nil {
		return err
	}
	return s.replace(ctx, own, c, short, info)
}

// inherit makes c continue after the consumers that the group has of a partition without
// a note: somebody has deleted the notes. The one with the highest ack floor counts, and
// the others are removed.
func (s *source) inherit(ctx context.Context, own rota.Ownership, c *claim, f *facts, left []leftover) (best *consumerInfo, err error) {
	var others []string
	for _, l := range left {
		if l.token > own.Token() && !c.reader.others(l.group) {
			return nil, fmt.Errorf("rotanats: %s is consumed under token %d: %w", own.Partition(), l.token, rota.ErrLost)
		}
		if c.reader.others(l.group) {
			c.Before = max(c.Before, l.token)
		}
		info, err := s.info(ctx, l.name) // the list may be stale
		switch {
		case err != nil:
			return nil, err
		case info == nil:
		case best == nil || info.AckFloor.Stream > best.AckFloor.Stream:
			if best != nil {
				others = append(others, best.Name)
			}
			best = info
		default:
			others = append(others, info.Name)
		}
	}
	if best == nil {
		return nil, nil
	}
	own.Tell("note-lost", fmt.Sprintf("it had no note in bucket %s: going on after message %d, as consumer %s knows", s.diskNotes.name, best.AckFloor.Stream, best.Name))
	c.Consumer, c.Stream = best.Name, f.created
	for _, name := range others {
		if _, err := s.remove(ctx, own, name); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// enter writes our token into the note in memory. If the server refuses that, for lack
// of memory or of a right, attach goes on without the note: this owner and the next one
// replace the consumer.
func (s *source) enter(ctx context.Context, own rota.Ownership, c *claim, n note) (noted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	n.Token, n.Released = own.Token(), false
	err = s.record(ctx, s.memoryNotes, own, c, n, &c.memoryRev)
	if refusedBy(err) {
		s.set.Log.Debug("not noted in memory", "partition", own.Partition(), "token", own.Token(), "err", err)
		return false, nil
	}
	return err == nil, err
}

// note reads a note. It returns an empty one if there is none, and an error if another
// group or an owner with a higher token has written it. ours tells whether our group has
// written it.
func (s *source) note(ctx context.Context, from *store, own rota.Ownership, c *claim) (n note, rev rota.Rev, ours bool, err error) {
	e, err := from.Get(ctx, c.key)
	switch {
	case errors.Is(err, rota.ErrNotFound):
		return n, 0, false, nil
	case err != nil:
		return n, 0, false, err
	}
	r := c.reader
	_, short := s.noteKey(r, own.Partition())
	n, wrong := readNote(e.Value, r, short, own.Token(), time.Now())
	if err := r.mayUse(&n); err != nil {
		return n, 0, false, err
	}
	for _, w := range wrong {
		own.Tell("note-changed", fmt.Sprintf("its note %s in bucket %s was changed by somebody else: %s", c.key, from.name, w))
	}
	ours = n.Group == r.group
	r.adopt(&n)
	if n.Token > own.Token() {
		return n, 0, false, fmt.Errorf("rotanats: %s is consumed under token %d, by the note %s in bucket %s; if no other member of group %s reads it, remove that note: %w",
			own.Partition(), n.Token, c.key, from.name, r.group, rota.ErrLost)
	}
	return n, e.Rev, ours, nil
}

// former reads the note on disk into c, and returns the broker's answer about the
// consumer it names, nil if that is gone.
func (s *source) former(ctx context.Context, own rota.Ownership, c *claim) (*consumerInfo, error) {
	var err error
	if c.note, c.diskRev, _, err = s.note(ctx, s.diskNotes, own, c); err != nil || c.Consumer == "" {
		return nil, err
	}
	return s.info(ctx, c.Consumer)
}

// info returns the broker's answer about a consumer, nil if there is none of that name.
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

// replace creates a new consumer instead of the one that c names. On a work queue the
// old one is removed first, since JetStream refuses a second consumer of the subject.
// Elsewhere it is removed last: until the new note is written, its ack floor is the only
// record of what was settled.
func (s *source) replace(ctx context.Context, own rota.Ownership, c *claim, short string, old *consumerInfo) error {
	name := consumerName(c.reader.durable, short, own.Token())
	announced := make(chan error, 1)
	go func() { announced <- s.announce(ctx, own, c, name) }()
	f, err := s.readFacts(ctx)
	if err := cmp.Or(err, <-announced); err != nil {
		return err
	}
	c.all = !f.queue
	former := c.Consumer
	next := note{From: c.From, Before: c.Before, Token: own.Token(), Former: former, Stray: c.Stray, Consumer: name, Stream: f.created, Start: 1, Prefetch: s.set.Prefetch}
	if !f.queue {
		if next.Start, err = s.start(ctx, own, c, f, old); err != nil {
			return err
		}
	}
	cfg := jetstream.ConsumerConfig{
		Name: name, Durable: name, Description: "rota: " + own.Partition(), FilterSubject: own.Partition(),
		AckPolicy: jetstream.AckAllPolicy, AckWait: ackTime, MaxDeliver: -1, MaxAckPending: pending(s.set.Prefetch), MaxWaiting: 16,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: next.Start,
		Metadata: map[string]string{metaGroup: c.reader.group, metaDurable: c.reader.durable, metaToken: strconv.FormatUint(uint64(own.Token()), 10)},
	}
	if f.queue { // settled messages are gone, so a new consumer begins with the first that is left
		cfg.AckPolicy, cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.AckExplicitPolicy, jetstream.DeliverAllPolicy, 0
		if _, err := s.remove(ctx, own, former); err != nil {
			return err
		}
	}
	err = s.create(ctx, c.reader, own, &cfg)
	if code(err) == codeMaxConsumers && former != "" && !f.queue {
		if err = s.makeRoom(ctx, own, c, next); err == nil {
			err = s.create(ctx, c.reader, own, &cfg)
		}
	}
	if code(err) == codeMaxConsumers {
		err = s.full(ctx, err)
	}
	if err == nil && next.Start > 1 && !f.queue {
		err = s.sameStream(ctx, f)
	}
	if err == nil {
		err = s.record(ctx, s.diskNotes, own, c, next, &c.diskRev)
	}
	if err != nil {
		s.discard(name)
		return err
	}
	c.note, c.next = next, 1
	if !f.queue {
		if _, err := s.remove(ctx, own, former); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom removes the old consumer before the new one is created, in a stream that
// permits no more consumers than there are partitions. What was settled is noted on disk
// first: the old consumer's ack floor is the only other record of it.
func (s *source) makeRoom(ctx context.Context, own rota.Ownership, c *claim, next note) error {
	next.Coming, next.Consumer = next.Consumer, ""
	if err := s.record(ctx, s.diskNotes, own, c, next, &c.diskRev); err != nil {
		return err
	}
	c.note = next
	_, err := s.remove(ctx, own, next.Former)
	return err
}

// start returns the sequence of the first message of a new consumer. If what was settled
// lies beyond the end of the stream, the end is read again before the number counts as
// wrong: a server that has just become the stream's leader may answer with a stale end.
func (s *source) start(ctx context.Context, own rota.Ownership, c *claim, f *facts, old *consumerInfo) (uint64, error) {
	noted, floor := c.Start, uint64(0)
	if old != nil {
		floor = old.AckFloor.Stream
	}
	if !c.Stream.Equal(f.created) { // another stream, or there was no note
		noted, floor = 0, 0
	}
	for tries := 1; ; tries++ {
		from, ok := begin(noted, floor, f.last)
		switch beyond := c.settled.stream.Equal(f.created) && c.settled.sequence > f.last; {
		case ok && (!beyond || tries == 3):
			after, err := s.afterMark(ctx, own, c.settled, f, from)
			return max(from, after), err
		case tries == 3:
			own.Tell("stream-went-back", fmt.Sprintf("messages were settled up to %d, but stream %s ends at %d: consuming from message %d on",
				max(max(noted, 1)-1, floor), s.set.Stream, f.last, from))
			return from, nil
		}
		select {
		case <-time.After(gapTime):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		var err error
		if f, err = s.readFacts(ctx); err != nil {
			return 0, err
		}
	}
}

// announce notes the name of a consumer on disk before the consumer is created. If the
// answer to the creation is lost, or the owner dies before it has noted the consumer as
// the current one, the next attempt removes it, by this owner or the next.
//
// announce also removes what earlier attempts have left. The server handles requests
// concurrently, so it may create a consumer after it was asked to remove it: a name that
// was not found is removed once more by the attempt after this one.
func (s *source) announce(ctx context.Context, own rota.Ownership, c *claim, name string) error {
	announcement := c.note
	announcement.Token, announcement.Former, announcement.Stray, announcement.Coming = own.Token(), "", "", name
	for _, leftover := range []string{c.Former, c.Stray, c.Coming} {
		found, err := s.remove(ctx, own, leftover)
		if err != nil {
			return err
		}
		if leftover == c.Coming && !found {
			announcement.Stray = leftover
		}
	}
	if err := s.record(ctx, s.diskNotes, own, c, announcement, &c.diskRev); err != nil {
		return err
	}
	c.note = announcement
	return nil
}

// create creates a consumer. A work queue allows one consumer per subject. If it refuses
// ours, consumers of former owners that no note names are removed: older versions could
// leave such a consumer behind, and so can a former owner's late request to create one.
// A consumer of another group or application is named.
func (s *source) create(ctx context.Context, r *reader, own rota.Ownership, cfg *jetstream.ConsumerConfig) error {
	verb := "CONSUMER.CREATE." + s.set.Stream + "." + cfg.Name + "." + own.Partition()
	q := map[string]any{"stream_name": s.set.Stream, "config": cfg, "action": "create"}
	var made consumerInfo
	err := s.askIf(ctx, own.Check, verb, q, &made)
	if code(err) == codeNotUnique {
		if err := s.clearWay(ctx, r, own); err != nil {
			return err
		}
		err = s.askIf(ctx, own.Check, verb, q, &made)
	}
	if code(err) == codeNotUnique {
		err = cmp.Or(s.inTheWay(ctx, r, own), err)
	}
	if err != nil && !hopeless(err) {
		return fmt.Errorf("rotanats: create a consumer of %s: %w", own.Partition(), err)
	}
	return err
}

// clearWay removes every consumer of the partition and our durable, unless one was
// created by our group under a higher token than ours.
func (s *source) clearWay(ctx context.Context, r *reader, own rota.Ownership) error {
	var old []string
	var highest uint64
	err := s.eachConsumer(ctx, r, func(c *consumerInfo, token uint64) {
		if c.Config.FilterSubject != own.Partition() {
			return
		}
		old = append(old, c.Name)
		if !r.others(c.Config.Metadata[metaGroup]) {
			highest = max(highest, token)
		}
	})
	if err != nil {
		return err
	}
	if highest > uint64(own.Token()) {
		return fmt.Errorf("rotanats: %s is consumed under token %d: %w", own.Partition(), highest, rota.ErrLost)
	}
	for _, name := range old {
		s.set.Log.Info("removing a consumer that no note names", "partition", own.Partition(), "token", own.Token(), "consumer", name)
		if _, err := s.remove(ctx, own, name); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a consumer that we have created, or may have, and will not use. Its
// name is unique and no other owner uses it, so the lease is not checked. The answer is
// not awaited: the partition may have another owner by now, and the note on disk tells
// the next owner to remove the consumer.
func (s *source) discard(consumer string) {
	if nc, _, wait, err := s.link.look(); wait == nil && err == nil {
		nc.Publish(s.api("CONSUMER.DELETE."+s.set.Stream+"."+consumer), nil)
	}
}

var errOtherStream = errors.New("rotanats: the stream was deleted and created again meanwhile")

// sameStream checks that the stream is still the one whose sequence numbers we use.
func (s *source) sameStream(ctx context.Context, f *facts) error {
	now, err := s.readFacts(ctx)
	if err == nil && !now.created.Equal(f.created) {
		err = errOtherStream
	}
	return err
}

// record writes a note by compare-and-set at a revision, which it updates. A conflict
// means that another owner has written the note.
func (s *source) record(ctx context.Context, to *store, own rota.Ownership, c *claim, n note, at *rota.Rev) error {
	n.Group = c.reader.group
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return own.Settle(func() error {
		rev, err := to.Put(ctx, c.key, text, *at)
		if err != nil {
			return fmt.Errorf("write the note of %s: %w", own.Partition(), err)
		}
		*at = rev
		return nil
	})
}

// remove removes a consumer. found tells whether there was one.
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

// acknowledged reads the answer to a publication: nil if a stream has stored it.
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
