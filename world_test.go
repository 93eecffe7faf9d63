package rota_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// depot is the store of a play: cells, a log that can be taken back, and hooks.
type depot struct {
	mu     sync.Mutex
	cells  map[string]rota.Entry
	rev    rota.Rev
	log    []logged
	links  []*link
	stall  time.Time
	refuse bool // plans
	server string
	class  rota.Class
	wrote  func(was, is rota.Entry)
}

type logged struct {
	at time.Time
	e  rota.Entry
}

func (d *depot) put(key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	d.mu.Lock()
	was := d.cells[key]
	if was.Rev != prev {
		d.mu.Unlock()
		return 0, rota.ErrConflict
	}
	d.rev++
	e := rota.Entry{Key: key, Value: slices.Clone(value), Rev: d.rev}
	d.set(e)
	d.mu.Unlock()
	d.wrote(was, e)
	d.show(e)
	return e.Rev, nil
}

func (d *depot) set(e rota.Entry) {
	if e.Deleted || e.Rev == 0 {
		delete(d.cells, e.Key)
	} else {
		d.cells[e.Key] = e
	}
	d.log = append(d.log, logged{time.Now(), e})
}

func (d *depot) get(key string) (rota.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.cells[key]; ok {
		return e, nil
	}
	return rota.Entry{}, rota.ErrNotFound
}

func (d *depot) delete(key string, prev rota.Rev) error {
	d.mu.Lock()
	if e, ok := d.cells[key]; !ok || e.Rev != prev {
		d.mu.Unlock()
		return rota.ErrConflict
	}
	d.rev++
	e := rota.Entry{Key: key, Rev: d.rev, Deleted: true}
	d.set(e)
	d.mu.Unlock()
	d.show(e)
	return nil
}

func under(prefix, key string) bool {
	return key == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(key, prefix)
}

func (d *depot) list(prefix string) []rota.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []rota.Entry
	for k, e := range d.cells {
		if under(prefix, k) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b rota.Entry) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// show gives a change to every watch that is open for it.
func (d *depot) show(e rota.Entry) {
	d.mu.Lock()
	links := slices.Clone(d.links)
	d.mu.Unlock()
	for _, l := range links {
		l.show(e)
	}
}

// lose takes back what was written within the last d: all of it, or the plan.
func (d *depot) lose(back time.Duration, only string) (was, is rota.Entry) {
	d.mu.Lock()
	then := map[string]rota.Entry{}
	for _, l := range d.log {
		if !l.at.After(time.Now().Add(-back)) {
			then[l.e.Key] = l.e
		}
	}
	var plan string
	for k := range d.cells {
		if strings.HasSuffix(k, "/plan") {
			plan = k
		}
	}
	was = d.cells[plan]
	for k := range d.cells {
		if only != "" && !strings.HasSuffix(k, "/"+only) {
			continue
		}
		e := then[k]
		e.Key = k
		d.set(e)
	}
	is = d.cells[plan]
	d.mu.Unlock()
	if is.Rev != 0 && is.Rev != was.Rev {
		d.show(is)
	}
	return was, is
}

// link is one process's connection to the depot, with its faults.
type link struct {
	d       *depot
	mu      sync.Mutex
	cutOut  bool
	cutIn   bool
	noReads bool
	drops   bool
	hides   func(rota.Entry) bool
	outLate time.Duration
	inLate  time.Duration
	outLost bool
	inLost  bool
	late    time.Duration // of watches
	opens   time.Duration // how long it takes to open the store
	watches []*watching
	gone    chan struct{} // the process is dead
}

type watching struct {
	prefix string
	in     chan []rota.Entry
	broken chan struct{}
}

const latency = time.Millisecond

func (d *depot) link() *link {
	l := &link{d: d, gone: make(chan struct{})}
	d.mu.Lock()
	d.links = append(d.links, l)
	d.mu.Unlock()
	return l
}

