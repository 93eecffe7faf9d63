package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// A worker is a command that lives for longer than one message. It acts only between
// the frame of a message and its answer: one that has nothing to answer is harmless, so
// a partition is handed over without waiting for the end of its worker.
type worker struct {
	of  *workers
	key string
	by  *holders
	in  *os.File // frames
	out *os.File // answers

	kill context.CancelFunc // by SIGTERM first, if the lease lasts
	stop chan struct{}      // asks it to end by SIGTERM alone
	once sync.Once          // closes stop
	read chan struct{}      // closed when no answer can come any more
	gone chan struct{}      // closed when nothing of it is left; err is known then

	writing sync.Mutex // one frame after the other

	mu     sync.Mutex
	seq    uint64
	calls  []*call // not answered, oldest first; they stay when it is gone
	broken error   // why it is being ended, if it has broken the protocol
	late   *call   // whose time was over, so that it is being ended
	asked  bool    // to end, for it is not needed any more
	err    error
}

// A call is one message that a worker has not answered yet.
type call struct {
	seq    uint64
	answer chan error
	unsent bool // the worker cannot have read all of it
}

// workers are those of one member: one for each ownership, or a single one.
type workers struct {
	single bool // --worker-per member
	mu     sync.Mutex
	all    map[string]*worker
	alive  sync.WaitGroup
}

// work is Config.Handle with a worker.
func (h *handler) work(ctx context.Context, msg rota.Message, own ownership) error {
	w, err := h.worker(own)
	if err != nil {
		return untried(err)
	}
	return w.do(ctx, h.frameOf(msg, own), msg.Value, own, h.patience())
}

// worker is the one for an ownership. It is started if there is none.
func (h *handler) worker(own ownership) (*worker, error) {
	key, env := "", []about{{"GROUP", h.group}, {"MEMBER", h.member}}
	if !h.workers.single {
		key, env = fmt.Sprintf("%s@%d", own.Partition(), own.Token()), h.facts(own)
	}
	ws := &h.workers
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.all[key]; w != nil && w.by.join(own) {
		return w, nil
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe to the worker: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		in.Close()
		return nil, fmt.Errorf("a pipe to the worker: %w", err)
	}
	ctx, kill := context.WithCancel(context.Background())
	w := &worker{of: ws, key: key, in: in, out: out, kill: kill, stop: make(chan struct{}), read: make(chan struct{}), gone: make(chan struct{})}
	w.by = &holders{all: map[ownership]bool{own: true}, none: w.finish}
	if ws.all == nil {
		ws.all = map[string]*worker{}
	}
	ws.all[key] = w
	c := command{about: own.Partition(), argv: h.deed.argv, env: environment(env), in: theirIn, out: theirOut, err: os.Stderr, stop: w.stop, tell: own.Tell,
		given: func() { theirIn.Close(); theirOut.Close() }}
	go w.listen()
	ws.alive.Go(func() {
		err := h.keeper.run(ctx, w.by, c)
		w.ended(err, own.Tell)
	})
	return w, nil
}

// forget lets the next message start another worker.
func (ws *workers) forget(w *worker) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all[w.key] == w {
		delete(ws.all, w.key)
	}
}

// close ends all workers in good order, or by SIGKILL in the end.
func (ws *workers) close() {
	ws.mu.Lock()
	var left []*worker
	for _, w := range ws.all {
		left = append(left, w)
	}
	ws.mu.Unlock()
	for _, w := range left {
		go w.finish()
	}
	ws.alive.Wait()
}

// do has a worker handle one message. It returns when the message is answered or nothing
// of the worker is left, so that two never work on one partition.
func (w *worker) do(ctx context.Context, f frame, value []byte, own ownership, patience time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &call{answer: make(chan error, 1)}
	unwatch := context.AfterFunc(ctx, func() { w.abandon(c, own) })
	defer unwatch()
	w.send(c, f, value)
	stop := own.Stop()
	var nearly <-chan time.Time
	for {
		select {
		case err := <-c.answer:
			return err
		case <-w.gone:
			return w.blame(c)
		case <-stop:
			stop, nearly = nil, time.After(patience)
		case <-nearly:
			w.term()
		}
	}
}

// send writes a frame. A worker that does not read blocks it until that worker is ended.
func (w *worker) send(c *call, f frame, value []byte) {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	w.seq++
	c.seq = w.seq
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	f.Seq = c.seq
	b, err := f.encode(value)
	if err == nil {
		_, err = w.in.Write(b)
	}
	if err != nil {
		w.mu.Lock()
		c.unsent = true
		w.mu.Unlock()
		time.AfterFunc(termGrace, func() { w.breakOff(fmt.Errorf("it reads no messages: %w", err)) }) // its own end says more
	}
}

