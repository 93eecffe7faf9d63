package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rota-dev/rota/internal/line"
)

// A narrowSink is where effects go. It takes no more of a member than so many per second,
// which is what that member sustains, and checks tokens and the order.
type narrowSink struct {
	addr string
	each time.Duration // of a member, for one effect

	mu      sync.Mutex
	out     *bufio.Writer
	free    map[string]time.Time // by session: when its next effect may begin
	highest map[string]uint64
	next    map[string]int // by partition: everything below was accepted
	handled int
	wrong   []string
}

func newNarrowSink(t *testing.T, dir string, capacity float64) *narrowSink {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "sink.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &narrowSink{addr: l.Addr().String(), each: time.Duration(float64(time.Second) / capacity), out: bufio.NewWriter(f), free: map[string]time.Time{}, highest: map[string]uint64{}, next: map[string]int{}}
	srv := &http.Server{Handler: s}
	go srv.Serve(l)
	t.Cleanup(func() {
		srv.Close()
		s.flush()
		f.Close()
	})
	return s
}

// turn waits for a member's next free moment.
func (s *narrowSink) turn(ctx context.Context, session string) {
	s.mu.Lock()
	end := s.free[session]
	if now := time.Now(); end.Before(now) {
		end = now
	}
	end = end.Add(s.each)
	s.free[session] = end
	s.mu.Unlock()
	select {
	case <-time.After(time.Until(end)):
	case <-ctx.Done():
	}
}

// ServeHTTP takes an effect, whose body is its number in the partition.
func (s *narrowSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it never came in whole
	}
	n, bad := strconv.Atoi(string(body))
	token, bad2 := strconv.ParseUint(r.Header.Get("Rota-Token"), 10, 64)
	l := line.New(line.Accept, r.Header.Get("Rota-Group"), "sink")
	l.Session, l.Partition, l.Token, l.Message = r.Header.Get("Rota-Session"), r.Header.Get("Rota-Partition"), token, r.Header.Get("Rota-Message-Id")
	s.turn(r.Context(), l.Session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if bad != nil || bad2 != nil {
		s.wrong = append(s.wrong, fmt.Sprintf("an effect nobody asked for: %q %v", body, r.Header))
	}
	if token < s.highest[l.Partition] {
		l.Event = line.Refuse
		http.Error(w, "the partition has a later owner", http.StatusConflict)
	} else {
		s.highest[l.Partition] = token
		switch next := s.next[l.Partition]; {
		case n > next:
			s.wrong = append(s.wrong, fmt.Sprintf("%s: message %d came before %d", l.Partition, n, next))
		case n == next:
			s.next[l.Partition]++
			s.handled++
		}
	}
	json.NewEncoder(s.out).Encode(l)
}

func (s *narrowSink) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Flush()
}

// got is how many messages were handled, each counted once, and what was wrong with them.
func (s *narrowSink) got() (handled int, wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handled, s.wrong
}

// A wave publishes at a rate that changes over time, to all partitions in turn.
type wave struct {
	js         jetstream.JetStream
	subject    string // with a number for each partition at its end
	partitions int
	rate       func(since time.Duration) float64
	began      time.Time
	over       sync.WaitGroup
	end        context.CancelFunc

	mu   sync.Mutex
	sent int // of this load and those before
	bad  error
}

// newWave begins to publish.
func newWave(t *testing.T, url, subject string, partitions int, rate func(time.Duration) float64) *wave {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	w := &wave{subject: subject, partitions: partitions, rate: rate}
	w.js, err = jetstream.New(nc, jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { w.fail(err) }))
	if err != nil {
		t.Fatal(err)
	}
	w.begin()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *wave) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	w.end, w.began = cancel, time.Now()
	w.over.Go(func() { w.run(ctx) })
}

// resume publishes at another rate, after stop.
func (w *wave) resume(rate func(time.Duration) float64) {
	w.rate = rate
	w.begin()
}

func (w *wave) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = err
}

func (w *wave) run(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	n, last := w.sent, time.Duration(0)
	for due := float64(n); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		since := time.Since(w.began)
		due += w.rate(since) * (since - last).Seconds()
		for last = since; float64(n) < due; n++ {
			if _, err := w.js.PublishAsync(fmt.Sprintf("%s%d", w.subject, n%w.partitions), strconv.AppendInt(nil, int64(n/w.partitions), 10)); err != nil {
				w.fail(err)
				return
			}
			w.mu.Lock()
			w.sent++
			w.mu.Unlock()
		}
	}
}

func (w *wave) count() (sent int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent, w.bad
}

// stop ends it when everything was acknowledged, and returns how much was published.
func (w *wave) stop() (sent int, err error) {
	w.end()
	w.over.Wait()
	select {
	case <-w.js.PublishAsyncComplete():
	case <-time.After(30 * time.Second):
		w.fail(fmt.Errorf("%d messages were not acknowledged", w.js.PublishAsyncPending()))
	}
	return w.count()
}
