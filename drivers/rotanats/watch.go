package rotanats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
)

// A watch subscribes to the echo of a prefix and reads what there is, in this
// order, so that nothing falls in between. The echo is an ordinary subscription:
// a thousand members hear of a plan several times cheaper than by a JetStream
// consumer each. It may miss something: when the stream gets another leader, or
// in a cluster before the subscription has reached every server. So everything
// is read again at such times, and now and then in any case. A lost connection
// ends the watch.
type watch struct {
	s      *store
	prefix string

	mu   sync.Mutex
	seen map[string]uint64 // key → newest revision, of marks too
	live map[string]bool   // keys that were last shown as existing
	news []rota.Entry      // the newest version per key, not shown yet
	at   map[string]int    // key → place in news
	err  error             // why it ends
	wake chan struct{}     // holds one token while there may be something to take
	look chan struct{}     // holds one token when everything is to be read again
}

// How soon and how often everything is read again.
const (
	secondLook = 200 * time.Millisecond
	lookEvery  = 30 * time.Second
)

var errMissed = errors.New("rotanats: the watch may have missed something")

func (s *store) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w := &watch{s: s, prefix: prefix, seen: map[string]uint64{}, live: map[string]bool{}, at: map[string]int{},
			wake: make(chan struct{}, 1), look: make(chan struct{}, 1)}
		clustered, hush, err := w.begin(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer hush()
		batch, err := w.take()
		if err != nil {
			yield(nil, err)
			return
		}
		gone := func(e rota.Entry) bool { return e.Deleted } // since it was read
		if !yield(slices.DeleteFunc(batch, gone), nil) {
			return
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { w.keepLooking(ctx, clustered) })
		for {
			select {
			case <-w.wake:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
			batch, err := w.take()
			if len(batch) > 0 && !yield(batch, nil) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// begin subscribes, then reads.
func (w *watch) begin(ctx context.Context) (clustered bool, hush func(), err error) {
	if err := checkPrefix(w.prefix); err != nil {
		return false, nil, err
	}
	b, err := w.s.open(ctx)
	if err != nil {
		return false, nil, err
	}
	hushEcho, err := w.s.hear(ctx, w.s.echo(wildcard(w.prefix)), w.heard, w.fail)
	if err != nil {
		return false, nil, err
	}
	hush = hushEcho
	if b.replicas > 1 {
		// The new leader does not repeat what the old one may have left untold.
		hushLeader, err := w.s.hear(ctx, "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+w.s.stream(), func(*nats.Msg) { poke(w.look) }, func(error) {})
		if err != nil {
			hushEcho()
			return false, nil, err
		}
		hush = func() { hushEcho(); hushLeader() }
	}
	if err := w.read(ctx); err != nil {
		hush()
		return false, nil, err
	}
	return b.replicas > 1, hush, nil
}

func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return checkKey(strings.TrimSuffix(prefix, "/"))
}

// wildcard is the pattern of all keys under a prefix, as a key.
func wildcard(prefix string) string {
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return prefix + ">"
	}
	return prefix
}

// read reads everything under the prefix, from the leader.
func (w *watch) read(ctx context.Context) error {
	w.mu.Lock()
	before := make(map[string]uint64, len(w.seen))
	for k := range w.live {
		before[k] = w.seen[k]
	}
	w.mu.Unlock()
	keys := []string{w.prefix}
	if wildcard(w.prefix) != w.prefix {
		var err error
		if keys, err = w.s.list(ctx, w.prefix); err != nil {
			return err
		}
	}
	if err := w.s.getAll(ctx, keys, func(e rota.Entry) { w.show(e); delete(before, e.Key) }); err != nil {
		return err
	}
	w.vanished(before)
	return nil
}

// vanished: of these not even a mark is left.
func (w *watch) vanished(keys map[string]uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, rev := range keys {
		if w.live[k] && w.seen[k] == rev {
			w.add(rota.Entry{Key: k, Deleted: true})
		}
	}
}

// list names all keys under a prefix, deleted ones too while their marks last.
func (s *store) list(ctx context.Context, prefix string) (keys []string, err error) {
	for {
		var page streamInfo
		q := map[string]any{"subjects_filter": s.subject(wildcard(prefix)), "offset": len(keys)}
		if err := s.ask(ctx, "STREAM.INFO."+s.stream(), q, &page); err != nil {
			if code(err) == codeNoStream {
				s.forget()
			}
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		for subject := range page.State.Subjects {
			keys = append(keys, s.key(subject))
		}
		if len(page.State.Subjects) == 0 || len(keys) >= page.Total {
			return keys, nil
		}
	}
}

// gets is how many cells are asked for at once.
const gets = 32

// getAll reads cells, several at once, and hands over those there are.
func (s *store) getAll(ctx context.Context, keys []string, take func(rota.Entry)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	todo := make(chan string)
	type result struct {
		e   rota.Entry
		err error
	}
	done := make(chan result)
	var wg sync.WaitGroup
	for range min(gets, len(keys)) {
		wg.Go(func() {
			for k := range todo {
				e, err := s.get(ctx, k)
				done <- result{e, err}
			}
		})
	}
	go func() {
		for _, k := range keys {
			todo <- k
		}
		close(todo)
	}()
	var failed error
	for range keys {
		r := <-done
		switch {
		case r.err == nil:
			take(r.e)
		case !errors.Is(r.err, rota.ErrNotFound) && failed == nil:
			failed = r.err
			cancel() // the others fail at once
		}
	}
	wg.Wait()
	return failed
}

// keepLooking reads everything again when there is reason to, and seldom without.
func (w *watch) keepLooking(ctx context.Context, clustered bool) {
	next := lookEvery/2 + rand.N(lookEvery) // not all at once
	if clustered {
		next = secondLook
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.look:
		case <-time.After(next):
		}
		if err := w.read(ctx); err != nil {
			w.fail(fmt.Errorf("%w: %w", errMissed, err))
			return
		}
		next = lookEvery/2 + rand.N(lookEvery)
	}
}

// heard takes an echo.
func (w *watch) heard(msg *nats.Msg) {
	rev, err := strconv.ParseUint(msg.Header.Get(headerSequence), 10, 64)
	if err != nil {
		return // somebody else's: the server numbers all it repeats
	}
	key := strings.ReplaceAll(strings.TrimPrefix(msg.Subject, "_rota."+w.s.name+"."), ".", "/")
	w.show(rota.Entry{Key: key, Value: msg.Data, Rev: rota.Rev(rev), Deleted: msg.Header.Get(headerOperation) != ""})
}

// show adds a version to the news if it is newer than what was shown.
func (w *watch) show(e rota.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uint64(e.Rev) <= w.seen[e.Key] {
		return
	}
	w.seen[e.Key] = uint64(e.Rev)
	if e.Deleted {
		e.Value, e.Rev = nil, 0 // a mark is nothing to build on
		if !w.live[e.Key] {
			return // nobody has heard of it
		}
	}
	w.add(e)
}

// add makes e the news of its key.
func (w *watch) add(e rota.Entry) {
	if e.Deleted {
		delete(w.live, e.Key)
	} else {
		w.live[e.Key] = true
	}
	if i, ok := w.at[e.Key]; ok {
		w.news[i] = e
	} else {
		w.at[e.Key] = len(w.news)
		w.news = append(w.news, e)
	}
	poke(w.wake)
}

// take returns what has not been shown yet.
func (w *watch) take() ([]rota.Entry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.news
	w.news = nil
	clear(w.at)
	return batch, w.err
}

func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	poke(w.wake)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