// listen reads answers.
func (w *worker) listen() {
	defer close(w.read)
	lines := bufio.NewReaderSize(w.out, maxAnswer)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			w.breakOff(fmt.Errorf("it wrote a line of more than %d bytes: %s", maxAnswer, shorten(line)))
			return
		case err != nil: // most likely its end, which says more
			time.AfterFunc(termGrace, func() { w.breakOff(errors.New("it has closed its standard output")) })
			return
		}
		a, err := parseAnswer(line)
		if err == nil {
			err = w.answered(a)
		}
		if err != nil {
			w.breakOff(fmt.Errorf("it wrote %w", err))
			return
		}
	}
}

func (w *worker) answered(a answer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.calls, func(c *call) bool { return c.seq == a.Seq })
	if i < 0 {
		return fmt.Errorf("an answer to message %d, which it does not have", a.Seq)
	}
	w.calls[i].answer <- a.err()
	w.calls = slices.Delete(w.calls, i, i+1)
	return nil
}

// breakOff ends a worker that has broken the protocol.
func (w *worker) breakOff(why error) {
	w.mu.Lock()
	if w.broken == nil {
		w.broken = why
	}
	w.mu.Unlock()
	w.of.forget(w)
	w.kill()
}

// abandon ends a worker because the time of a message is over. If the partition is lost,
// that is at once.
func (w *worker) abandon(c *call, own ownership) {
	w.mu.Lock()
	if w.late == nil {
		w.late = c
	}
	w.mu.Unlock()
	w.of.forget(w)
	if own.Remaining() == 0 {
		w.by.drop()
	}
	w.kill()
}

// finish ends a worker that is not needed any more: no more messages come, which most
// programs take for the end; then SIGTERM, then SIGKILL.
func (w *worker) finish() {
	w.mu.Lock()
	w.asked = true
	w.mu.Unlock()
	w.of.forget(w)
	w.writing.Lock()
	w.in.Close()
	w.writing.Unlock()
	if w.over(termGrace) {
		return
	}
	w.term()
	if !w.over(termGrace) {
		w.kill()
	}
}

func (w *worker) term() { w.once.Do(func() { close(w.stop) }) }

// over waits for its end.
func (w *worker) over(d time.Duration) bool {
	select {
	case <-w.gone:
		return true
	case <-time.After(d):
		return false
	}
}

const codeWorkerEnded rota.Condition = "worker-ended"

// ended notes how it ended. Answers that it wrote before still count.
func (w *worker) ended(err error, tell func(rota.Condition, string)) {
	w.out.SetReadDeadline(time.Now().Add(termGrace)) // a process that has escaped may hold it open
	<-w.read
	w.of.forget(w)
	w.in.Close()
	w.out.Close()
	w.kill()
	w.mu.Lock()
	w.err = err
	exit, died := err.(exitError)
	idle := died && !exit.late && len(w.calls) == 0 && !w.asked && w.broken == nil && w.late == nil
	broken := w.broken
	if len(w.calls) > 0 {
		broken = nil // the messages tell
	}
	w.mu.Unlock()
	close(w.gone)
	switch {
	case idle:
		tell(codeWorkerEnded, fmt.Sprintf("a worker ended although it had nothing to do: %v", err))
	case broken != nil:
		tell(codeWorkerEnded, fmt.Sprintf("a worker was ended: %v", broken))
	}
}

// blame is the error of a message that a worker did not answer. Only the message that it
// was most likely busy with counts as tried: the oldest.
func (w *worker) blame(c *call) error {
	select {
	case err := <-c.answer: // both at once
		return err
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	exit, died := w.err.(exitError)
	began, unbegun := errors.AsType[notBegun](w.err)
	switch {
	case unbegun:
		return untried(began)
	case w.late == c:
		return errors.New("the worker was ended, since it had not answered")
	case w.late != nil:
		return untried(errors.New("the worker was ended, since another message took too long"))
	case w.broken != nil:
		return untried(fmt.Errorf("the worker was ended: %w", w.broken))
	case w.err == nil:
		return untried(errors.New("the worker ended with status 0 and had not answered"))
	case !died || exit.late:
		return w.err
	case c.unsent || w.calls[0] != c:
		return untried(fmt.Errorf("the worker ended before its turn: %w", w.err))
	}
	return verdict(fmt.Errorf("the worker ended and had not answered: %w", w.err), exitWords[exit.status()])
}

// holders are the ownerships that a worker acts for. It may act as long as one of them.
type holders struct {
	mu   sync.Mutex
	all  map[ownership]bool
	over bool
	none func() // called once, when there is none left
}

// join adds an ownership, unless the worker is about to end.
func (h *holders) join(own ownership) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.all[own] = true
	}
	return !h.over
}

// drop ends them all.
func (h *holders) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.all = true, nil
}

// Remaining is the longest of all. Those that are over are forgotten.
func (h *holders) Remaining() (most time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for own := range h.all {
		left := own.Remaining()
		if left == 0 {
			delete(h.all, own)
		}
		most = max(most, left)
	}
	if len(h.all) == 0 && !h.over {
		h.over = true
		go h.none()
	}
	return most
}
