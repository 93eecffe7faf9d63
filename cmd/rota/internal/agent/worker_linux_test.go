package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/rotatest"
)

const workerArg = "be-a-worker"

// A worker in Go, which notes each message in a file, after the word of the value that
// says how to behave, and once per behaviour: a file beside it notes that it did.
func init() {
	if len(os.Args) != 3 || os.Args[1] != workerArg {
		return
	}
	in, file := bufio.NewReader(os.Stdin), os.Args[2]
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			note(file, "end")
			os.Exit(0)
		}
		var f frame
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			os.Exit(9)
		}
		value := make([]byte, f.Bytes)
		if _, err := io.ReadFull(in, value); err != nil {
			os.Exit(9)
		}
		how, _, _ := strings.Cut(string(value), " ")
		once, err := os.OpenFile(file+"."+how, os.O_CREATE|os.O_EXCL, 0o600)
		once.Close()
		if behave(how, err == nil, f.Seq) {
			continue
		}
		note(file, fmt.Sprintf("%s %s/%d", f.Partition, value, f.Attempt))
		fmt.Printf(`{"seq":%d,"is":"done"}`+"\n", f.Seq)
	}
}

// behave does what the word says, the first time, and tells whether that was an answer.
func behave(how string, first bool, seq uint64) (answered bool) {
	switch {
	case !first:
		return false
	case how == "garbage":
		fmt.Println("Traceback (most recent call last):")
	case how == "twice":
		fmt.Printf(`{"seq":%d,"is":"done"}`+"\n", seq)
		fmt.Printf(`{"seq":%d,"is":"done"}`+"\n", seq)
	case how == "ahead":
		fmt.Printf(`{"seq":%d,"is":"done"}`+"\n", seq+100)
	case how == "long":
		fmt.Println(strings.Repeat("x", maxAnswer+1))
	case how == "closes":
		os.Stdout.Close()
	case how == "half":
		fmt.Printf(`{"seq":%d,"is"`, seq)
		os.Exit(1)
	case how == "exit3":
		os.Exit(3)
	case how == "exit0":
		os.Exit(0)
	case how == "exit65":
		os.Exit(65)
	case how == "hangs":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour) // it is ended
	case slices.Contains([]string{"failed", "bad", "later", "refused"}, how):
		fmt.Printf(`{"seq":%d,"is":%q,"reason":"so\nit is"}`+"\n", seq, how)
		return true
	default:
		return false
	}
	time.Sleep(time.Hour) // it is ended
	return false
}

func note(file, text string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(9)
	}
	fmt.Fprintln(f, text)
	f.Close()
}

// A holding is an ownership for tests.
type holding struct {
	partition string
	until     lasting
	stop      chan struct{}
	mu        sync.Mutex
	said      []string
}

func newHolding(partition string) *holding {
	return &holding{partition: partition, until: forLong, stop: make(chan struct{})}
}

func (o *holding) Partition() string                  { return o.partition }
func (o *holding) Topic() string                      { return "T" }
func (o *holding) Token() rota.Token                  { return 1<<60 + 7 }
func (o *holding) Session() string                    { return "s" }
func (o *holding) Meta() (rota.Meta, <-chan struct{}) { return rota.Meta{"k": "<v>"}, nil }
func (o *holding) Stop() <-chan struct{}              { return o.stop }
func (o *holding) Remaining() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.until.Remaining()
}
func (o *holding) Tell(code rota.Condition, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said = append(o.said, string(code)+": "+text)
}

func (o *holding) lose() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = 0
}

func (o *holding) says() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.said, "\n")
}

// workerHandler does its work by the worker above.
func workerHandler(t *testing.T) (h *handler, noted func() []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "noted")
	h = &handler{group: "g", member: "c1", deed: deed{kind: "worker", argv: []string{os.Args[0], workerArg, file}}, stopTime: 30 * time.Second,
		keeper: keep(t, 50*time.Millisecond)}
	t.Cleanup(h.workers.close)
	return h, func() []string {
		b, _ := os.ReadFile(file)
		return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	}
}

func isGone(w *worker) bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

func message(value string) rota.Message {
	return rota.Message{ID: "1", Attempt: 1, Value: []byte(value)}
}

