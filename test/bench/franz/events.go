//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/rota-dev/rota/internal/clock"
)

// A line is an event line, see docs/events.md.
type line struct {
	V         int    `json:"v"`
	T         string `json:"t"`
	Boot      int64  `json:"boot_ns"`
	Event     string `json:"event"`
	Group     string `json:"group"`
	Member    string `json:"member"`
	Session   string `json:"session,omitempty"`
	Partition string `json:"partition,omitempty"`
	Token     uint64 `json:"token,omitempty"`
	Lease     int64  `json:"lease_ns,omitempty"`
	Message   string `json:"message,omitempty"`
	PID       int    `json:"pid,omitempty"`
	BootID    string `json:"boot_id,omitempty"`
}

// A journal writes lines, and holds nobody up.
type journal struct {
	group, member, session string
	lines                  chan line
	wg                     sync.WaitGroup
}

func openJournal(s *settings) (*journal, error) {
	f, err := os.OpenFile(s.events, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{group: s.group, member: s.name, session: s.name + "-1", lines: make(chan line, 1<<16)}
	j.wg.Go(func() {
		defer f.Close()
		b := bufio.NewWriterSize(f, 1<<16)
		defer b.Flush()
		e := json.NewEncoder(b)
		for l := range j.lines {
			e.Encode(l)
			if len(j.lines) == 0 {
				b.Flush()
			}
		}
	})
	return j, nil
}

func (j *journal) add(l line) {
	l.V, l.Group, l.Member, l.Session = 1, j.group, j.member, j.session
	l.T = time.Now().UTC().Format(time.RFC3339Nano)
	if l.Boot == 0 {
		l.Boot = int64(clock.Boot())
	}
	j.lines <- l
}

func (j *journal) Close() {
	close(j.lines)
	j.wg.Wait()
}
