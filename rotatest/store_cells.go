package rotatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// storeCases are the cases for every store. Their names are claims.
var storeCases = []storeCase{
	{"nothing is not found", nothingIsNotFound},
	{"a cell is created once", createdOnce},
	{"a wrong revision changes nothing", wrongRevision},
	{"a revision never comes again", revisionsNeverRepeat},
	{"only what is there is deleted", deletesWhatIsThere},
	{"any value is kept", anyValue},
	{"any key is kept", anyKey},
	{"values are copies", valuesAreCopies},
	{"a write is seen by others at once", seenAtOnce},
	{"first calls may come together", firstCallsTogether},
	{"increments add up", incrementsAddUp},
	{"histories are right", historiesAreRight},
	{"a ctx that has ended ends a call", endedCtx},
	{"a closed store answers nothing", closedStore},
	{"a watch begins with all there is", watchBegins},
	{"a watch sees its prefix and nothing else", watchPrefix},
	{"changes arrive", changesArrive},
	{"many cells change at once", manyChange},
	{"cells are made anew", madeAnew},
	{"a watch begins in time", watchBeginsInTime},
	{"a watch misses nothing at its beginning", watchMissesNothing},
	{"many watchers see the newest, and never go back", manyWatchers},
	{"a slow watcher holds nobody back", slowWatcher},
	{"a watch ends with its loop and its ctx", watchEnds},
	{"a store that lists its groups lists all", groupsAreListed},
	{"a store that can be opened answers then", openedFirst},
}

// openedFirst is about an optional method, which a member calls before it joins.
func openedFirst(t *storeTest) {
	c := t.open()
	opener, ok := c.Store.(rota.Opener)
	if !ok {
		return
	}
	ctx, cancel := t.timeout()
	defer cancel()
	for range 2 {
		if err := opener.Open(ctx); err != nil {
			t.Fatalf("Open: %v", err)
		}
	}
	rev := c.put(t.key("opened"), "v", 0)
	if e := c.get(t.key("opened")); string(e.Value) != "v" || e.Rev != rev {
		t.Errorf("after Open: %q at %d, want what was written at %d", e.Value, e.Rev, rev)
	}
}

// groupsAreListed is about an optional method, which commands use and members do not. It
// may list what is no group any more, and never leaves one out.
func groupsAreListed(t *storeTest) {
	c := t.open()
	lister, ok := c.Store.(interface {
		Groups(ctx context.Context) ([]string, error)
	})
	if !ok {
		return
	}
	ctx, cancel := t.timeout()
	defer cancel()
	group := strings.TrimSuffix(t.prefix, "/")
	for i := range 3 {
		got, err := lister.Groups(ctx)
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if err != nil {
			t.Fatalf("Groups: %v", err)
		}
		for j := range 3 {
			if name := fmt.Sprintf("%s-%d", group, j); slices.Contains(got, name) != (j < i) {
				t.Errorf("with %d groups: is %s among %q?", i, name, got)
			}
		}
		c.put(fmt.Sprintf("%s-%d/member/1", group, i), "a", 0)
		c.put(fmt.Sprintf("%s-%d/plan", group, i), "b", 0)
	}
}

func nothingIsNotFound(t *storeTest) {
	c := t.open()
	c.nothing(t.key("none"))
	c.put(t.key("nonesuch"), "a", 0)
	c.nothing(t.key("none"))
	rev := c.put(t.key("none"), "b", 0)
	c.delete(t.key("none"), rev)
	c.nothing(t.key("none"))
}

func createdOnce(t *storeTest) {
	a, b := t.open(), t.open()
	rev := a.put(t.key("k"), "a", 0)
	_, err := a.tryPut(t.key("k"), "b", 0)
	t.refused("creating it again", err)
	_, err = b.tryPut(t.key("k"), "c", 0)
	t.refused("creating it again through another connection", err)
	b.has(t.key("k"), "a", rev)
}