// What is wrong with a worker is said, blames the message only where it may be its fault,
// and is over with the next worker.
func TestAWorkerThatMisbehavesIsReplaced(t *testing.T) {
	for how, want := range map[string]struct {
		kind error
		says string
	}{
		"garbage": {rota.ErrUntried, `the worker was ended: it wrote no answer: "Traceback (most recent call last):"`},
		"ahead":   {rota.ErrUntried, "the worker was ended: it wrote an answer to message 101, which it does not have"},
		"long":    {rota.ErrUntried, `the worker was ended: it wrote a line of more than 65536 bytes: "xxx`},
		"closes":  {rota.ErrUntried, "the worker was ended: it has closed its standard output"},
		"exit0":   {rota.ErrUntried, "the worker ended with status 0 and had not answered"},
		"exit3":   {errFailed, "the worker ended and had not answered: the command exited with status 3"},
		"half":    {errFailed, "the worker ended and had not answered: the command exited with status 1"},
		"exit65":  {rota.ErrBad, "the worker ended and had not answered: the command exited with status 65"},
		"failed":  {errFailed, `the worker says: "so\nit is"`},
		"bad":     {rota.ErrBad, `the worker says: "so\nit is"`},
		"later":   {rota.ErrUntried, `the worker says: "so\nit is"`},
		"refused": {rota.ErrLost, `the worker says: "so\nit is"`},
		"twice":   {nil, ""},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h, noted := workerHandler(t)
			own := newHolding("q0")
			ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
			defer cancel()
			err := h.work(ctx, message(how+" 1"), own)
			if kindOf(err) != want.kind || err != nil && !strings.Contains(err.Error(), want.says) {
				t.Errorf("got %v, want %v and %q", err, want.kind, want.says)
			}
			var then string // what the next message was told: it may be in hand when the worker is found out
			trial.Until(t, "a worker that does its work", func() bool {
				err := h.work(ctx, message("then 2"), own)
				then += fmt.Sprint(err)
				return err == nil
			})
			if slices.Contains([]string{"failed", "bad", "later", "refused"}, how) {
				return // the same worker goes on
			}
			trial.Until(t, "the next message", func() bool { return noted()[len(noted())-1] == "q0 then 2/1" })
			if how == "twice" {
				trial.Until(t, "that it is told", func() bool {
					const told = "worker was ended: it wrote an answer to message 1, which"
					return strings.Contains(own.says(), "worker-ended: a "+told) || strings.Contains(then, "the "+told)
				})
			}
		})
	}
}

// A worker that does not answer in time is ended, by SIGKILL if it must be, and is gone
// when the handler returns.
func TestAWorkerThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"handle-time": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			h, _ := workerHandler(t)
			own := newHolding("q0")
			if err := h.work(t.Context(), message("first 1"), own); err != nil {
				t.Fatal(err)
			}
			w, err := h.worker(own)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			file := h.deed.argv[2] + ".hangs"
			go func() {
				trial.Until(t, "it to hang", func() bool { _, err := os.Stat(file); return err == nil })
				if lost {
					own.lose()
				}
				cancel()
			}()
			began := time.Now()
			if err := h.work(ctx, message("hangs 2"), own); kindOf(err) != errFailed || !strings.Contains(err.Error(), "it had not answered") {
				t.Errorf("got %v", err)
			}
			if !isGone(w) {
				t.Error("the handler has returned before the worker was gone")
			}
			if lost && time.Since(began) > 30*time.Second {
				t.Error("it had time that it did not have")
			}
		})
	}
}

// One worker for all partitions: messages of several are in flight, and when it ends only
// the oldest is blamed.
func TestOneWorkerForAllPartitions(t *testing.T) {
	t.Parallel()
	h, noted := workerHandler(t)
	h.workers.single = true
	owns := []*holding{newHolding("q0"), newHolding("q1"), newHolding("q2")}
	if err := h.work(t.Context(), message("first 1"), owns[0]); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(t.Context())
	errs := make([]error, len(owns))
	var all sync.WaitGroup
	for i, how := range []string{"hangs 2", "a 3", "b 4"} {
		ctx := t.Context()
		if i == 0 {
			ctx = short
		}
		all.Go(func() { errs[i] = h.work(ctx, message(how), owns[i]) })
		trial.Until(t, "the first to hang", func() bool { _, err := os.Stat(h.deed.argv[2] + ".hangs"); return err == nil })
	}
	w, err := h.worker(owns[0])
	if err != nil {
		t.Fatal(err)
	}
	trial.Until(t, "three messages in flight", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.calls) == 3 })
	cancel()
	all.Wait()
	if kindOf(errs[0]) != errFailed || kindOf(errs[1]) != rota.ErrUntried || kindOf(errs[2]) != rota.ErrUntried {
		t.Errorf("got %v", errs)
	}
	for i, own := range owns {
		if err := h.work(t.Context(), message("then 5"), own); err != nil {
			t.Error(i, err)
		}
	}
	if got := noted(); len(got) != 4 {
		t.Errorf("noted %q", got)
	}
	h.workers.mu.Lock()
	if n := len(h.workers.all); n != 1 {
		t.Errorf("there are %d workers", n)
	}
	h.workers.mu.Unlock()
}

