package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/clock"
)

// lineVersion is the version of the event lines; docs/events.md tells what they
// mean. A reader refuses versions it does not know.
const lineVersion = 1

// A line is one event of a member, as a line of JSON.
type line struct {
	V         int       `json:"v"`
	T         time.Time `json:"t"`
	Boot      int64     `json:"boot_ns"`
	Event     string    `json:"event"`
	Group     string    `json:"group"`
	Member    string    `json:"member"`
	Session   string    `json:"session,omitempty"`
	Partition string    `json:"partition,omitempty"`
	Token     uint64    `json:"token,omitempty"`
	Plan      uint64    `json:"plan,omitempty"`
	Gen       uint64    `json:"gen,omitempty"`
	Term      uint64    `json:"term,omitempty"`
	Because   string    `json:"because,omitempty"`
	Lease     int64     `json:"lease_ns,omitempty"` // until when the lease lasts, on the clock of boot_ns
	About     string    `json:"about,omitempty"`
	Message   string    `json:"message,omitempty"`
	Attempt   int       `json:"attempt,omitempty"`
	Moved     int       `json:"moved,omitempty"`
	Placed    int       `json:"placed,omitempty"`
	N         int       `json:"n,omitempty"`
	PID       int       `json:"pid,omitempty"`
	BootID    string    `json:"boot_id,omitempty"`
}

// traced are the events of single messages and leases, told with --trace.
var traced = map[rota.EventKind]bool{
	rota.EventHandle: true, rota.EventHandled: true, rota.EventSettled: true, rota.EventRefused: true, rota.EventLease: true,
}

// A journal writes event lines. It never holds a member up: what the disk is too
// slow for is counted, and told as missed.
type journal struct {
	group string
	trace bool
	lines chan line
	lost  atomic.Int64
	file  io.WriteCloser
	done  chan struct{}
	fail  error

	instants clock.Instants

	mu   sync.RWMutex
	over bool // lines is closed
}

// openJournal writes to a file, appending, or to stdout if it is called -. A new
// file is its owner's alone: partitions, message ids and errors are in it.
func openJournal(name, group string, trace bool, stdout io.Writer) (*journal, error) {
	j := &journal{group: group, trace: trace, lines: make(chan line, 1<<16), done: make(chan struct{})}
	var w io.Writer = stdout
	if name != "-" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, usagef("--events: %v", err)
		}
		j.file, w = f, f
	}
	go j.write(w)
	return j, nil
}

// take is a Config.Trace.
func (j *journal) take(e rota.Event) {
	if traced[e.Kind] && !j.trace {
		return
	}
	boot := j.instants.Boot(e.Time)
	l := line{V: lineVersion, T: e.Time, Boot: int64(boot), Event: string(e.Kind), Group: j.group, Member: e.Member, Session: e.Session,
		Partition: e.Partition, Token: uint64(e.Token), Plan: e.Plan, Gen: e.Gen, Term: e.Term, Because: e.Because,
		About: e.About, Message: e.Message, Attempt: e.Attempt, Moved: e.Moved, Placed: e.Placed, N: e.N}
	if e.Left != 0 {
		l.Lease = int64(boot + e.Left)
	}
	if e.Kind == rota.EventJoined {
		l.PID, l.BootID = os.Getpid(), clock.BootID()
	}
	j.add(l)
}

func (j *journal) add(l line) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.over {
		return
	}
	select {
	case j.lines <- l:
	default:
		j.lost.Add(1)
	}
}

func (j *journal) write(w io.Writer) {
	defer close(j.done)
	b := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	for l := range j.lines {
		if err := enc.Encode(l); err != nil && j.fail == nil {
			j.fail = err
		}
		if n := j.lost.Swap(0); n > 0 {
			enc.Encode(line{V: lineVersion, T: time.Now(), Boot: int64(clock.Boot()), Event: string(rota.EventMissed), Group: j.group, Member: l.Member, N: int(n)})
		}
		if len(j.lines) == 0 {
			b.Flush()
		}
	}
	if err := b.Flush(); err != nil && j.fail == nil {
		j.fail = err
	}
}

// Close writes what is left; what is told afterwards is not written.
func (j *journal) Close() error {
	j.mu.Lock()
	if !j.over {
		j.over = true
		close(j.lines)
	}
	j.mu.Unlock()
	<-j.done
	if j.file != nil {
		if err := j.file.Close(); err != nil && j.fail == nil {
			j.fail = err
		}
	}
	if j.fail != nil {
		return fmt.Errorf("--events: %w", j.fail)
	}
	return nil
}