func wrongRevision(t *storeTest) {
	c := t.open()
	one := c.put(t.key("k"), "1", 0)
	two := c.put(t.key("k"), "2", one)
	_, err := c.tryPut(t.key("k"), "x", one)
	t.refused("writing over a former revision", err)
	_, err = c.tryPut(t.key("k"), "x", two+1000)
	t.refused("writing over a revision that never was", err)
	_, err = c.tryPut(t.key("none"), "x", two)
	t.refused("writing over nothing", err)
	c.nothing(t.key("none"))
	c.has(t.key("k"), "2", two)
	three := c.put(t.key("k"), "2", two) // the same value must get a new revision: heartbeats depend on it
	if three == two {
		t.Errorf("writing the same value kept revision %d", two)
	}
	c.has(t.key("k"), "2", three)
}

func revisionsNeverRepeat(t *storeTest) {
	c := t.open()
	seen := map[rota.Rev]bool{}
	for life := range 6 { // from a creation to a deletion
		var rev rota.Rev
		for i := range 4 {
			rev = c.put(t.key("k"), fmt.Sprint(life, i), rev)
			if seen[rev] {
				t.Errorf("revision %d came again after the cell was created %d times", rev, life+1)
			}
			seen[rev] = true
			c.has(t.key("k"), fmt.Sprint(life, i), rev)
		}
		c.delete(t.key("k"), rev)
		_, err := c.tryPut(t.key("k"), "x", rev)
		t.refused("writing over the revision of a deleted cell", err)
		c.nothing(t.key("k"))
	}
}

func deletesWhatIsThere(t *storeTest) {
	c := t.open()
	t.refused("deleting nothing", c.tryDelete(t.key("k"), 1))
	t.refused("deleting nothing at revision 0", c.tryDelete(t.key("k"), 0))
	one := c.put(t.key("k"), "1", 0)
	two := c.put(t.key("k"), "2", one)
	t.refused("deleting a former revision", c.tryDelete(t.key("k"), one))
	t.refused("deleting without a revision", c.tryDelete(t.key("k"), 0))
	c.has(t.key("k"), "2", two)
	c.delete(t.key("k"), two)
	t.refused("deleting twice", c.tryDelete(t.key("k"), two))
	three := c.put(t.key("k"), "3", 0)
	t.refused("deleting the revision of a cell that was deleted and created again", c.tryDelete(t.key("k"), two))
	c.has(t.key("k"), "3", three)
}

// bigValue is the largest value a store must keep: 768 KiB. It is made when it is needed.
var bigValue = sync.OnceValue(func() string { return string(bytes.Repeat([]byte("0123456789abcdef"), 768<<10/16)) })

func anyValue(t *storeTest) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	c, other := t.open(), t.open()
	for i, v := range []string{"", "\x00", "a", string(all), bigValue()} {
		key := t.key(strconv.Itoa(i))
		rev := c.put(key, v, 0)
		other.has(key, v, rev)
		v = strings.ToUpper(v)
		rev = c.put(key, v, rev)
		other.has(key, v, rev)
	}
	for i := range 3 { // together more than most servers send in one message
		c.put(t.key("big/"+strconv.Itoa(i)), bigValue(), 0)
	}
	v := t.view(other, t.key("big/"))
	for i := range 3 {
		if got := v.first[t.key("big/"+strconv.Itoa(i))]; string(got.Value) != bigValue() {
			t.Errorf("a watch begins with %s, want %s", brief(string(got.Value)), brief(bigValue()))
		}
	}
	c.put(t.key("big/empty"), "", 0)
	v.wait("an empty value", func() bool {
		e, ok := v.cells[t.key("big/empty")]
		return ok && len(e.Value) == 0 && !e.Deleted
	})
}

func anyKey(t *storeTest) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	long := t.key(strings.Repeat(letters, 3))[:128]
	keys := []string{
		long, long[:127],
		t.key(letters), t.key(strings.ToLower(letters)), t.key(letters + "/" + letters)[:128],
		t.key("a"), t.key("A"), t.key("a/b"), t.key("a/b/c"), t.key("ab"), t.key("a-b"), t.key("a_b"), t.key("-"), t.key("_"), t.key("0"),
	}
	c, other := t.open(), t.open()
	revs := map[string]rota.Rev{}
	for _, k := range keys {
		revs[k] = c.put(k, "value of "+k, 0)
	}
	for _, k := range keys {
		other.has(k, "value of "+k, revs[k])
	}
	if v := t.view(other, t.prefix); len(v.first) != len(keys) {
		t.Errorf("a watch begins with %d cells, want %d", len(v.first), len(keys))
	}
	c.delete(t.key("a"), revs[t.key("a")])
	c.nothing(t.key("a"))
	other.has(t.key("a/b"), "value of "+t.key("a/b"), revs[t.key("a/b")])
}

