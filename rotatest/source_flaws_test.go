package rotatest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// TestSourceSuiteBites gives the suite sources that each have one flaw.
func TestSourceSuiteBites(t *testing.T) {
	bitten := map[string]bool{}
	cases := slices.Concat(sourceCases, deadCases, refusalCases, listingCases, foreignCases)
	for _, f := range sourceFlaws {
		bitten[f.by] = true
		t.Run(f.name, func(t *testing.T) {
			i := slices.IndexFunc(cases, func(c sourceCase) bool { return c.name == f.by })
			if i < 0 {
				t.Fatalf("no case %q", f.by)
			}
			bites(t, f.says, func(tb testing.TB) {
				src := &oddSource{MemSource: NewMemSource(32, "q0", "q1", "q2"), flaw: f.name, fetched: map[string]time.Time{}}
				if f.name == oneByOne {
					src.batch = 1
				}
				cases[i].run(newSourceTest(tb, oddBroker{memBroker{src.MemSource}, src}))
			})
		})
	}
	for _, c := range cases {
		if !bitten[c.name] {
			t.Errorf("nothing shows that %q can fail", c.name)
		}
	}
}

const (
	listsLess    = "it does not list everything"
	listsGone    = "it lists what is gone"
	backwards    = "it delivers the newest first"
	silent       = "it never says that it has started"
	sluggish     = "it takes its time to begin"
	noPosition   = "it gives all messages one position"
	newIDs       = "it gives a message another ID each time"
	cuts         = "it cuts large messages"
	skipsEmpty   = "it leaves out empty messages"
	settlesAll   = "it settles what it should give back"
	settlesNone  = "it does not settle what was done before a stop"
	neverStops   = "it does not notice a stop while it waits"
	neverEnds    = "it does not notice the end of its ctx while it waits"
	opensOnce    = "it can be opened once only"
	settlesFirst = "it settles before it delivers"
	hides        = "it hides for a while what a former owner fetched"
	toTheEnd     = "it puts what was not done at the end of the queue"
	settlesLost  = "it settles what was done though it is lost"
	oneByOne     = "it settles without asking"
	rewinds      = "it sets the queue back to where it was when it was lost"
	exclusive    = "it lets nobody else in before it has returned"
	drops        = "it drops what is dead"
	dropsRest    = "it drops what comes behind the dead"
	keepsDead    = "it delivers the dead again"
	shares       = "it lets two groups share the messages"
	nameless     = "it refuses a second group without a name"
	noReason     = "it does not keep the reason of a dead letter"
	mixesUp      = "it lists the letters of all partitions for one"
	untold       = "it stores dead letters without telling"
	dropsWrong   = "it drops the oldest letter"
	dropsNothing = "it does not drop a letter"
	loses        = "it drops a letter instead of renewing it"
	readsOnce    = "it drops letters when they are read"
	deafens      = "it does not look at the answer to a settlement"
	deafToDead   = "it settles a dead letter though it was refused"
	hot          = "it tries what was refused again at once"
	mute         = "it waits for a foreign consumer without a word"
	polite       = "it lets others in between two batches"
	unaware      = "it does not notice that its partition was deleted"
	offended     = "it never asks again after a refusal"
)

