//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/line"
)

// A journal writes lines, and holds nobody up.
type journal struct {
	group, member, session string
	lines                  chan line.Line
	wg                     sync.WaitGroup
}

func openJournal(s *settings) (*journal, error) {
	f, err := os.OpenFile(s.events, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{group: s.group, member: s.name, session: s.name + "-1", lines: make(chan line.Line, 1<<16)}
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

func (j *journal) add(l line.Line) {
	l.V, l.Group, l.Member, l.Session = line.Version, j.group, j.member, j.session
	l.T = time.Now().UTC()
	if l.Boot == 0 {
		l.Boot = int64(clock.Boot())
	}
	j.lines <- l
}

func (j *journal) Close() {
	close(j.lines)
	j.wg.Wait()
}
