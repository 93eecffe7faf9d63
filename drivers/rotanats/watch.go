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

// A watch subscribes to the echo of a prefix and reads what there is, in this
// order, so that nothing falls in between. The echo is an ordinary subscription:
// a thousand members hear of a plan several times cheaper than by a JetStream
// consumer each. It may miss something: when the stream gets another leader, or
// in a cluster before the subscription has reached every server. So everything
// is read again at such times, and now and then in any case. A lost connection
// ends the watch, and so does another bucket of the same name: its revisions say
// nothing about which version is the newer.
type watch struct {
	s      *store
	prefix string
	made   time.Time // when the bucket was made that it watches

	mu    sync.Mutex
	seen  map[string]uint64 // key → newest revision, of marks too while they last
	live  map[string]bool   // keys that were last shown as existing
	news  []rota.Entry      // the newest version per key, not shown yet
	at    map[string]int    // key → place in news
	err   error             // why it ends
	wake  chan struct{}     // holds one token while there may be something to take
	look  chan struct{}     // holds one token when everything is to be read again
	doubt chan struct{}     // holds one token when the bucket may be another
	hints map[string]uint64 // key → revision that an unproven echo tells of
	hint  chan struct{}     // holds one token while there are hints
}

func newWatch(s *store, prefix string) *watch {
	return &watch{s: s, prefix: prefix, seen: map[string]uint64{}, live: map[string]bool{}, at: map[string]int{},
		wake: make(chan struct{}, 1), look: make(chan struct{}, 1), doubt: make(chan struct{}, 1),
		hints: map[string]uint64{}, hint: make(chan struct{}, 1)}
}

// How soon and how often everything is read again.
const (
	secondLook = 200 * time.Millisecond
	lookEvery  = 30 * time.Second
	doubtEvery = time.Second            // at most; a revision that is merely late is no rarity
	hintEvery  = 100 * time.Millisecond // at most; the first is followed at once
	mostHints  = 64                     // keys; with more, everything is read
)

var (
	errMissed      = errors.New("rotanats: the watch may have missed something")
	errOtherBucket = errors.New("the bucket was deleted and made again")
)

func (s *store) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w := newWatch(s, prefix)
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
	before := maps.Clone(w.seen)
	w.mu.Unlock()
	keys, made, err := w.list(ctx)
	if err != nil {
		return err
	}
	if err := w.same(made); err != nil {
		return err
	}
	if err := w.s.getAll(ctx, keys, func(e rota.Entry) { w.show(e); delete(before, e.Key) }); err != nil {
		return err
	}
	w.vanished(before)
	return nil
}

// list names what there is to read, and when the bucket was made. Of a single key
// the first read takes the latter from what is known of the bucket: watches begin
// when members do, and every question in a row is felt then.
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

// same sees that the bucket is still the one that was read first.
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

// vanished: of these keys, at these revisions, not even a mark is left. A mark lasts
// for longer than an echo can be late, so what was known to be deleted need not be
// remembered any more.
func (w *watch) vanished(keys map[string]uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, rev := range keys {
		switch {
		case w.seen[k] != rev: // since it was read
		case w.live[k]:
			w.add(rota.Entry{Key: k, Deleted: true})
		default:
			delete(w.seen, k)
		}
	}
}

// list names all keys under a prefix, deleted ones too while their marks last, and
// tells when the bucket was made.
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
	again := func() time.Duration { return lookEvery/2 + rand.N(lookEvery) } // not all at once
	next := time.NewTimer(again())
	defer next.Stop()
	if clustered {
		next.Reset(secondLook)
	}
	doubt, calm := w.doubt, (<-chan time.Time)(nil)
	hint, rest := w.hint, (<-chan time.Time)(nil)
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-w.look:
			err = w.read(ctx)
			next.Reset(again())
		case <-next.C:
			err = w.read(ctx)
			next.Reset(again())
		case <-doubt:
			var made time.Time
			if made, err = w.s.made(ctx); err == nil {
				err = w.same(made)
			}
			doubt, calm = nil, time.After(doubtEvery)
		case <-calm:
			doubt = w.doubt
		case <-hint:
			err = w.follow(ctx)
			hint, rest = nil, time.After(hintEvery)
		case <-rest:
			hint = w.hint
		}
		if err != nil {
			w.fail(fmt.Errorf("%w: %w", errMissed, err))
			return
		}
	}
}

// heard takes an echo.
func (w *watch) heard(msg *nats.Msg) {
	rev, err := strconv.ParseUint(msg.Header.Get(headerSequence), 10, 64)
	if err != nil {
		return // somebody else's: the server numbers all it repeats
	}
	name := strings.TrimPrefix(msg.Subject, "_rota."+w.s.name+".")
	key := strings.ReplaceAll(name, ".", "/")
	if !sealed(w.s.sealing(), "$KV."+w.s.name+"."+name, msg) {
		w.heed(key, rev)
		return
	}
	w.show(rota.Entry{Key: key, Value: msg.Data, Rev: rota.Rev(rev), Deleted: msg.Header.Get(headerOperation) != ""})
}

// heed takes a hint: somebody says that key has changed, and nothing proves it.
func (w *watch) heed(key string, rev uint64) {
	w.mu.Lock()
	if len(w.hints) < mostHints || w.hints[key] != 0 {
		w.hints[key] = max(w.hints[key], rev)
	} else {
		poke(w.look)
	}
	w.mu.Unlock()
	poke(w.hint)
}

// follow reads what hints tell of. A revision that the store has not reached is a
// lie. The key of the seals is asked for, too: if the bucket was given another, all
// echoes are hints until it is known.
func (w *watch) follow(ctx context.Context) error {
	w.mu.Lock()
	hints := w.hints
	w.hints = map[string]uint64{}
	w.mu.Unlock()
	made, err := w.s.made(ctx)
	if err == nil {
		err = w.same(made)
	}
	if err != nil {
		return err
	}
	var keys []string
	for k := range hints {
		if checkKey(k) == nil {
			keys = append(keys, k)
		}
	}
	err = w.s.getAll(ctx, keys, func(e rota.Entry) {
		if uint64(e.Rev) >= hints[e.Key] {
			delete(hints, e.Key)
		}
		w.show(e)
	})
	if err == nil && len(hints) > 0 {
		w.s.warn(fmt.Sprintf("somebody who is not the server tells of changes on _rota.%s.> that are not so: "+
			"they are not believed. Nobody but the server should be allowed to publish there", w.s.name))
	}
	return err
}

// show adds a version to the news if it is newer than what was shown.
func (w *watch) show(e rota.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uint64(e.Rev) <= w.seen[e.Key] {
		if uint64(e.Rev) < w.seen[e.Key] {
			poke(w.doubt) // late, or of another bucket
		}
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