var sourceFlaws = []struct{ name, by, says string }{
	{listsLess, "partitions are listed", "the source lists"},
	{listsGone, "a removed partition is let go, and comes back under a higher token", "still not: q0 is removed"},
	{backwards, "messages arrive in order", "begins with message 32"},
	{silent, "messages arrive in order", "never called Started"},
	{sluggish, "messages arrive in order", "after its grant"},
	{noPosition, "messages arrive in order", "position"},
	{cuts, "any message is kept", "want"},
	{skipsEmpty, "any message is kept", "all messages are handled"},
	{settlesNone, "a stop loses nothing and repeats nothing", "are done"},
	{settlesAll, "what a stop gives back goes to the next owner", "all messages are handled"},
	{settlesNone, "a stop waits for the message in hand and no more", "are done"},
	{neverStops, "an idle partition stops at once", "leaving took"},
	{neverEnds, "an idle partition stops at once", "abort"},
	{opensOnce, "a source that can be opened is open then", "Open: it is open"},
	{settlesFirst, "what a lost lease left goes to the next owner, in order", "all messages are handled"},
	{hides, "what a lost lease left goes to the next owner, in order", "begins with message 33"},
	{toTheEnd, "what a lost lease left goes to the next owner, in order", "begins with message 33"},
	{newIDs, "what a lost lease left goes to the next owner, in order", "has ID"},
	{settlesLost, "a former owner settles nothing", "those too that a was late for"},
	{oneByOne, "a former owner settles nothing", "those too that a was late for"},
	{rewinds, "a former owner that hangs is in nobody's way", "got message 4 after 300"},
	{exclusive, "a former owner that hangs is in nobody's way", "though a hangs"},
	{drops, "what fails too often is dead-lettered", "all dead letters are there"},
	{dropsRest, "what fails too often is dead-lettered", "message 12 is handled"},
	{keepsDead, "what fails too often is dead-lettered", "message 12 is handled"},
	{shares, "a second group reads independently or is refused by name", "group has"},
	{nameless, "a second group reads independently or is refused by name", "which does not name groups"},
	{noReason, "a dead letter is read and dropped", "says \"\""},
	{mixesUp, "a dead letter is read and dropped", "want [2 4]"},
	{untold, "a dead letter is read and dropped", "was told 0 times"},
	{dropsNothing, "a dead letter is read and dropped", "was dropped; left are"},
	{dropsNothing, "a replayed letter goes when it was handled", "all letters are gone"},
	{dropsWrong, "a dead letter is read and dropped", "was dropped; left are"},
	{loses, "a replayed letter that fails again stays", "after 2 has failed again"},
	{readsOnce, "a replay that is cut short loses nothing", "a is at the letter"},
	{deafens, "a refused settlement is told, paced and ends by itself", "the refusal is told"},
	{hot, "a refused settlement is told, paced and ends by itself", "while it was refused"},
	{deafToDead, "a refused dead letter is told, paced and ends by itself", "the refusal is told"},
	{hot, "a refused dead letter is told, paced and ends by itself", "while it was refused"},
	{mute, "a foreign consumer is reported, and waited for", "the foreign consumer is reported"},
	{polite, "a foreign consumer that comes later is in nobody's way", "all messages are handled"},
	{unaware, "a partition that was deleted is reported, and consumed when it is back", "the deletion is reported"},
	{offended, "a partition that was deleted is reported, and consumed when it is back", "all messages are handled"},
	{hot, "a right that was withdrawn is reported, and its end noticed", "times in 5s to consume it"},
	{offended, "a right that was withdrawn is reported, and its end noticed", "all messages are handled"},
	{cuts, "a message of ten megabytes is kept", "want"},
}

type oddBroker struct {
	memBroker
	src rota.Source
}

func (b oddBroker) Source() rota.Source { return b.src }

// oddSource is a MemSource with one flaw.
type oddSource struct {
	*MemSource
	flaw    string
	inUse   sync.Map
	ids     int
	fetched map[string]time.Time // by ID
	opened  atomic.Bool
}

func (s *oddSource) Open(context.Context) error {
	if s.opened.Swap(true) && s.flaw == opensOnce {
		return errors.New("it is open")
	}
	return nil
}

func (s *oddSource) Bind(group string) error {
	err := s.MemSource.Bind(group)
	switch {
	case err == nil:
		return nil
	case s.flaw == nameless:
		return errors.New("this source has another group")
	case s.flaw == shares:
		return nil
	}
	return err
}

func (s *oddSource) Partitions(ctx context.Context) ([]rota.Partition, error) {
	list, err := s.MemSource.Partitions(ctx)
	switch {
	case s.flaw == listsLess:
		list = list[1:]
	case s.flaw == listsGone && list[0].Name != "q0":
		list = append(list, rota.Partition{Name: "q0"})
	}
	return list, err
}

