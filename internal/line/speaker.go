package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// A speaker tells people what happens to one member, a line each. It never holds
// the member up.
type speaker struct {
	events chan rota.Event
	done   chan struct{}

	mu   sync.RWMutex
	over bool // events is closed
}

func newSpeaker(w io.Writer, quiet bool) *speaker {
	s := &speaker{events: make(chan rota.Event, 4096), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for e := range s.events {
			if quiet {
				continue
			}
			l := line{Event: string(e.Kind), Member: e.Member, Session: e.Session, Partition: e.Partition, Token: uint64(e.Token),
				Plan: e.Plan, Term: e.Term, Because: e.Because, About: e.About, Message: e.Message, Attempt: e.Attempt,
				Moved: e.Moved, Placed: e.Placed, N: e.N, PID: os.Getpid()}
			if text := say(&l, func(session string) string { return "session " + session }); text != "" {
				fmt.Fprintf(w, "%s  %s %s\n", e.Time.Format(time.TimeOnly+".000"), plain(e.Member), text)
			}
		}
	}()
	return s
}

// take drops what comes too fast: it is for people, and they would not keep up.
func (s *speaker) take(e rota.Event) {
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
func (s *speaker) Close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	close(s.events)
	<-s.done
}
