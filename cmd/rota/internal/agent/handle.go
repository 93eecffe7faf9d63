package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
)

// What rota run does with a message: log it, give it to a command, or post it.

// A deed is what --handle or --own names.
type deed struct {
	kind string // none, log, sleep, exec, worker, http
	argv []string
	url  string
	time time.Duration // of sleep
}

// runs tells whether it is done by commands.
func (d deed) runs() bool { return d.kind == "exec" || d.kind == "worker" }

// parseDeed reads log, none, sleep:TIME, exec:CMD, worker:CMD or http:URL.
func parseDeed(flag, s string) (deed, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch {
	case s == "log" || s == "none":
		return deed{kind: s}, nil
	case kind == "sleep":
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return deed{}, cli.Usagef("--%s %q: want a time such as sleep:20ms", flag, s)
		}
		return deed{kind: kind, time: d}, nil
	case kind == "exec" || kind == "worker":
		argv, err := parseCommand(rest)
		if err != nil {
			return deed{}, cli.Usagef("--%s %q: %v", flag, s, err)
		}
		return deed{kind: kind, argv: argv}, nil
	case kind == "http" || kind == "https":
		raw := s // http://host/path, or http: before a whole URL
		if strings.HasPrefix(rest, "http://") || strings.HasPrefix(rest, "https://") {
			raw = rest
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			return deed{}, cli.Usagef("--%s %q: want a whole URL, such as http://127.0.0.1:8080/handle", flag, cli.Redact(s))
		}
		return deed{kind: "http", url: raw}, nil
	}
	return deed{}, cli.Usagef("--%s %q: want log, none, sleep:TIME, exec:CMD, worker:CMD or http:URL", flag, cli.Redact(s))
}

// parseCommand finds out how to run a command: by itself if it is one plain
// word, by the shell otherwise.
func parseCommand(s string) ([]string, error) {
	if strings.TrimSpace(s) == "" {
		return nil, errors.New("there is no command behind it")
	}
	if strings.ContainsAny(s, " \t\n|&;<>()$`\\\"'*?[]#~=%{}!") {
		return []string{"/bin/sh", "-c", s}, nil
	}
	path, err := exec.LookPath(s)
	if err != nil {
		return nil, fmt.Errorf("there is no such command: %w", errors.Unwrap(err))
	}
	return []string{path}, nil
}

// A handler does the work of one member.
type handler struct {
	group   string
	member  string
	deed    deed
	out     io.Writer // of --handle log
	stdout  *os.File  // of commands
	keeper  *keeper
	handles bool // messages, and does not own partitions with --own
	workers workers

	metaFiles metaFiles     // of --own
	lastPause time.Duration // --backoff-last
	stopTime  time.Duration // --stop-time
	margin    time.Duration // see EndTime
	client    http.Client
	done      atomic.Int64 // messages handled

	mu    sync.Mutex
	calls map[int]context.Context // handlers at work
	next  int
}

// enter notes a handler at work; leave that it has returned.
func (h *handler) enter(ctx context.Context) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[int]context.Context{}
	}
	h.next++
	id := h.next
	h.calls[id] = ctx
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.calls, id)
	}
}

// overdue is how many handlers are at work whose time is over.
func (h *handler) overdue() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ctx := range h.calls {
		if ctx.Err() != nil {
			n++
		}
	}
	return n
}

// killedGrace is how long a handler may take to return after its command was killed.
const killedGrace = time.Second

// slow tells whether handlers have something outside of this process to end.
func (h *handler) slow() bool { return h.deed.runs() || h.deed.kind == "http" }

// harmless waits for the return of handlers whose time is over. The watchdog has
// ended their commands before the lease did, and their requests are cut off; all
// that is missing, most likely because this process was frozen, is that they say
// so. Only if they do not, the process has to end.
func (h *handler) harmless() bool {
	if !h.slow() {
		return false
	}
	for end := time.Now().Add(killedGrace); h.overdue() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		if time.Until(end) < killedGrace*9/10 && h.keeper != nil {
			h.keeper.kill() // the watchdog is frozen, or has more to do than it can: no command may wait for that
			return false
		}
	}
	return true
}

// handle is Config.Handle.
func (h *handler) handle() func(context.Context, rota.Message) error {
	do := h.how()
	slow := h.slow()
	return func(ctx context.Context, msg rota.Message) error {
		if slow {
			defer h.enter(ctx)()
		}
		err := do(ctx, msg)
		if err == nil {
			h.done.Add(1)
		}
		return err
	}
}

func (h *handler) how() func(context.Context, rota.Message) error {
	switch h.deed.kind {
	case "exec":
		return h.exec
	case "worker":
		return func(ctx context.Context, msg rota.Message) error { return h.work(ctx, msg, msg.Ownership()) }
	case "http":
		// Every partition posts at once; the default would keep two connections and
		// dial anew for everybody else's every message.
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 1<<16
		h.client.Transport = t
		h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		return h.post
	case "none":
		return func(context.Context, rota.Message) error { return nil }
	case "sleep":
		return h.sleep
	}
	return h.log
}