func (s *oddSource) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	if _, refused := s.inUse.Load(own.Partition()); refused && s.flaw == offended {
		return s.never(ctx, own)
	}
	err := s.consume(ctx, own, deliver)
	if err != nil && s.flaw == offended {
		s.inUse.Store(own.Partition(), true)
	}
	return err
}

func (s *oddSource) consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	q, err := s.attachOddly(ctx, own)
	if err != nil {
		return err
	}
	defer s.detach(q)
	if s.flaw == exclusive {
		if _, taken := s.inUse.LoadOrStore(own.Partition(), true); taken {
			return errors.New("somebody has it")
		}
		defer s.inUse.Delete(own.Partition())
	}
	if s.flaw != silent {
		own.Started()
	}
	if s.flaw == sluggish {
		<-time.After(8 * time.Second)
	}
	for {
		if s.flaw == polite && s.foreign(q) {
			return errForeign
		}
		if err := s.there(own.Partition(), q); err != nil {
			if s.flaw == unaware {
				return s.never(ctx, own)
			}
			return err
		}
		msgs, arrived := s.fetch(q)
		if len(msgs) == 0 {
			if end, err := s.idle(ctx, own, arrived); end {
				return err
			}
			continue
		}
		if end, err := s.round(ctx, own, q, msgs, deliver); end {
			return err
		}
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
	}
}

// attachOddly is attach with a flaw.
func (s *oddSource) attachOddly(ctx context.Context, own rota.Ownership) (*queue, error) {
	q, err := s.attach(own)
	switch {
	case err == nil && s.flaw == polite:
		s.detach(q)
		s.mu.Lock()
		q.running = -1 // as if it was not there; detach makes it less
		s.mu.Unlock()
	case errors.Is(err, errForeign) && s.flaw == mute:
		return nil, s.never(ctx, own)
	case err != nil && s.flaw == hot:
		own.Progress(1)
	}
	return q, err
}

func (s *oddSource) foreign(q *queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return q.foreign
}

// never waits until somebody asks it to end.
func (s *oddSource) never(ctx context.Context, own rota.Ownership) error {
	select {
	case <-own.Stop():
	case <-ctx.Done():
	}
	return errRefused
}

func (s *oddSource) idle(ctx context.Context, own rota.Ownership, arrived chan struct{}) (end bool, err error) {
	stop, done := own.Stop(), ctx.Done()
	switch s.flaw {
	case neverStops:
		stop = nil
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		done = ctx.Done()
	case neverEnds:
		done = nil
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
	}
	select {
	case <-arrived:
		return false, nil
	case <-stop:
		if s.flaw == neverEnds {
			<-time.After(time.Second)
		}
		return true, nil
	case <-done:
		return true, ctx.Err()
	case <-time.After(s.retry()):
		return false, nil
	}
}

// retry is how long it waits before it looks again although no message has arrived.
func (s *oddSource) retry() time.Duration {
	if s.flaw == hides {
		return time.Second
	}
	return time.Hour
}

func (s *oddSource) fetch(q *queue) ([]rota.Message, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var msgs []rota.Message
	for _, m := range q.msgs {
		if s.flaw == hides && time.Since(s.fetched[m.ID]) < 30*time.Second {
			continue
		}
		if len(msgs) == s.batch {
			break
		}
		s.fetched[m.ID] = time.Now()
		msgs = append(msgs, m)
	}
	return msgs, q.arrived
}

// spoil changes messages before they are delivered.
func (s *oddSource) spoil(msgs []rota.Message) []rota.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	msgs = slices.Clone(msgs)
	for i := range msgs {
		m := &msgs[i]
		switch s.flaw {
		case noPosition:
			m.Position = 1
		case newIDs:
			s.ids++
			m.ID = fmt.Sprint(s.ids)
		case cuts:
			m.Value = m.Value[:min(len(m.Value), 512<<10)]
		}
	}
	switch s.flaw {
	case backwards:
		slices.Reverse(msgs)
	case skipsEmpty:
		msgs = slices.DeleteFunc(msgs, func(m rota.Message) bool { return len(m.Value) == 0 })
	}
	return msgs
}

