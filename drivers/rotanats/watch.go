package rotanats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
)

// A watch subscribes to the echo of a prefix and then reads all records, in this order,
// so that no change falls in between. An ordinary subscription is several times cheaper
// for a thousand members than a JetStream consumer each. It may miss changes: when the
// stream gets another leader, or in a cluster before every server knows the
// subscription. So all records are read again at such times, and at intervals in any
// case. The watch ends when the connection is lost, and when the bucket was deleted and
// created again, since revisions of two buckets cannot be compared.
type watch struct {
	s      *store
	prefix string
	made   time.Time // when the bucket was created

	echoes  chan *nats.Msg     // of a single key; nil of a prefix
	sub     *nats.Subscription // its subscription
	dropped int                // echoes for which there was no room

	// Of keepOn, which waits with as small a stack as possible.
	cancelRead            context.CancelFunc // ends the read that is under way; nil without one
	doubtPause, hintPause <-chan time.Time

	mu    sync.Mutex
	seen  map[string]uint64 // key → newest revision, also of deletion marks
	live  map[string]bool   // keys that the caller knows to exist
	news  []rota.Entry      // the newest version per key that the caller has not got yet
	at    map[string]int    // key → index in news; nil without news
	err   error             // why the watch ends
	hints map[string]uint64 // key → revision that an echo without a valid seal claims; nil without any

	// Signals, each a channel with room for one.
	wake  chan struct{} // there may be news
	look  chan struct{} // read all records again
	doubt chan struct{} // the bucket may be a new one
	hint  chan struct{} // there are hints
}

func newWatch(s *store, prefix string) *watch {
	return &watch{s: s, prefix: prefix, seen: map[string]uint64{}, live: map[string]bool{},
		wake: make(chan struct{}, 1), look: make(chan struct{}, 1), doubt: make(chan struct{}, 1), hint: make(chan struct{}, 1)}
}

// Intervals and limits of reading again.
const (
	secondLook = 200 * time.Millisecond // after the first, in a cluster
	lookEvery  = 30 * time.Second       // on average
	doubtEvery = time.Second            // at most so often, since late echoes are common
	hintEvery  = 100 * time.Millisecond // at most so often; the first hint is followed at once
	mostHints  = 64                     // keys; with more, all records are read
	mostEchoes = 16                     // of a single key that wait; with more, it is read again
)

var (
	errMissed      = errors.New("rotanats: the watch may have missed changes")
	errOtherBucket = errors.New("the bucket was deleted and created again")
)

func (s *store) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		w := newWatch(s, prefix)
		clustered, unsubscribe, err := w.begin(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer unsubscribe()
		if !w.yieldFirst(yield) {
			return
		}
		if err := w.keepOn(ctx, clustered, yield); err != nil {
			yield(nil, err)
		}
	}
}

func (w *watch) yieldFirst(yield func([]rota.Entry, error) bool) (goOn bool) {
	batch, err := w.next()
	if err != nil {
		yield(nil, err)
		return false
	}
	gone := func(e rota.Entry) bool { return e.Deleted } // deleted since it was read
	return yield(slices.DeleteFunc(batch, gone), nil)
}

// yieldNews tells whether the watch goes on.
func (w *watch) yieldNews(yield func([]rota.Entry, error) bool) (goOn bool, err error) {
	batch, err := w.next()
	if len(batch) > 0 && !yield(batch, nil) {
		return false, nil
	}
	return err == nil, err
}

// keepOn yields news until the watch ends and returns why, or nil if the caller has
// enough. It reads all records again when changes may have been missed, and at long
// intervals in any case; it also follows hints and doubts. One of these reads is under
// way at a time, beside the news, in a goroutine that ends with it: a thousand members
// have three thousand watches.
func (w *watch) keepOn(ctx context.Context, clustered bool, yield func([]rota.Entry, error) bool) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer w.endRead()
	next := time.NewTimer(untilLook())
	defer next.Stop()
	if clustered {
		next.Reset(secondLook)
	}
	done := make(chan error, 1)
	for {
		look, due, doubt, hint := w.look, next.C, w.doubt, w.hint
		if w.cancelRead != nil {
			look, due, doubt, hint = nil, nil, nil, nil
		}
		if w.doubtPause != nil {
			doubt = nil
		}
		if w.hintPause != nil {
			hint = nil
		}
		var read func(context.Context) error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
			if goOn, err := w.yieldNews(yield); !goOn {
				return err
			}
		case msg := <-w.echoes:
			w.onEcho(msg)
			w.countDropped()
		case <-look:
			read = w.read
			next.Reset(untilLook())
		case <-due:
			read = w.read
			next.Reset(untilLook())
		case <-doubt:
			read, w.doubtPause = w.check, time.After(doubtEvery)
		case <-w.doubtPause:
			w.doubtPause = nil
		case <-hint:
			read, w.hintPause = w.follow, time.After(hintEvery)
		case <-w.hintPause:
			w.hintPause = nil
		case err := <-done:
			w.endRead()
			if err != nil {
				w.failMissed(err)
			}
		}
		if read != nil {
			w.beginRead(ctx, &wg, read, done)
		}
	}
}

