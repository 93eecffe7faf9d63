package rotaredis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rota-dev/rota"
)

// A watch subscribes to the channel of its prefix and then reads all records, in this
// order, so that no change falls in between. A message only names a record that changed;
// the watch reads it. So nothing is believed that a client other than the server
// publishes, a burst of changes is one read, and messages are small enough for a
// thousand subscribers. All reads are made by the node that the feed is connected to;
// when that ends, the watch does.
type watch struct {
	s            *store
	group, field string // the prefix, or the key
	all          bool   // it is a prefix
	n            *node
	id           string              // of the hash; "" while there is none
	seen         map[string]rota.Rev // field → revision that the caller knows
	mu           sync.Mutex
	touched      map[string]uint64 // field to read → the count that a message named
	wake         chan struct{}     // with room for one: there are fields to read
}

// lookEvery is the mean time between two reads of all records. They are not needed as
// long as Redis keeps its promise to deliver in order what it has not lost a connection
// for.
const lookEvery = 30 * time.Second

// mostTouched bounds the memory that forged messages can use.
const mostTouched = 10_000

var (
	errOtherHash = errors.New("rotaredis: the records of the group were deleted, or replaced by others")
	errOlder     = errors.New("rotaredis: the server has an older version than it had before")
	errOtherNode = errors.New("rotaredis: the watch may have missed changes: another server has taken over")
)

