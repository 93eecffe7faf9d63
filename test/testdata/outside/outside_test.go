// Package outside is somebody else's module with a driver of its own: everything
// the suites want of it can be written there.
package outside

import (
	"context"
	"errors"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// server is a Server of one's own. There is nothing to stop in memory, and so
// nothing that could go wrong.
type server struct {
	mem  *rotatest.MemStore
	kept rotatest.MemSnapshot
}

func (s *server) Start(context.Context) error { return nil }
func (s *server) Stop(context.Context) error  { return nil }
func (s *server) Kill() error                 { return nil }
func (s *server) Freeze() error               { return nil }
func (s *server) Thaw() error                 { return nil }

func (s *server) Snapshot() (rotatest.Snapshot, error) {
	s.kept = s.mem.Snapshot()
	return rotatest.Snapshot{}, nil
}

func (s *server) Restore(rotatest.Snapshot) error {
	s.mem.Restore(s.kept)
	return nil
}

var _ rotatest.Server = (*server)(nil)

func TestStore(t *testing.T) {
	s := &server{mem: rotatest.NewMemStore()}
	rotatest.Store(t, func(*testing.T) rota.Store { return s.mem.Open() })
}

// TestOptions has all that a store with a server would be asked, and asks nothing:
// what matters is that it compiles.
func TestOptions(t *testing.T) {
	s := &server{mem: rotatest.NewMemStore()}
	_ = []rotatest.StoreOption{
		rotatest.WithServer(s),
		rotatest.WithWire("127.0.0.1:1", func(testing.TB, string) rota.Store { return s.mem.Open() }),
	}
	_ = func(t testing.TB) *rotatest.RealServer { return rotatest.StartRedis(t) }
	_ = func(s *rotatest.RealServer) (rotatest.Server, []string) {
		return s, []string{s.Addr(), s.URL(), s.At("stomp"), s.Admin(), s.Log()}
	}
	_ = func(s rotatest.Server) error { // a wrapper of one's own needs nothing internal
		snap, err := s.Snapshot()
		return errors.Join(err, s.Restore(snap))
	}
}

// broker is a Broker of one's own.
type broker struct {
	*rotatest.MemSource
	names []string
}

func (b broker) Source() rota.Source  { return b.MemSource }
func (b broker) Partitions() []string { return b.names }

func (b broker) Publish(partition string, values ...[]byte) error {
	b.MemSource.Publish(partition, values...)
	return nil
}

func (b broker) Dead() (out [][]byte, err error) {
	for _, m := range b.MemSource.Dead() {
		out = append(out, m.Value)
	}
	return out, nil
}

var _ rotatest.Broker = broker{}

// TestHistory: histories can be recorded, read, and judged.
func TestHistory(t *testing.T) {
	var h rotatest.History
	s := h.Wrap(rotatest.Faulty(rotatest.NewMemStore(), 1))
	if _, err := s.Put(t.Context(), "k", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "k", []byte("w"), 0); !errors.Is(err, rota.ErrConflict) {
		t.Fatal(err)
	}
	calls := h.Calls()
	if err := errors.Join(h.Check(), rotatest.Judge(calls)); err != nil || len(calls) != 2 {
		t.Fatal(len(calls), err)
	}
	calls[1].Err = nil
	if rotatest.Judge(calls) == nil {
		t.Error("two creations of one cell are right")
	}
}
