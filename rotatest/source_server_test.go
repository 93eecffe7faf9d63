package rotatest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// TestSourceServerCases shows that a sound source passes the cases for servers, and that
// sources with one flaw do not.
func TestSourceServerCases(t *testing.T) {
	for _, c := range sourceServerCases {
		t.Run(c.name, func(t *testing.T) {
			flaws := awayFlaws[c.name]
			if len(flaws) == 0 {
				t.Error("nothing shows that it can fail")
			}
			run := func(flaw string) func(testing.TB) {
				return func(tb testing.TB) {
					b := &awayBroker{memBroker{NewMemSource(32, "q0", "q1", "q2")}, newAwayServer(), flaw}
					st := newSourceTest(tb, b)
					st.server = b.server
					c.run(st)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				if said := probed(t, run("")); said != "" {
					t.Errorf("a sound source: %s", said)
				}
			})
			for flaw, says := range flaws {
				bites(t, says, run(flaw))
			}
		})
	}
}

const (
	neverBack  = "it never comes back after an outage"
	untoldAway = "it does not report an outage"
	lateStop   = "it waits for a frozen broker although it is to stop"
	lateEnd    = "it waits for a frozen broker although its ctx has ended"
	leaves     = "it leaves out what it had fetched at the outage"
)

// awayFlaws maps case → flaw → complaint of the case.
var awayFlaws = map[string]map[string]string{
	"members go on after the broker was restarted":                {neverBack: "all messages are handled", untoldAway: "the stop is reported", leaves: "are done"},
	"members go on after the broker was killed":                   {neverBack: "all messages are handled", untoldAway: "the kill is reported", leaves: "are done"},
	"members go on after the broker was frozen":                   {neverBack: "all messages are handled", untoldAway: "the freeze is reported"},
	"a stop does not wait for a broker that is frozen":            {lateStop: "leaving took"},
	"a lost lease does not wait for a broker that is frozen":      {lateEnd: "abort"},
	"a member that joins without a broker begins when it is back": {neverBack: "all messages are handled", untoldAway: "that there is no broker is reported"},
}

// awayBroker is a MemSource behind a server that can be away.
type awayBroker struct {
	memBroker
	server *awayServer
	flaw   string
}

func (b *awayBroker) Source() rota.Source {
	return &awaySource{MemSource: b.MemSource, server: b.server, flaw: b.flaw, failed: map[string]bool{}}
}

// awayServer is a Server that has nothing but a state.
type awayServer struct {
	mu      sync.Mutex
	state   string
	changed chan struct{}
}

func newAwayServer() *awayServer { return &awayServer{state: "running", changed: make(chan struct{})} }