func (s *store) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		if err := checkPrefix(prefix); err != nil {
			yield(nil, err)
			return
		}
		w := &watch{s: s, all: strings.HasSuffix(prefix, "/"), seen: map[string]rota.Rev{}, touched: map[string]uint64{}, wake: make(chan struct{}, 1)}
		w.group, w.field = split(prefix)
		if err := w.run(ctx, func(batch []rota.Entry) bool { return yield(batch, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// run yields batches until yield returns false or the watch ends with an error.
func (w *watch) run(ctx context.Context, yield func([]rota.Entry) bool) error {
	f, err := w.begin(ctx)
	if err != nil {
		return err
	}
	channel := w.s.set.hash(w.group) + w.field
	defer f.remove(channel, w)
	if err := f.add(ctx, channel, w); err != nil {
		return err
	}
	batch, err := w.readAll(ctx)
	if err != nil {
		return err
	}
	if !yield(batch) {
		return nil
	}
	look := time.NewTimer(jitter(lookEvery))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.gone:
			return f.ended()
		case <-look.C:
			batch, err = w.readAll(ctx)
			look.Reset(jitter(lookEvery))
		case <-w.wake:
			batch, err = w.readTouched(ctx)
		}
		if err != nil {
			return err
		}
		if len(batch) > 0 && !yield(batch) {
			return nil
		}
	}
}

// begin finds the node of the group and its feed. Only a command tells for certain which
// node of a Cluster that is.
func (w *watch) begin(ctx context.Context) (*feed, error) {
	_, n, err := w.s.do(ctx, w.group, nil, "HGET", w.s.set.hash(w.group), fieldID)
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	w.n = n
	return n.subscription()
}

// touch notes what a message says: that a field has changed. It never blocks.
func (w *watch) touch(message string) {
	n, field, ok := openNews(message)
	if !ok || !w.covers(field) {
		w.s.warn(w.forgery())
		return
	}
	w.mu.Lock()
	if len(w.touched) < mostTouched { // with more, all are read
		w.touched[field] = max(w.touched[field], n)
	}
	w.mu.Unlock()
	signal(w.wake)
}

func (w *watch) forgery() string {
	return fmt.Sprintf("a client other than rota publishes changes on %s that did not happen: they are ignored. Allow nobody but members to publish there", w.s.set.hash(w.group))
}

func (w *watch) covers(field string) bool {
	return field == w.field && !w.all ||
		w.all && strings.HasPrefix(field, w.field) && checkKey(w.group+field) == nil
}

// readTouched reads the records that were named since the last time.
func (w *watch) readTouched(ctx context.Context) ([]rota.Entry, error) {
	w.mu.Lock()
	touched := w.touched
	w.touched = map[string]uint64{}
	w.mu.Unlock()
	if len(touched) >= mostTouched {
		return w.readAll(ctx)
	}
	return w.readFields(ctx, touched)
}

// readFields reads single records. The count of the group is at least that of every
// message about it.
func (w *watch) readFields(ctx context.Context, counts map[string]uint64) ([]rota.Entry, error) {
	fields := slices.Collect(maps.Keys(counts))
	args := []any{"HMGET", w.s.set.hash(w.group), fieldID, fieldCount}
	for _, field := range fields {
		args = append(args, field)
	}
	got, err := w.ask(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	if len(got) != len(fields)+2 {
		return nil, fmt.Errorf("rotaredis: HMGET of %d fields has %d answers", len(fields)+2, len(got))
	}
	id, _ := got[0].(string)
	if err := w.same(id); err != nil {
		return nil, err
	}
	text, _ := got[1].(string)
	count, _ := strconv.ParseUint(text, 10, 64)
	var batch []rota.Entry
	for i, field := range fields {
		if counts[field] > count {
			w.s.warn(w.forgery())
		}
		text, there := got[i+2].(string)
		if batch, err = w.observe(batch, field, text, there); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// readAll reads every record under the prefix.
func (w *watch) readAll(ctx context.Context) ([]rota.Entry, error) {
	if !w.all {
		return w.readFields(ctx, map[string]uint64{w.field: 0})
	}
	got, err := w.ask(ctx, list, 1, w.s.set.hash(w.group), w.field)
	if err != nil {
		return nil, err
	}
	if len(got)%2 != 1 {
		return nil, fmt.Errorf("rotaredis: a list of %d parts", len(got))
	}
	id, _ := got[0].(string)
	if err := w.same(id); err != nil {
		return nil, err
	}
	var batch []rota.Entry
	listed := map[string]bool{}
	for i := 1; i < len(got); i += 2 {
		field, _ := got[i].(string)
		text, there := got[i+1].(string)
		listed[field] = true
		if checkKey(w.group+field) != nil {
			continue // no key of rota's has such a name
		}
		if batch, err = w.observe(batch, field, text, there); err != nil {
			return nil, err
		}
	}
	for field := range w.seen {
		if !listed[field] {
			if batch, err = w.observe(batch, field, "", false); err != nil {
				return nil, err
			}
		}
	}
	return batch, nil
}

// ask sends a command and checks that the node of the watch answers it.
func (w *watch) ask(ctx context.Context, sc *script, args ...any) ([]any, error) {
	v, n, err := w.s.do(ctx, w.group, sc, args...)
	if err != nil {
		return nil, err
	}
	if n != w.n {
		return nil, errOtherNode
	}
	got, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("rotaredis: a list is a %T", v)
	}
	return got, nil
}

// same returns an error if the hash is not the one that was read before.
func (w *watch) same(id string) error {
	if w.id == "" {
		w.id = id
	}
	if id != w.id {
		return errOtherHash
	}
	return nil
}

// observe adds a version of a record to the batch if the caller does not know it yet.
func (w *watch) observe(batch []rota.Entry, field, text string, there bool) ([]rota.Entry, error) {
	key, known := w.group+field, w.seen[field]
	if !there {
		if known != 0 {
			delete(w.seen, field)
			batch = append(batch, rota.Entry{Key: key, Deleted: true})
		}
		return batch, nil
	}
	rev, value, err := openCell(text)
	if err != nil {
		return nil, fmt.Errorf("rotaredis: record %s: %w", key, err)
	}
	switch {
	case rev == known:
		return batch, nil
	case rev < known: // the count is in its upper bits
		return nil, errOlder
	}
	w.seen[field] = rev
	return append(batch, rota.Entry{Key: key, Value: value, Rev: rev}), nil
}