// round delivers once and settles.
func (s *oddSource) round(ctx context.Context, own rota.Ownership, q *queue, msgs []rota.Message, deliver rota.Deliver) (end bool, err error) {
	if s.flaw == settlesFirst {
		s.settle(q, own.Token(), msgs, nil)
	}
	n, err := deliver(ctx, s.spoil(msgs)...)
	settle := own.Settle
	switch {
	case s.flaw == skipsEmpty:
		n = len(msgs)
	case s.flaw == settlesLost || s.flaw == oneByOne:
		settle = func(f func() error) error { return f() }
	case s.flaw == settlesFirst:
		n = 0
	}
	if errors.Is(err, rota.ErrLost) {
		switch s.flaw {
		case settlesLost:
			s.mu.Lock()
			q.msgs = q.msgs[min(n, len(q.msgs)):] // whatever is at the front now
			s.mu.Unlock()
		case rewinds:
			s.mu.Lock()
			q.msgs = append(slices.Clone(msgs[n:]), q.msgs...)
			s.mu.Unlock()
		case toTheEnd:
			s.mu.Lock()
			q.msgs = append(slices.Clone(q.msgs[len(msgs):]), msgs...)
			s.mu.Unlock()
		}
		return true, err
	}
	dead := errors.Is(err, rota.ErrDead)
	stop := errors.Is(err, rota.ErrStop)
	select {
	case <-own.Stop():
		if s.flaw == settlesNone {
			return true, nil
		}
	default:
	}
	switch {
	case s.flaw == settlesAll && stop, s.flaw == dropsRest && dead:
		n, dead = len(msgs), false
	case s.flaw == drops && dead:
		n, dead = n+1, false
	case s.flaw == keepsDead && dead:
		dead = false
	}
	why := err
	err = settle(func() error { return s.settle(q, own.Token(), msgs[:n], nil) })
	if err == nil && dead && s.flaw == untold {
		l := rota.Letter{Message: msgs[n], Reason: why.Error()}
		l.Message.Partition = own.Partition()
		err = own.Settle(func() error { return s.settle(q, own.Token(), msgs[n:n+1], &l) })
	} else if err == nil && dead {
		err = own.DeadLetter(msgs[n], why, func(l rota.Letter) error { return s.settle(q, own.Token(), msgs[n:n+1], &l) })
	}
	if errors.Is(err, errRefused) {
		switch s.flaw {
		case deafens:
			err = nil
		case deafToDead:
			s.mu.Lock()
			q.msgs = q.msgs[1:]
			s.mu.Unlock()
			err = nil
		case hot:
			own.Progress(1)
		}
	}
	return stop || err != nil, err
}

func (s *oddSource) Letters(ctx context.Context, partition string) iter.Seq2[rota.Letter, error] {
	if s.flaw == mixesUp {
		partition = ""
	}
	return func(yield func(rota.Letter, error) bool) {
		for l, err := range s.MemSource.Letters(ctx, partition) {
			switch s.flaw {
			case noReason:
				l.Reason = ""
			case readsOnce:
				s.MemSource.DropLetter(ctx, l.ID)
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

func (s *oddSource) DropLetter(ctx context.Context, id string) error {
	switch s.flaw {
	case dropsNothing:
		return nil
	case dropsWrong:
		for l := range s.MemSource.Letters(ctx, "") {
			id = l.ID
			break
		}
	}
	return s.MemSource.DropLetter(ctx, id)
}

func (s *oddSource) RenewLetter(ctx context.Context, l rota.Letter) error {
	if s.flaw == loses {
		return s.MemSource.DropLetter(ctx, l.Former)
	}
	return s.MemSource.RenewLetter(ctx, l)
}
