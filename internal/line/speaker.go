package line

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/plain"
)

// A Speaker tells people what happens to one member, a line each. It never holds
// the member up.
type Speaker struct {
	events chan rota.Event
	done   chan struct{}

	mu   sync.RWMutex
	over bool // events is closed
}

// NewSpeaker tells it to w; quiet tells nothing.
func NewSpeaker(w io.Writer, quiet bool) *Speaker {
	s := &Speaker{events: make(chan rota.Event, 4096), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for e := range s.events {
			if quiet {
				continue
			}
			l := Of(e, "", 0)
			if text := l.Say(func(session string) string { return "session " + session }); text != "" {
				fmt.Fprintf(w, "%s  %s %s\n", e.Time.Format(time.TimeOnly+".000"), plain.Text(e.Member), text)
			}
		}
	}()
	return s
}

// Take drops what comes too fast: it is for people, and they would not keep up.
func (s *Speaker) Take(e rota.Event) {
	if traced[e.Kind] {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.over {
		return
	}
	select {
	case s.events <- e:
	default:
	}
}

// Close says what is left; what is told afterwards is not said.
func (s *Speaker) Close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	close(s.events)
	<-s.done
}