// A worker whose partition was handed over ends by itself, when its input does.
func TestAWorkerEndsWithItsOwnership(t *testing.T) {
	t.Parallel()
	h, noted := workerHandler(t)
	own := newHolding("q0")
	if err := h.work(t.Context(), message("first 1"), own); err != nil {
		t.Fatal(err)
	}
	w, err := h.worker(own)
	if err != nil {
		t.Fatal(err)
	}
	own.lose()
	trial.Until(t, "its end", func() bool { return isGone(w) })
	if got := noted(); got[len(got)-1] != "end" || own.says() != "" {
		t.Errorf("noted %q, told %q", got, own.says())
	}
	dir, err := os.ReadDir(h.keeper.leases.dir)
	if err != nil || len(dir) > 0 {
		t.Errorf("files of leases are left: %v, %v", dir, err)
	}
}

// A worker that dies while it has nothing to do costs no message, and is told.
func TestAWorkerThatDiesIdleIsTold(t *testing.T) {
	t.Parallel()
	h, _ := workerHandler(t)
	own := newHolding("q0")
	if err := h.work(t.Context(), message("first 1"), own); err != nil {
		t.Fatal(err)
	}
	w, err := h.worker(own)
	if err != nil {
		t.Fatal(err)
	}
	h.keeper.mu.Lock()
	for _, c := range h.keeper.cmds {
		syscall.Kill(c.pid, syscall.SIGKILL)
	}
	h.keeper.mu.Unlock()
	trial.Until(t, "its end", func() bool { return isGone(w) })
	trial.Until(t, "that it is told", func() bool {
		return own.says() == "worker-ended: a worker ended although it had nothing to do: the command was ended by signal 9"
	})
	if err := h.work(t.Context(), message("then 2"), own); err != nil {
		t.Error(err)
	}
}