// answer is the result of a call.
type answer[T any] struct {
	v   T
	err error
	ok  bool
}

// call sends f to the store and waits for its answer as long as ctx allows. A request
// in flight arrives even if its caller has given up.
func call[T any](ctx context.Context, l *link, read, plan bool, f func() (T, error)) (none T, err error) {
	l.mu.Lock()
	lost, late := l.cutOut || l.outLost || read && l.noReads, l.outLate
	l.mu.Unlock()
	if lost {
		<-ctx.Done()
		return none, ctx.Err()
	}
	arrived := make(chan answer[T], 1)
	go func() {
		time.Sleep(latency + late)
		l.d.mu.Lock()
		stall, refuse := time.Until(l.d.stall), l.d.refuse && plan
		l.d.mu.Unlock()
		time.Sleep(stall)
		var a answer[T]
		if !refuse {
			a.v, a.err = f()
		}
		l.mu.Lock()
		a.ok = !l.cutIn && !l.inLost && !refuse
		late := l.inLate
		l.mu.Unlock()
		time.Sleep(latency + late)
		arrived <- a
	}()
	select {
	case a := <-arrived:
		if a.ok {
			return a.v, a.err
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	return none, ctx.Err()
}

func (l *link) Get(ctx context.Context, key string) (rota.Entry, error) {
	return call(ctx, l, true, false, func() (rota.Entry, error) { return l.d.get(key) })
}

func (l *link) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	return call(ctx, l, false, strings.HasSuffix(key, "/plan"), func() (rota.Rev, error) { return l.d.put(key, value, prev) })
}

func (l *link) Delete(ctx context.Context, key string, prev rota.Rev) error {
	_, err := call(ctx, l, false, false, func() (struct{}, error) { return struct{}{}, l.d.delete(key, prev) })
	return err
}

var errGap = errors.New("the watch broke off")

func (l *link) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		w := &watching{prefix: prefix, in: make(chan []rota.Entry, 4096), broken: make(chan struct{})}
		l.mu.Lock()
		lost, hides := l.cutIn || l.cutOut || l.noReads, l.hides
		l.watches = append(l.watches, w)
		l.mu.Unlock()
		defer l.forget(w)
		if lost {
			select {
			case <-ctx.Done():
			case <-w.broken:
				yield(nil, errGap)
			}
			return
		}
		first := l.d.list(prefix)
		if hides != nil {
			first = slices.DeleteFunc(first, hides)
		}
		time.Sleep(latency)
		for batch := first; ; {
			if ctx.Err() != nil || !yield(batch, nil) {
				return
			}
			select {
			case batch = <-w.in:
			case <-w.broken:
				yield(nil, errGap)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *link) forget(w *watching) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches = slices.DeleteFunc(l.watches, func(x *watching) bool { return x == w })
}

// show lets this process's watches see a change, later.
func (l *link) show(e rota.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutIn || l.drops {
		return
	}
	for _, w := range l.watches {
		if !under(w.prefix, e.Key) {
			continue
		}
		late := latency + l.late
		go func() {
			time.Sleep(late)
			l.mu.Lock()
			cut := l.cutIn
			l.mu.Unlock()
			if !cut {
				w.in <- []rota.Entry{e}
			}
		}()
	}
}

// heal joins the process to the store again; its watches have broken off.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutIn, l.cutOut = false, false
	for _, w := range l.watches {
		close(w.broken)
	}
	l.watches = nil
}

func (l *link) Close() error      { return nil }
func (l *link) Class() rota.Class { return l.d.class }

// Open implements rota.Opener.
func (l *link) Open(context.Context) error {
	time.Sleep(l.opens)
	return nil
}

// Identity implements rota.Identifier.
func (l *link) Identity(ctx context.Context) (string, error) {
	return call(ctx, l, true, false, func() (string, error) {
		l.d.mu.Lock()
		defer l.d.mu.Unlock()
		return l.d.server, nil
	})
}