func valuesAreCopies(t *storeTest) {
	c := t.open()
	ctx, cancel := t.timeout()
	defer cancel()
	buf := []byte("abc")
	rev, err := c.Put(ctx, t.key("k"), buf, 0)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf, "xyz")
	c.has(t.key("k"), "abc", rev)
	copy(c.get(t.key("k")).Value, "xyz")
	for batch, err := range c.Watch(ctx, t.key("k")) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range batch {
			copy(e.Value, "xyz")
		}
		break
	}
	c.has(t.key("k"), "abc", rev)
}

func seenAtOnce(t *storeTest) {
	a, b := t.open(), t.open()
	var rev rota.Rev
	for i := range 100 {
		rev = a.put(t.key("k"), fmt.Sprint(i), rev)
		b.has(t.key("k"), fmt.Sprint(i), rev)
		a, b = b, a
	}
	a.delete(t.key("k"), rev)
	b.nothing(t.key("k"))
}

func firstCallsTogether(t *storeTest) {
	c := t.open()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := c.tryPut(t.key(strconv.Itoa(i)), "a", 0); err != nil {
				t.Errorf("one of the first calls: %v", err)
			}
		})
	}
	wg.Wait()
}

func incrementsAddUp(t *storeTest) {
	const clients, each = 6, 20
	setup := t.open()
	setup.put(t.key("n"), "0", 0)
	var wg sync.WaitGroup
	for range clients {
		c := t.open()
		wg.Go(func() {
			for range each {
				if err := c.increment(t.key("n")); err != nil {
					t.Errorf("increment: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := string(setup.get(t.key("n")).Value); got != fmt.Sprint(clients*each) {
		t.Errorf("%d clients counted %d each, and together %s", clients, each, got)
	}
}

func (c *client) increment(key string) error {
	ctx, cancel := c.t.timeout()
	defer cancel()
	for {
		e, err := c.Get(ctx, key)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(e.Value))
		if err != nil {
			return err
		}
		_, err = c.Put(ctx, key, []byte(strconv.Itoa(n+1)), e.Rev)
		if !errors.Is(err, rota.ErrConflict) {
			return err
		}
	}
}

func historiesAreRight(t *storeTest) {
	var h History
	crowd := t.crowd(&h, 6)
	crowd.start(60)
	crowd.wait()
	if _, unknowns := h.Counts(); unknowns > 0 {
		t.Errorf("%d calls failed though nothing was wrong with the server", unknowns)
	}
	crowd.checkHistory()
}

// A crowd is a number of clients that read, write and delete a few cells at random.
type crowd struct {
	t       *storeTest
	h       *History
	clients []rota.Store
	wg      sync.WaitGroup
	callFor time.Duration

	mu   sync.Mutex
	stop bool
	done []int // calls of each client whose outcome is known
}

var crowdKeys = []string{"x", "y", "z"}

func (t *storeTest) crowd(h *History, n int) *crowd {
	c := &crowd{t: t, h: h, callFor: t.bound, done: make([]int, n)}
	for range n {
		c.clients = append(c.clients, h.Wrap(t.open().Store))
	}
	t.Cleanup(c.halt)
	return c
}

// start lets each client make n calls, or calls until halt.
func (c *crowd) start(n int) {
	for i, s := range c.clients {
		c.wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for j := 0; j < n && !c.halted(); j++ {
				c.act(i, s, r, c.t.key(crowdKeys[r.IntN(len(crowdKeys))]), fmt.Sprint("client ", i, " call ", j))
			}
		})
	}
}

// act reads a cell and mostly goes on to change it.
func (c *crowd) act(client int, s rota.Store, r *rand.Rand, key, value string) {
	ctx, cancel := context.WithTimeout(context.Background(), c.callFor)
	defer cancel()
	e, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, rota.ErrNotFound) {
		time.Sleep(5 * time.Millisecond) // back-off while the server is away
		return
	}
	time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond) // so that other clients come between
	switch k := r.IntN(10); {
	case k < 2:
	case k < 4 && err == nil:
		err = s.Delete(ctx, key, e.Rev)
	default:
		_, err = s.Put(ctx, key, []byte(value), e.Rev) // without a cell e.Rev is 0
	}
	if err == nil || errors.Is(err, rota.ErrNotFound) || errors.Is(err, rota.ErrConflict) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done[client]++
	}
}

