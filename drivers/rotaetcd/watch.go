package rotaetcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/rota-dev/rota"
)

// A watch lists the keys under its prefix and then follows a stream of the node whose turn
// it is, from the revision after the list. Whenever the stream ends, it lists again: the
// difference to what it has shown is the change in between. So it moves between nodes
// without a gap. It also lists again at intervals, whatever the stream says.
//
// It ends with an error if it cannot list, if the history it follows was compacted away,
// and if the store shows an older state than before.
type watch struct {
	s      *store
	prefix string
	dir    bool // the prefix is not a key

	// Only the goroutine that lists and follows uses these.
	seen map[string]int64 // key → revision, of those that exist
	upTo int64            // everything until this revision is in seen

	mu   sync.Mutex
	news []rota.Entry   // the newest version per key that the caller has not got yet
	at   map[string]int // key → index in news
	err  error          // why the watch ends
	wake chan struct{}  // has room for one: there may be news
}

// Intervals of a watch.
const (
	lookEvery  = 30 * time.Second       // a new list, on average
	listTime   = 3 * time.Second        // of a list once the watch has begun
	quietTime  = 2 * time.Second        // a node that says nothing for so long is asked something
	quietLook  = 500 * time.Millisecond // so often that is looked at
	shortLife  = time.Second            // a stream that ends sooner is begun again after a pause
	againAfter = 20 * time.Millisecond
)

var (
	errMissed    = errors.New("rotaetcd: the watch may have missed changes")
	errCompacted = errors.New("the history of the keys was compacted before it was read")
	errOlder     = errors.New("the store shows an older state than before: it was restored from a copy, or is another one")
)

func (s *store) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	return func(yield func([]rota.Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		w := &watch{s: s, prefix: prefix, dir: prefix == "" || strings.HasSuffix(prefix, "/"),
			seen: map[string]int64{}, at: map[string]int{}, wake: make(chan struct{}, 1)}
		err := w.begin(ctx)
		if err != nil {
			cancel()
			yield(nil, err)
			return
		}
		first, _ := w.next()
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { w.run(ctx) })
		wg.Go(func() { w.suspect(ctx) })
		if !yield(first, nil) {
			return
		}
		for {
			select {
			case <-w.wake:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
			batch, err := w.next()
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

func (w *watch) begin(ctx context.Context) error {
	if w.prefix != "" {
		if err := checkKey(strings.TrimSuffix(w.prefix, "/")); err != nil {
			return err
		}
	}
	if err := w.s.open(ctx); err != nil {
		return err
	}
	if err := w.list(ctx); err != nil {
		return fmt.Errorf("list %s: %w", w.prefix, err)
	}
	return nil
}

// keys returns etcd's range of the prefix: its first key, and the key after its last.
func (w *watch) keys() (first, after []byte) {
	first = w.s.key(w.prefix)
	if w.dir {
		after = w.s.key(w.prefix)
		after[len(after)-1]++ // the character after the slash
	}
	return first, after
}

// list reads which keys there are and the values of those that have changed, at one
// revision.
func (w *watch) list(ctx context.Context) error {
	first, after := w.keys()
	get := func(r *pb.RangeRequest) *pb.RequestOp {
		r.Key, r.RangeEnd = first, after
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
	}
	request := &pb.TxnRequest{Success: []*pb.RequestOp{
		get(&pb.RangeRequest{KeysOnly: true}),
		get(&pb.RangeRequest{MinModRevision: w.upTo + 1}),
	}}
	r, err := ask(ctx, w.s.link, question[*pb.TxnResponse]{
		ask: func(ctx context.Context, n *node, opt callOption) (*pb.TxnResponse, error) {
			return n.kv.Txn(ctx, request, opt)
		},
	})
	if err != nil {
		return err
	}
	if len(r.Responses) != 2 || r.Header == nil {
		return fmt.Errorf("rotaetcd: %d answers to a list, want 2", len(r.Responses))
	}
	return w.compare(r.Header.Revision, r.Responses[0].GetResponseRange().GetKvs(), r.Responses[1].GetResponseRange().GetKvs())
}

// compare makes news of the differences between a list at revision now and what was seen.
func (w *watch) compare(now int64, all, changed []*mvccpb.KeyValue) error {
	if now < w.upTo {
		return fmt.Errorf("%w (revision %d, and it was at %d)", errOlder, now, w.upTo)
	}
	there := map[string]bool{}
	for _, kv := range all {
		key := w.name(kv)
		there[key] = true
		if kv.ModRevision <= w.upTo && w.seen[key] != kv.ModRevision {
			return fmt.Errorf("%w (%s is at revision %d, and it was at %d)", errOlder, key, kv.ModRevision, w.seen[key])
		}
	}
	for key := range w.seen {
		if !there[key] {
			w.gone(key)
		}
	}
	for _, kv := range changed {
		w.version(kv)
	}
	w.upTo = now
	return nil
}

// name returns the key of an entry.
func (w *watch) name(kv *mvccpb.KeyValue) string { return string(kv.Key[len(w.s.set.prefix)+1:]) }

func (w *watch) version(kv *mvccpb.KeyValue) {
	key := w.name(kv)
	w.seen[key] = kv.ModRevision
	w.add(rota.Entry{Key: key, Value: kv.Value, Rev: rota.Rev(kv.ModRevision)})
}

func (w *watch) gone(key string) {
	if _, seen := w.seen[key]; seen { // otherwise the caller does not know the key
		delete(w.seen, key)
		w.add(rota.Entry{Key: key, Deleted: true})
	}
}

// run follows streams, with a list between each and the next. The list also tells whether
// the user still has the right to read, and renews its token.
func (w *watch) run(ctx context.Context) {
	pause := againAfter
	for {
		turn, began := w.s.currentTurn(), time.Now()
		err := w.follow(ctx, turn)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errCompacted):
			w.fail(err)
			return
		}
		if time.Since(began) > shortLife || turn.Err() != nil {
			pause = againAfter
		} else {
			select { // so that a node that ends all streams is not flooded
			case <-time.After(pause/2 + rand.N(pause)):
			case <-ctx.Done():
			}
			pause = min(2*pause, shortLife)
		}
		if err := w.listAgain(ctx); err != nil {
			if ctx.Err() == nil {
				w.fail(err)
			}
			return
		}
	}
}

func (w *watch) listAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	return w.list(ctx)
}

