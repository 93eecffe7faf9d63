package rotarabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/setback"
)

// Source consumes queues of RabbitMQ, each of which is a partition, at an address like
//
//	amqp://user:password@host:5672/vhost?queues=orders.{0..63}&declare=quorum
//	amqps://host1,host2?queues=orders.*
//
// Queues are named one by one, as a range, or by a pattern, which the management API is asked
// for. With declare=classic or declare=quorum they are declared.
//
// Messages of a queue are handled in order, also after its owner was killed: the broker lets
// one consumer at a time in, and gives what was not settled to the next one first. A queue
// where it does not is refused.
//
// A queue has one group of readers; another group is refused by name.
func Source(url string, opts ...Option) rota.Source {
	l := newLink(url, opts)
	return &source{link: l, manager: newManager(l.set), slots: make(chan struct{}, mostAttaching), letters: newLetterBox(l)}
}

// mostAttaching limits how many partitions attach at the same time.
const mostAttaching = 32

type source struct {
	*link
	manager  *manager
	slots    chan struct{} // a semaphore: one element per partition that attaches
	setbacks setback.Book
	letters  *letterBox

	mu    sync.Mutex
	group string               // "" until Bind
	lost  map[string]time.Time // when queues were last found to be gone
	shown time.Time            // of the answer that Partitions returned last
	vouch time.Time            // and of the last one that ListsAll has vouched for
	known map[string]bool      // queues that Publish has declared
	early map[string]*early    // channels of queues that are to be consumed soon
}

// Partitions returns the queues that the URL names, and those that match its patterns.
func (s *source) Partitions(ctx context.Context) ([]rota.Partition, error) {
	if s.bad != nil {
		return nil, permanent{s.bad}
	}
	if _, err := s.consuming.conn(ctx); err != nil { // every member needs it
		return nil, fmt.Errorf("rotarabbit: %w", err)
	}
	names, err := s.found(ctx)
	var out []rota.Partition
	for _, name := range names {
		out = append(out, rota.Partition{Name: name})
	}
	return out, err
}

// found returns the names of the URL, and those that match its patterns.
func (s *source) found(ctx context.Context) ([]string, error) {
	names := slices.Clone(s.set.queues.names)
	if len(s.set.queues.patterns) == 0 {
		return names, nil
	}
	l, err := s.manager.list(ctx, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("rotarabbit: queues of %v: %w", s.set, err)
	}
	s.mu.Lock()
	s.shown = l.at
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.queues)) {
		if s.set.queues.matches(name) && name != s.set.dead && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// ListsAll implements rota.Lister: a listing by patterns has all queues of the broker. It is
// true once of each answer of the API: one that Partitions returns again proves nothing more
// of a queue that it lacks. Names in the URL stay partitions whether the queues exist or not.
func (s *source) ListsAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.shown.After(s.vouch)
	s.vouch = s.shown
	return all
}

// Consume attaches to the queue and delivers its messages. When the connection or the queue
// is lost it attaches again, with back-off.
func (s *source) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	err := s.setbacks.Try(ctx, own.Partition(), own.Stop(), func() (bool, error) { return s.consume(ctx, own, deliver) }, func(err error, failing bool) setback.Verdict {
		switch {
		case s.over(err):
			return setback.Over
		case errors.Is(err, rota.ErrPermanent) || failing || refused(err):
			return setback.GiveUp
		}
		s.set.Log.Debug("attach again", "partition", own.Partition(), "token", own.Token(), "err", err)
		return setback.Again
	})
	if err != nil && ctx.Err() == nil && !s.over(err) {
		err = fmt.Errorf("rotarabbit: %w", err)
	}
	return err
}

// over tells whether no further attempt to consume could help after an error.
func (s *source) over(err error) bool { return errors.Is(err, rota.ErrLost) || s.bad != nil }

