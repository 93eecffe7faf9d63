package line

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/clock"
)

// traced are the events of single messages and leases, told with --trace.
var traced = map[rota.EventKind]bool{
	rota.EventHandle: true, rota.EventHandled: true, rota.EventSettled: true, rota.EventRefused: true, rota.EventLease: true,
}

// A Journal writes event lines. It never holds a member up: what the disk is too
// slow for is counted, and told as missed.
type Journal struct {
	group string
	trace bool
	lines chan Line
	lost  atomic.Int64
	file  io.WriteCloser
	done  chan struct{}
	fail  error

	instants clock.Instants

	mu   sync.RWMutex
	over bool // lines is closed
}

// OpenJournal writes to a file, appending, or to stdout if it is called -. A new
// file is its owner's alone: partitions, message ids and errors are in it.
func OpenJournal(name, group string, trace bool, stdout io.Writer) (*Journal, error) {
	j := &Journal{group: group, trace: trace, lines: make(chan Line, 1<<16), done: make(chan struct{})}
	var w io.Writer = stdout
	if name != "-" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		j.file, w = f, f
	}
	go j.write(w)
	return j, nil
}

// Take is a Config.Trace.
func (j *Journal) Take(e rota.Event) {
	if traced[e.Kind] && !j.trace {
		return
	}
	j.Add(Of(e, j.group, j.instants.Boot(e.Time)))
}

// Add writes one line.
func (j *Journal) Add(l Line) {
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

func (j *Journal) write(w io.Writer) {
	defer close(j.done)
	b := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	for l := range j.lines {
		if err := enc.Encode(l); err != nil && j.fail == nil {
			j.fail = err
		}
		if n := j.lost.Swap(0); n > 0 {
			missed := New(string(rota.EventMissed), j.group, l.Member)
			missed.N = int(n)
			enc.Encode(missed)
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
func (j *Journal) Close() error {
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
	return j.fail
}
