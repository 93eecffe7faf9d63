package rotaactive

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/rota-dev/rota"
)

// TestAttachWaitsForTheStandby lets dials fail, as they do between the end of a broker and the
// time when its standby serves. rota hears of no error: after five it would give the partition up.
func TestAttachWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	refuses := errors.New("connection refused")
	for _, c := range []struct {
		name  string
		err   error
		fails int32 // dials, before one succeeds
		stops bool
		dials int32 // want; 0 for any number
		want  error
	}{
		{"a standby that comes", refuses, 4, false, 5, nil},
		{"a password that is refused", permanent{refuses}, 4, false, 1, refuses},
		{"a partition that stops", refuses, 1000, true, 0, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := Source("stomp://127.0.0.1?queues=q").(*source)
			stop, dials := make(chan struct{}), atomic.Int32{}
			s.link.dial = func(context.Context, *settings, string) (client, error) {
				n := dials.Add(1)
				if c.stops && n == 2 {
					close(stop)
				}
				if n <= c.fails {
					return nil, c.err
				}
				return standby{}, nil
			}
			_, err := s.attach(t.Context(), "q", stop)
			if n := dials.Load(); c.dials > 0 && n != c.dials || !errors.Is(err, c.want) || errors.Is(err, rota.ErrPermanent) != errors.Is(c.err, rota.ErrPermanent) {
				t.Errorf("%d dials and %v, want %d and %v", n, err, c.dials, c.want)
			}
		})
	}
}

// standby is a client that subscribes to everything.
type standby struct{ client }

func (standby) consume(context.Context, string, int) (feed, error) { return nil, nil }
func (standby) done() <-chan struct{}                              { return nil }