// follow follows a stream until it ends, its node loses its turn, or it is time for a list.
func (w *watch) follow(ctx context.Context, turn *turn) error {
	ctx, cancel := context.WithTimeout(ctx, lookEvery/2+rand.N(lookEvery)) // with jitter, so that members do not list all at once
	defer cancel()
	defer context.AfterFunc(turn, cancel)()
	ctx, _, err := turn.node.signIn(ctx)
	if err != nil {
		return err
	}
	stream, err := turn.node.watch.Watch(metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader))
	if err != nil {
		return err
	}
	first, after := w.keys()
	err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: first, RangeEnd: after, StartRevision: w.upTo + 1},
	}})
	for err == nil {
		var r *pb.WatchResponse
		if r, err = stream.Recv(); err == nil {
			turn.hear()
			err = w.observe(r)
		}
	}
	return err
}

// observe handles an answer of a stream.
func (w *watch) observe(r *pb.WatchResponse) error {
	switch {
	case r.CompactRevision != 0:
		return fmt.Errorf("%w: %w (until revision %d, and the watch was at %d)", errMissed, errCompacted, r.CompactRevision, w.upTo)
	case r.Canceled:
		return fmt.Errorf("the node has ended the watch: %s", r.CancelReason)
	}
	upTo := w.upTo
	for _, e := range r.Events {
		if e.Kv.ModRevision <= upTo {
			continue // the list had it
		}
		if e.Type == mvccpb.Event_DELETE {
			w.gone(w.name(e.Kv))
		} else {
			w.version(e.Kv)
		}
		w.upTo = max(w.upTo, e.Kv.ModRevision)
	}
	return nil
}

// suspect asks the node something when it has been quiet, so that it loses its turn if it
// is frozen: nothing else would show that. Members ask so often that this is for observers.
func (w *watch) suspect(ctx context.Context) {
	tick := time.NewTicker(quietLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if w.s.currentTurn().silence() > quietTime {
			w.s.probe(ctx)
		}
	}
}

// add makes e the news of its key.
func (w *watch) add(e rota.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i, ok := w.at[e.Key]; ok {
		w.news[i] = e
	} else {
		w.at[e.Key] = len(w.news)
		w.news = append(w.news, e)
	}
	w.signal()
}

// next returns the news since the last call, and why the watch ends, if it does.
func (w *watch) next() ([]rota.Entry, error) {
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
	if !errors.Is(err, errMissed) {
		err = fmt.Errorf("%w: %w", errMissed, err)
	}
	w.err = err
	w.signal()
}

// signal fills wake, unless it is full.
func (w *watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