func (c *crowd) halted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop
}

func (c *crowd) progress() (all int) {
	for _, n := range c.progressOfEach() {
		all += n
	}
	return all
}

func (c *crowd) progressOfEach() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.done)
}

func (c *crowd) wait() { c.wg.Wait() }

func (c *crowd) halt() {
	c.mu.Lock()
	c.stop = true
	c.mu.Unlock()
	c.wg.Wait()
}

// checkHistory reads every cell once more, so that a lost write shows, and judges the
// history.
func (c *crowd) checkHistory() {
	c.t.Helper()
	s := c.h.Wrap(c.t.open().Store)
	for _, k := range crowdKeys {
		ctx, cancel := c.t.timeout()
		if _, err := s.Get(ctx, c.t.key(k)); err != nil && !errors.Is(err, rota.ErrNotFound) {
			c.t.Errorf("reading %s at the end: %v", k, err)
		}
		cancel()
	}
	calls := c.h.Calls()
	for i := range calls {
		x := &calls[i]
		if c.t.staleReads && x.Verb == string(get) {
			x.Called = 0 // it may show what was there at any time before it returned
		}
		if c.t.falseRefusals && errors.Is(x.Err, rota.ErrConflict) {
			x.Err = errUnknown
		}
	}
	if err := Judge(calls); err != nil {
		c.t.Error(err)
	}
}

// endedCtx makes calls whose ctx ends before the call or during it.
func endedCtx(t *storeTest) {
	c := t.open()
	rev := c.put(t.key("k"), "a", 0)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, call := range map[string]func(context.Context) error{
		"Get":    func(ctx context.Context) error { _, err := c.Get(ctx, t.key("k")); return err },
		"Put":    func(ctx context.Context) error { _, err := c.Put(ctx, t.key("k2"), []byte(bigValue()), 0); return err },
		"Delete": func(ctx context.Context) error { return c.Delete(ctx, t.key("k"), rev+1000) },
		"Watch": func(ctx context.Context) error {
			for range c.Watch(ctx, t.key("k")) {
			}
			return ctx.Err()
		},
	} {
		within(t, t.prompt, name+" with a ctx that has ended", func() {
			if call(ended) == nil {
				t.Errorf("%s with a ctx that has ended succeeded", name)
			}
		})
		for i := range 10 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*i)*50*time.Microsecond)
			within(t, t.prompt, name+" whose ctx ends meanwhile", func() { call(ctx) })
			cancel()
		}
	}
}

func closedStore(t *storeTest) {
	c := t.open()
	c.put(t.key("k"), "a", 0)
	v := t.view(c, t.key("k"))
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	v.ends("its store was closed")
	ctx, cancel := t.timeout()
	defer cancel()
	within(t, t.prompt, "Get after Close", func() {
		if _, err := c.Get(ctx, t.key("k")); err == nil || errors.Is(err, rota.ErrNotFound) {
			t.Errorf("Get after Close: %v, want an error that says so", err)
		}
	})
	within(t, t.prompt, "Put after Close", func() {
		if _, err := c.Put(ctx, t.key("new"), nil, 0); err == nil || errors.Is(err, rota.ErrConflict) {
			t.Errorf("Put after Close: %v, want an error that says so", err)
		}
	})
	t.open().get(t.key("k")) // other connections still work
}