// A command that cannot be started is not a try.
func TestAWorkerThatCannotBeStartedIsNoTry(t *testing.T) {
	t.Parallel()
	h, _ := workerHandler(t)
	h.deed.argv = []string{"/no/such/worker"}
	if err := h.work(t.Context(), message("1"), newHolding("q0")); kindOf(err) != rota.ErrUntried || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

// A message that is larger than a pipe, and is not read, holds up nobody for ever.
func TestAWorkerThatDoesNotReadIsEnded(t *testing.T) {
	t.Parallel()
	h, _ := workerHandler(t)
	h.deed.argv = []string{"/bin/sleep", "1000"}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := h.work(ctx, message(strings.Repeat("x", 1<<20)), newHolding("q0")); kindOf(err) != errFailed {
		t.Errorf("got %v", err)
	}
	h.deed.argv = []string{"/bin/sh", "-c", "exec <&-; sleep 1000"}
	if err := h.work(t.Context(), message(strings.Repeat("x", 1<<20)), newHolding("q1")); kindOf(err) != rota.ErrUntried || !strings.Contains(err.Error(), "it reads no messages") {
		t.Errorf("got %v", err)
	}
}

// A whole member with workers that misbehave in every way: each message is handled, in
// the order of its partition, and no innocent one is counted as tried.
func TestB_Agent_WorkersThatMisbehaveCostNoMessageAndNoOrder(t *testing.T) {
	for name, single := range map[string]bool{"partition": false, "member": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, noted := workerHandler(t)
			h.workers.single = single
			hows := []string{"garbage", "twice", "ahead", "closes", "half", "exit3", "exit0", "failed", "later", "refused"}
			src := rotatest.NewMemSource(4, "q0", "q1")
			var want []string
			for i, how := range hows {
				src.Publish("q0", fmt.Appendf(nil, "%s %d", how, i))
				src.Publish("q1", fmt.Appendf(nil, "plain %d", i))
				want = append(want, fmt.Sprintf("plain %d", i))
			}
			m, err := rota.New(rota.Config{Group: "g", Store: rotatest.NewMemStore(), Source: src, NewGroup: true, Handle: h.handle(), BackoffFirst: 5 * time.Millisecond, BackoffLast: 20 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			trial.Until(t, "all messages", func() bool { return src.Backlog("q0")+src.Backlog("q1") == 0 })
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if dead := src.Dead(); len(dead) > 0 {
				t.Errorf("dead letters: %v", dead)
			}
			inOrder(t, noted(), "q1 ", want)
			inOrder(t, noted(), "q0 ", nil)
		})
	}
}

// inOrder asks that the messages of a partition were first handled in order, each with
// its first attempt if want has it.
func inOrder(t *testing.T, noted []string, partition string, want []string) {
	t.Helper()
	var first []string
	last := -1
	for _, l := range noted {
		l, ok := strings.CutPrefix(l, partition)
		if !ok {
			continue
		}
		value, attempt, _ := strings.Cut(l, "/")
		var n int
		if _, err := fmt.Sscanf(value[strings.IndexByte(value, ' '):], "%d", &n); err != nil {
			t.Fatal(err)
		}
		if n > last+1 && want != nil || n < last {
			t.Errorf("%s comes after %d", l, last)
		}
		last = max(last, n)
		if want != nil && attempt != "1" {
			t.Errorf("%s was counted as tried", l)
		}
		if !slices.Contains(first, value) {
			first = append(first, value)
		}
	}
	if want != nil && !slices.Equal(first, want) {
		t.Errorf("handled %q, want %q", first, want)
	}
}

// What reaches a worker, a command and a server is the same.
func TestEveryHandlerLearnsTheSame(t *testing.T) {
	t.Parallel()
	h := &handler{group: "g", member: "c1"}
	own := newHolding("q0")
	msg := rota.Message{ID: "i", Partition: "q0", Attempt: 2, Position: 1<<63 + 1, Key: []byte("a b"), Value: []byte("v\n"), Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)),
		Headers: []rota.Header{{Key: "h", Value: []byte("ü")}, {Key: "h", Value: []byte{0xff}}}}
	f := h.frameOf(msg, own)
	f.Seq = 1
	b, err := f.encode(msg.Value)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"seq":1,"bytes":2,"group":"g","member":"c1","partition":"q0","topic":"T","token":"1152921504606846983","session":"s","id":"i","attempt":2,"position":"9223372036854775809",` +
		`"time":"2026-01-02T02:04:05.000000006Z","key":"a b","headers":[["h","ü"],["h",{"base64":"/w=="}]],"meta":{"k":"<v>"}}` + "\nv\n"
	if string(b) != want {
		t.Errorf("a worker gets\n%s, want\n%s", b, want)
	}
	got := map[string]string{}
	for _, a := range append(h.facts(own), h.factsOf(msg)[7:]...) {
		got[a.key] = a.value
	}
	for key, want := range map[string]string{"GROUP": "g", "MEMBER": "c1", "PARTITION": "q0", "TOPIC": "T", "TOKEN": "1152921504606846983", "SESSION": "s", "META": `{"k":"<v>"}`,
		"ATTEMPT": "2", "MESSAGE_POSITION": "9223372036854775809", "MESSAGE_TIME": "2026-01-02T02:04:05.000000006Z", "MESSAGE_KEY": "a b", "MESSAGE_HEADERS": `[["h","\u00fc"],["h",{"base64":"/w=="}]]`} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	msg.Key, msg.Headers[0].Value = []byte("a\n"), make([]byte, mostHeaders)
	got = map[string]string{}
	for _, a := range h.factsOf(msg) {
		got[a.key] = a.value
	}
	if _, there := got["MESSAGE_HEADERS"]; there || got["MESSAGE_LEFT_OUT"] != "headers" || got["MESSAGE_KEY_BASE64"] != "YQo=" {
		t.Errorf("of a message with large headers: %v", slices.Sorted(maps.Keys(got)))
	}
}

// A worker that is busy when the stop time is nearly over is asked by SIGTERM.
func TestSIGTERMComesBeforeSIGKILL(t *testing.T) {
	t.Parallel()
	k := keep(t, 50*time.Millisecond)
	const polite = `trap 'echo asked; exit 7' TERM; echo up; while :; do sleep 0.01; done`
	for name, begin := range map[string]func(up func(), c *command) context.Context{
		"handle-time": func(up func(), c *command) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { up(); cancel() }()
			return ctx
		},
		"stop": func(up func(), c *command) context.Context {
			stop := make(chan struct{})
			c.stop, c.stopAfter = stop, 100*time.Millisecond
			go func() { up(); close(stop) }()
			return t.Context()
		},
	} {
		c, out := sh(t, polite)
		ctx := begin(func() { trial.Until(t, "the command", func() bool { return out() != "" }) }, &c)
		err := k.run(ctx, forLong, c)
		var exit exitError
		if !errors.As(err, &exit) || exit.code != 7 || !strings.HasSuffix(out(), "asked\n") {
			t.Errorf("%s: %v, wrote %q", name, err, out())
		}
	}
	// Without a lease there is no time to ask.
	own := newHolding("q0")
	ctx, cancel := context.WithCancel(t.Context())
	c, out := sh(t, polite)
	go func() {
		trial.Until(t, "the command", func() bool { return out() != "" })
		own.lose()
		cancel()
	}()
	if err := k.run(ctx, own, c); err == nil || out() != "up\n" {
		t.Errorf("%v, wrote %q", err, out())
	}
}