// beginRead is not part of keepOn, whose stack is kept small.
//
//go:noinline
func (w *watch) beginRead(ctx context.Context, wg *sync.WaitGroup, read func(context.Context) error, done chan<- error) {
	ctx, w.cancelRead = context.WithCancel(ctx)
	wg.Go(func() { done <- read(ctx) })
}

func (w *watch) endRead() {
	if w.cancelRead != nil {
		w.cancelRead()
		w.cancelRead = nil
	}
}

// untilLook has jitter, so that members do not read all at once.
func untilLook() time.Duration { return lookEvery/2 + rand.N(lookEvery) }

func (w *watch) failMissed(err error) { w.fail(fmt.Errorf("%w: %w", errMissed, err)) }

// begin subscribes, then reads.
func (w *watch) begin(ctx context.Context) (clustered bool, unsubscribe func(), err error) {
	if err := checkPrefix(w.prefix); err != nil {
		return false, nil, err
	}
	b, err := w.s.open(ctx)
	if err != nil {
		return false, nil, err
	}
	closeEcho, err := w.listen(ctx)
	if err != nil {
		return false, nil, err
	}
	unsubscribe = closeEcho
	if b.replicas > 1 {
		// A new leader does not repeat writes that the old one accepted and did not echo.
		closeLeader, err := w.s.subscribe(ctx, "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+w.s.stream(), func(*nats.Msg) { signal(w.look) }, func(error) {})
		if err != nil {
			closeEcho()
			return false, nil, err
		}
		unsubscribe = func() { closeEcho(); closeLeader() }
	}
	if err := w.read(ctx); err != nil {
		unsubscribe()
		return false, nil, err
	}
	return b.replicas > 1, unsubscribe, nil
}

// listen subscribes to the echo. Every member watches three single keys, whose echoes are
// few, and they cost no goroutine. Those of a prefix may be many: they must not wait for
// the caller.
func (w *watch) listen(ctx context.Context) (closeEcho func(), err error) {
	subject := w.s.echo(wildcard(w.prefix))
	if wildcard(w.prefix) != w.prefix {
		return w.s.subscribe(ctx, subject, w.onEcho, w.fail)
	}
	w.echoes = make(chan *nats.Msg, mostEchoes)
	w.sub, closeEcho, err = w.s.subscribeTo(ctx, subject, w.echoes, w.fail)
	return closeEcho, err
}

// countDropped makes the watch read again if echoes were dropped. They were while echoes
// is full, so another is handled after that.
func (w *watch) countDropped() {
	if n, err := w.sub.Dropped(); err == nil && n > w.dropped {
		w.dropped = n
		signal(w.look)
	}
}

func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return checkKey(strings.TrimSuffix(prefix, "/"))
}

// wildcard returns the pattern of all keys under a prefix, in the form of a key.
func wildcard(prefix string) string {
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return prefix + ">"
	}
	return prefix
}

// read reads all records under the prefix, from the stream's leader.
func (w *watch) read(ctx context.Context) error {
	w.mu.Lock()
	before := maps.Clone(w.seen)
	w.mu.Unlock()
	keys, made, err := w.list(ctx)
	if err != nil {
		return err
	}
	if err := w.same(made); err != nil {
		return err
	}
	if err := w.s.getAll(ctx, keys, func(e rota.Entry) { w.observe(e); delete(before, e.Key) }); err != nil {
		return err
	}
	w.vanished(before)
	return nil
}

// list returns the keys to read, and when the bucket was created. For a single key the
// first read uses the cached time: watches begin when members start, and every further
// round trip delays them.
func (w *watch) list(ctx context.Context) (keys []string, made time.Time, err error) {
	if wildcard(w.prefix) != w.prefix {
		return w.s.list(ctx, w.prefix)
	}
	if w.made.IsZero() {
		b, err := w.s.open(ctx)
		if err != nil {
			return nil, made, err
		}
		return []string{w.prefix}, b.made, nil
	}
	made, err = w.s.made(ctx)
	return []string{w.prefix}, made, err
}

// same returns an error if the bucket is not the one that was read first.
func (w *watch) same(made time.Time) error {
	if w.made.IsZero() {
		w.made = made
	}
	if !made.Equal(w.made) {
		w.s.forget()
		return errOtherBucket
	}
	return nil
}

// check asks whether the bucket is still the one that was read first.
func (w *watch) check(ctx context.Context) error {
	made, err := w.s.made(ctx)
	if err != nil {
		return err
	}
	return w.same(made)
}

// vanished handles keys, with the revisions last seen, of which the store has neither a
// record nor a mark. A key that the caller knows is reported as deleted; one that was
// deleted before is forgotten, since a mark lasts longer than an echo can be late.
func (w *watch) vanished(keys map[string]uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, rev := range keys {
		switch {
		case w.seen[k] != rev: // a newer version arrived meanwhile
		case w.live[k]:
			w.add(rota.Entry{Key: k, Deleted: true})
		default:
			delete(w.seen, k)
		}
	}
}