// consume attaches once and delivers until it fails or stops. worked tells whether it was of
// use: messages were settled, or it was attached for a while.
func (s *source) consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) (worked bool, err error) {
	p, err := s.attach(ctx, own)
	if p == nil || err != nil {
		return false, err
	}
	own.Started()
	begun := time.Now()
	err = p.run(ctx, deliver)
	return p.settled || time.Since(begun) > setback.Away, err
}

// The pause between two attempts to get into a queue that somebody else consumes, which
// doubles, and the longest. The former owner may be frozen, and the broker notice it late.
const (
	firstAsk   = 10 * time.Millisecond
	longestAsk = 500 * time.Millisecond
)

// attach begins to consume a queue. While another consumer has it, attach asks again and
// again, and reports that once it has lasted longer than the broker needs to notice a frozen
// owner. It returns nil if the ownership stops meanwhile.
func (s *source) attach(ctx context.Context, own rota.Ownership) (*pump, error) {
	pause, since, reported := firstAsk, time.Now(), time.Time{}
	for {
		select {
		case s.slots <- struct{}{}:
		case <-own.Stop():
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		p, err := s.tryAttach(ctx, own)
		<-s.slots
		if !errors.Is(err, errInUse) {
			return p, err
		}
		if now := time.Now(); now.Sub(since) > s.patience() && now.Sub(reported) > tellEvery {
			reported = now
			own.Tell(conditionForeign, fmt.Sprintf("another consumer has this queue, which no member of the group is by now; it is waited for (%v)", err))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-own.Stop():
			return nil, nil
		case <-time.After(pause):
			pause = min(2*pause, longestAsk)
		}
	}
}

// tellEvery is how often a condition that lasts is reported: often enough that it stays in
// the status.
const tellEvery = 20 * time.Second

// patience is how long the broker may need to notice that the former owner is frozen: after
// two heartbeats that it has missed.
func (s *source) patience() time.Duration { return 3*s.set.heartbeat + time.Second }

// errInUse means that another consumer has the queue.
var errInUse = errors.New("the queue is in use")

// tryAttach consumes the queue by a channel, unless somebody else does.
func (s *source) tryAttach(ctx context.Context, own rota.Ownership) (p *pump, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	queue := own.Partition()
	var f facts
	var consumers int
	ch := s.prepared(ctx, queue)
	defer func() {
		if p == nil && ch != nil {
			closeChannel(ch)
		}
		if code(err) == amqp.NotFound {
			s.lose(queue)
		}
	}()
	if ch != nil {
		f, consumers, err = s.find(ctx, ch, queue)
	} else {
		ch, f, consumers, err = s.open(ctx, queue)
	}
	if err != nil {
		return nil, err
	}
	if f.fence() == single && consumers > 0 {
		return nil, fmt.Errorf("%w: it has %d consumers", errInUse, consumers)
	}
	s.warn(own, f)
	p, err = s.newPump(ctx, own, ch, f)
	switch {
	case code(err) == amqp.AccessRefused && f.fence() == exclusive && inExclusiveUse(err):
		return nil, fmt.Errorf("%w: %w", errInUse, plain(err))
	case err != nil:
		return nil, queueError(err, queue, "consume queue "+queue)
	}
	return p, nil
}

// claimAgain removes the note of a former group, if the URL says so. The attempt fails all
// the same, and the next one finds no note.
func (s *source) claimAgain(ctx context.Context, queue string, err error) error {
	var by *taken
	if !errors.As(err, &by) || s.set.takeover == "" || by.by != s.set.takeover {
		return err
	}
	ch, derr := s.channel(ctx, &s.consuming)
	if derr != nil {
		return derr
	}
	defer closeChannel(ch)
	if derr := s.inherit(ctx, ch, queue); derr != nil {
		return plain(derr)
	}
	return errTakenOver
}

// errTakenOver makes Consume attach again at once.
var errTakenOver = errors.New("the queue was taken over from its former group")

// String names the source without secrets.
func (s *source) String() string { return fmt.Sprintf("%v", s.set) }

// Format keeps secrets out of every verb.
func (s *source) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