// sleep takes a while, as real work does, and needs no core for it.
func (h *handler) sleep(ctx context.Context, _ rota.Message) error {
	t := time.NewTimer(h.deed.time)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tally tells every so often how many messages were handled, until it is called
// off.
func (h *handler) tally(j *line.Journal, member string, every time.Duration) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				l := line.New(line.Work, h.group, member)
				l.N = int(h.done.Load())
				j.Add(l)
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// log says that a message came, not what is in it: that is nobody's business.
func (h *handler) log(_ context.Context, msg rota.Message) error {
	_, err := fmt.Fprintf(h.out, "%s@%d  message %s  attempt %d  %d bytes\n", plain.Text(msg.Partition), uint32(msg.Token), plain.Text(msg.ID), msg.Attempt, len(msg.Value))
	return err
}

func (h *handler) exec(ctx context.Context, msg rota.Message) error {
	own := msg.Ownership()
	err := h.keeper.run(ctx, own, command{about: msg.Partition, argv: h.deed.argv, env: environment(h.factsOf(msg)), stdin: msg.Value, out: h.stdout, err: os.Stderr,
		stop: own.Stop(), stopAfter: h.patience(), tell: own.Tell})
	if why, ok := errors.AsType[notBegun](err); ok {
		return untried(why)
	}
	if said, ok := err.(exitError); ok {
		return verdict(err, exitWords[said.status()])
	}
	return err
}

// patience is how long a message in hand may go on after a stop was asked for, before
// SIGTERM says that the stop time is nearly over.
func (h *handler) patience() time.Duration { return h.stopTime - min(termGrace, h.stopTime/4) }

// What a command says by its exit status, in the numbers of sysexits.h, and a server by
// its status code. Anything else means that the attempt failed.
var (
	exitWords = map[int]error{
		65: rota.ErrBad,     // EX_DATAERR
		75: rota.ErrUntried, // EX_TEMPFAIL
		77: rota.ErrLost,    // EX_NOPERM
	}
	statusWords = map[int]error{
		http.StatusBadRequest: rota.ErrBad, http.StatusUnprocessableEntity: rota.ErrBad,
		http.StatusTooManyRequests: rota.ErrUntried, http.StatusServiceUnavailable: rota.ErrUntried,
		http.StatusConflict: rota.ErrLost, http.StatusPreconditionFailed: rota.ErrLost,
	}
)

// verdict is err with what the handler said it means, if it said so.
func verdict(err, word error) error {
	if word == nil {
		return err
	}
	return fmt.Errorf("%w: %w", word, err)
}

// bodyTime is how long the rest of an answer may take whose status is known. It
// is read only so that the connection can be used again.
const bodyTime = time.Second

// post sends a message as a request. Any 2xx answer settles it, whatever becomes
// of its body; of the others some say more than that the attempt failed.
func (h *handler) post(ctx context.Context, msg rota.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.deed.url, bytes.NewReader(msg.Value))
	if err != nil {
		return fmt.Errorf("post to %s: %w", cli.Redact(h.deed.url), cli.Bare(err))
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	for _, a := range h.factsOf(msg) {
		req.Header.Set("Rota-"+strings.ReplaceAll(a.key, "_", "-"), strings.Map(cli.OneLine, a.value))
	}
	if s := spanOf(msg.Ownership(), h.margin); runtime.GOOS == "linux" {
		req.Header.Set("Rota-Lease", s.String())
	}
	res, err := h.client.Do(req)
	if err != nil {
		said := fmt.Errorf("post to %s: %w", cli.Redact(h.deed.url), cli.Bare(err))
		if slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS}, func(e error) bool { return errors.Is(err, e) }) {
			return untried(said) // this machine could not even ask
		}
		return said
	}
	defer res.Body.Close()
	late := time.AfterFunc(bodyTime, cancel)
	io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	late.Stop()
	if res.StatusCode/100 == 2 {
		return nil
	}
	word := statusWords[res.StatusCode]
	if word == rota.ErrUntried {
		h.wait(ctx, msg, res.Header.Get("Retry-After"))
	}
	return verdict(fmt.Errorf("post to %s: %s", cli.Redact(h.deed.url), plain.Text(res.Status)), word)
}

// wait waits for as long as a server asks for, up to the longest pause. A stop ends it.
func (h *handler) wait(ctx context.Context, msg rota.Message, after string) {
	d := retryAfter(after, time.Now())
	if d <= 0 {
		return
	}
	select {
	case <-time.After(min(d, h.lastPause)):
	case <-ctx.Done():
	case <-msg.Ownership().Stop():
	}
}

// retryAfter reads the header of that name: seconds, or a time.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return t.Sub(now)
	}
	return 0
}

// untried is an error that is not the message's: what was to handle it could not
// begin. The message is not blamed for it, and comes again until it could.
func untried(err error) error { return fmt.Errorf("%w: %w", rota.ErrUntried, err) }

// own runs one command per partition while it is owned: what --own names. Stop
// asks it to end by SIGTERM, and it has the stop time for that.
func (h *handler) own(ctx context.Context, own rota.Ownership) error {
	defer h.enter(ctx)()
	all := h.facts(own)
	file, forget := h.metaFiles.follow(own)
	defer forget()
	if file != "" {
		all = append(all, about{"META_FILE", file})
	}
	err := h.keeper.run(ctx, own, command{about: own.Partition(), argv: h.deed.argv, env: environment(all),
		out: h.stdout, err: os.Stderr, stop: own.Stop(), tell: own.Tell})
	select {
	case <-own.Stop():
		return nil // it was asked to end, however it took that
	default:
	}
	if err == nil {
		return errors.New("the command has ended with status 0, and it should run until SIGTERM asks it to end")
	}
	return err
}