// list returns all keys under a prefix, with deleted ones until their marks expire, and
// when the bucket was created.
func (s *store) list(ctx context.Context, prefix string) (keys []string, made time.Time, err error) {
	for {
		var page streamInfo
		q := map[string]any{"subjects_filter": s.subject(wildcard(prefix)), "offset": len(keys)}
		if err := s.ask(ctx, "STREAM.INFO."+s.stream(), q, &page); err != nil {
			if code(err) == codeNoStream {
				s.forget()
			}
			return nil, made, fmt.Errorf("list %s: %w", prefix, err)
		}
		for subject := range page.State.Subjects {
			keys = append(keys, s.key(subject))
		}
		if len(page.State.Subjects) == 0 || len(keys) >= page.Total {
			return keys, page.Created, nil
		}
	}
}

// gets is how many records are read concurrently.
const gets = 32

// getAll reads records concurrently and calls use for each that exists, one at a time.
func (s *store) getAll(ctx context.Context, keys []string, use func(rota.Entry)) error {
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
				v, err := s.get(ctx, k)
				done <- result{v.Entry, err}
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
			use(r.e)
		case !errors.Is(r.err, rota.ErrNotFound) && failed == nil:
			failed = r.err
			cancel() // the remaining reads fail at once
		}
	}
	wg.Wait()
	return failed
}

// onEcho handles an echo. Without a valid seal it is a hint.
func (w *watch) onEcho(msg *nats.Msg) {
	rev, err := strconv.ParseUint(msg.Header.Get(headerSequence), 10, 64)
	if err != nil {
		return // not from the server, which numbers every echo
	}
	name := strings.TrimPrefix(msg.Subject, "_rota."+w.s.name+".")
	key := strings.ReplaceAll(name, ".", "/")
	if !sealed(w.s.sealing(), "$KV."+w.s.name+"."+name, msg) {
		w.addHint(key, rev)
		return
	}
	w.observe(rota.Entry{Key: key, Value: msg.Data, Rev: rota.Rev(rev), Deleted: msg.Header.Get(headerOperation) != ""})
}

// addHint notes a hint: a message claims that key has changed, without proof.
func (w *watch) addHint(key string, rev uint64) {
	w.mu.Lock()
	if w.hints == nil {
		w.hints = map[string]uint64{}
	}
	if len(w.hints) < mostHints || w.hints[key] != 0 {
		w.hints[key] = max(w.hints[key], rev)
	} else {
		signal(w.look)
	}
	w.mu.Unlock()
	signal(w.hint)
}

// follow reads the records that hints name. A hint with a revision that the record does
// not have is forged. follow also reads the key of the seals again: if the bucket has
// got a new one, all echoes are hints until it is known.
func (w *watch) follow(ctx context.Context) error {
	w.mu.Lock()
	hints := w.hints
	w.hints = nil
	w.mu.Unlock()
	if err := w.check(ctx); err != nil {
		return err
	}
	var keys []string
	for k := range hints {
		if checkKey(k) == nil {
			keys = append(keys, k)
		}
	}
	err := w.s.getAll(ctx, keys, func(e rota.Entry) {
		if uint64(e.Rev) >= hints[e.Key] {
			delete(hints, e.Key)
		}
		w.observe(e)
	})
	if err == nil && len(hints) > 0 {
		w.s.warn(fmt.Sprintf("a client other than the server publishes changes on _rota.%s.> that did not happen: "+
			"they are ignored. Allow nobody but the server to publish there", w.s.name))
	}
	return err
}

// observe adds a version of a record to the news if it is newer than the last one.
func (w *watch) observe(e rota.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uint64(e.Rev) <= w.seen[e.Key] {
		if uint64(e.Rev) < w.seen[e.Key] {
			signal(w.doubt) // the version is late, or the bucket is a new one
		}
		return
	}
	w.seen[e.Key] = uint64(e.Rev)
	w.s.see(e.Key, e.Rev)
	if e.Deleted {
		e.Value, e.Rev = nil, 0 // a mark's revision is of no use to the caller
		if !w.live[e.Key] {
			return // the caller has never seen the key
		}
	}
	w.add(e)
}

// add makes e the news of its key. w.mu is held.
func (w *watch) add(e rota.Entry) {
	if e.Deleted {
		delete(w.live, e.Key)
	} else {
		w.live[e.Key] = true
	}
	if i, ok := w.at[e.Key]; ok {
		w.news[i] = e
	} else {
		if w.at == nil {
			w.at = map[string]int{}
		}
		w.at[e.Key] = len(w.news)
		w.news = append(w.news, e)
	}
	signal(w.wake)
}

// next returns the news since the last call, and why the watch ends, if it does.
func (w *watch) next() ([]rota.Entry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.news
	w.news, w.at = nil, nil
	return batch, w.err
}

func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	signal(w.wake)
}

// signal fills a channel that has room for one, unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