func (s *awayServer) become(state string, from ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(from, s.state) {
		return errors.New("it is " + s.state)
	}
	s.state = state
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

func (s *awayServer) now() (state string, changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

func (s *awayServer) Start(context.Context) error { return s.become("running", "stopped") }
func (s *awayServer) Stop(context.Context) error  { return s.become("stopped", "running") }
func (s *awayServer) Kill() error                 { return s.become("stopped", "running", "frozen") }
func (s *awayServer) Freeze() error               { return s.become("frozen", "running") }
func (s *awayServer) Thaw() error                 { return s.become("running", "frozen") }
func (s *awayServer) Snapshot() (Snapshot, error) { return Snapshot{}, errors.ErrUnsupported }
func (s *awayServer) Restore(Snapshot) error      { return errors.ErrUnsupported }

// awaySource is a client of an awayServer.
type awaySource struct {
	*MemSource
	server *awayServer
	flaw   string
	mu     sync.Mutex
	failed map[string]bool
}

var errAway = errors.New("the broker is away")

// answerWithin is how long it waits for a frozen server.
const answerWithin = 3 * time.Second

// reach returns once the server answers, or an error.
func (s *awaySource) reach(ctx context.Context, stop <-chan struct{}) error {
	done, patience := ctx.Done(), time.After(answerWithin)
	switch s.flaw {
	case lateEnd:
		done, patience = nil, nil
	case lateStop:
		stop, patience = nil, nil
	case untoldAway:
		patience = nil
	}
	for {
		state, changed := s.server.now()
		if state == "running" {
			return nil
		}
		if state == "stopped" && s.flaw != untoldAway {
			return errAway
		}
		select {
		case <-changed:
		case <-patience:
			return errAway
		case <-done:
			return ctx.Err()
		case <-stop:
			return errAway
		}
	}
}

func (s *awaySource) Partitions(ctx context.Context) ([]rota.Partition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flaw == neverBack && s.failed[""] {
		return nil, errAway
	}
	if s.flaw != untoldAway {
		if err := s.reach(ctx, nil); err != nil {
			s.failed[""] = true
			return nil, err
		}
	}
	return s.MemSource.Partitions(ctx)
}

func (s *awaySource) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	p := own.Partition()
	s.mu.Lock()
	failed := s.failed[p]
	s.mu.Unlock()
	if failed && s.flaw == neverBack {
		select {
		case <-own.Stop():
		case <-ctx.Done():
		}
		return nil
	}
	err := s.consume(ctx, own, deliver)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[p] = s.failed[p] || errors.Is(err, errAway)
	return err
}

func (s *awaySource) consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	if err := s.reach(ctx, own.Stop()); err != nil {
		return err
	}
	q, err := s.attach(own)
	if err != nil {
		return err
	}
	defer s.detach(q)
	own.Started()
	for {
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if err := s.reach(ctx, own.Stop()); err != nil {
			return err
		}
		_, changed := s.server.now()
		msgs, arrived := s.fetch(q)
		if len(msgs) == 0 {
			select {
			case <-arrived:
			case <-changed:
			case <-own.Stop():
			case <-ctx.Done():
			}
			continue
		}
		n, err := deliver(ctx, msgs...)
		if errors.Is(err, rota.ErrLost) {
			if s.flaw == lateEnd {
				s.reach(ctx, nil)
			}
			return err
		}
		if away := s.reach(ctx, own.Stop()); away != nil {
			if s.flaw == leaves {
				s.settle(q, own.Token(), msgs, nil)
				next, _ := s.fetch(q)
				s.settle(q, own.Token(), next, nil)
			}
			return away
		}
		if err := own.Settle(func() error { return s.settle(q, own.Token(), msgs[:n], nil) }); err != nil {
			return err
		}
		if errors.Is(err, rota.ErrStop) {
			return nil
		}
	}
}

// TestFetchedBites gives the suite a broker whose partitions belong to a connection. The
// next owner gets in when the broker has noticed the end of that connection, or its silence.
func TestFetchedBites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		by, flaw, says string
	}{
		{"killed", "", ""},
		{"frozen", "", ""},
		{"killed", keepsLost, "all messages are handled"},
		{"frozen", keepsSilent, "all messages are handled"},
		{"killed", toTheEnd, "are done"},
		{"frozen", toTheEnd, "are done"},
	} {
		name := "what a " + c.by + " owner had fetched goes to the next owner, in order"
		t.Run(c.by+" "+c.flaw, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(wireSourceCases, func(s sourceCase) bool { return s.name == name })
			said := probed(t, func(tb testing.TB) {
				st := newSourceTest(tb, newLinked(tb, c.flaw))
				st.bound = 12 * time.Second
				wireSourceCases[i].run(st)
			})
			if c.says == "" && said != "" || !strings.Contains(said, c.says) {
				t.Errorf("it did not say %q, but: %s", c.says, said)
			}
		})
	}
}

// TestCutWireBites gives the suite a source that does not connect again.
func TestCutWireBites(t *testing.T) {
	t.Parallel()
	for flaw, says := range map[string]string{"": "", dialsOnce: "a is at work"} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			said := probed(t, func(tb testing.TB) {
				st := newSourceTest(tb, newLinked(tb, flaw))
				st.bound = 10 * time.Second
				cutWire(st)
			})
			if says == "" && said != "" || !strings.Contains(said, says) {
				t.Errorf("it did not say %q, but: %s", says, said)
			}
		})
	}
}
