package rotatest

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

func watchBegins(t *storeTest) {
	a, b := t.open(), t.open()
	if v := t.view(b, t.key("dir/")); len(v.first) != 0 {
		t.Errorf("a watch of nothing begins with %d cells", len(v.first))
	}
	if v := t.view(b, t.key("k")); len(v.first) != 0 {
		t.Errorf("a watch of no key begins with %d cells", len(v.first))
	}
	want := map[string]rota.Rev{}
	for i := range 50 {
		key := t.key("dir/" + strconv.Itoa(i))
		want[key] = a.put(key, "old", 0)
		if i%2 == 0 {
			want[key] = a.put(key, "new", want[key])
		}
		if i%5 == 0 {
			a.delete(key, want[key])
			delete(want, key)
		}
		// A write that was acknowledged before the watch began is in its first batch.
		if i%10 == 9 {
			v := t.view(b, t.key("dir/"))
			if len(v.first) != len(want) {
				t.Errorf("a watch begins with %d cells, want %d", len(v.first), len(want))
			}
			for k, rev := range want {
				if got := v.first[k].Rev; got != rev {
					t.Errorf("a watch begins with %s at %d, want %d", k, got, rev)
				}
			}
		}
	}
}

func watchPrefix(t *storeTest) {
	c := t.open()
	names := []string{"a", "ab", "a-", "a_b", "axb", "A", "a/b", "a/b/c", "a/bc", "ab/c", "b", "a_b/k", "axb/k"}
	for _, n := range names[:6] {
		c.put(t.key(n), "old", 0)
	}
	under := map[string][]string{
		"a": {"a"}, "a/": {"a/b", "a/b/c", "a/bc"}, "a/b": {"a/b"}, "a/b/": {"a/b/c"}, "ab": {"ab"}, "ab/": {"ab/c"}, "a_b/": {"a_b/k"},
		"": names, "none": nil, "none/": nil,
	}
	views := map[string]*view{}
	for p := range under {
		views[p] = t.view(c, t.key(p)) // complains of keys that are not under the prefix
	}
	for i, n := range names {
		var rev rota.Rev
		if i < 6 {
			rev = c.get(t.key(n)).Rev
		}
		c.put(t.key(n), "newer", rev)
	}
	for _, n := range names { // once more: a change sent to a wrong watch has arrived before this one
		c.put(t.key(n), "newest", c.get(t.key(n)).Rev)
	}
	for p, ns := range under {
		v := views[p]
		for _, n := range ns {
			v.wait(n, func() bool { return string(v.cells[t.key(n)].Value) == "newest" })
		}
		v.mu.Lock()
		if len(v.cells) != len(ns) {
			t.Errorf("the watch of %s showed %d cells, want %d", t.key(p), len(v.cells), len(ns))
		}
		v.mu.Unlock()
	}
}

func changesArrive(t *storeTest) {
	a, b := t.open(), t.open()
	one := a.put(t.key("k"), "1", 0)
	views := []*view{t.view(b, t.key("k")), t.view(b, t.prefix), t.view(a, t.prefix)}
	all := func(f func(*view)) {
		t.Helper()
		for _, v := range views {
			f(v)
		}
	}
	all(func(v *view) { v.waitFor(t.key("k"), "1", one) })
	two := a.put(t.key("k"), "2", one)
	all(func(v *view) { v.waitFor(t.key("k"), "2", two) })
	same := a.put(t.key("k"), "2", two)
	all(func(v *view) { v.waitFor(t.key("k"), "2", same) })
	a.delete(t.key("k"), same)
	all(func(v *view) { v.waitGone(t.key("k")) })
	three := a.put(t.key("k"), "3", 0)
	all(func(v *view) { v.waitFor(t.key("k"), "3", three) })
	four := a.put(t.key("k"), "4", three)
	five := a.put(t.key("k"), "5", four)
	all(func(v *view) { v.waitFor(t.key("k"), "5", five) })
	a.delete(t.key("k"), five) // deleted and created again, perhaps before a watch has shown it
	six := a.put(t.key("k"), "6", 0)
	all(func(v *view) { v.waitFor(t.key("k"), "6", six) })
	gone := a.put(t.key("brief"), "x", 0)
	a.delete(t.key("brief"), gone)
	all(func(v *view) {
		if v.prefix == t.prefix {
			v.wait("brief come and gone, or not at all", func() bool { e, ok := v.cells[t.key("brief")]; return !ok || e.Deleted })
		}
	})
}

// manyChange changes more cells at once than a driver may read in one go.
func manyChange(t *storeTest) {
	const keys, writers = 540, 6
	key := func(i int) string { return t.key(fmt.Sprintf("many/%d", i)) }
	clients := make([]*client, writers)
	for w := range clients {
		clients[w] = t.open()
	}
	each := func(change func(c *client, i int) error) {
		t.Helper()
		var wg sync.WaitGroup
		for w, c := range clients {
			wg.Go(func() {
				for i := w; i < keys; i += writers {
					if err := change(c, i); err != nil {
						t.Errorf("%s: %v", key(i), err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	var revs [keys]rota.Rev
	put := func(c *client, i int) (err error) {
		revs[i], err = c.tryPut(key(i), fmt.Sprint(i), revs[i])
		return err
	}
	each(put)
	v := t.view(t.open(), t.key("many/"))
	if len(v.first) != keys {
		t.Errorf("a watch begins with %d cells, want %d", len(v.first), keys)
	}
	each(func(c *client, i int) error {
		if err := put(c, i); err != nil || i%9 != 0 {
			return err
		}
		rev := revs[i]
		revs[i] = 0
		return c.tryDelete(key(i), rev)
	})
	for i, rev := range revs {
		v.wait(fmt.Sprintf("%s at %d in the end (0: deleted)", key(i), rev), func() bool {
			e := v.cells[key(i)]
			return rev == 0 && e.Deleted || rev != 0 && !e.Deleted && e.Rev == rev
		})
	}
}

// madeAnew deletes cells and makes them anew, each while the watch may still be learning of
// the deletion. It shows the new ones, and what happens to them later.
func madeAnew(t *storeTest) {
	const rounds, keys = 25, 6
	w := t.open()
	v := t.view(t.open(), t.prefix)
	var revs [keys]rota.Rev
	each := func(round int, change func(key, value string, rev rota.Rev) (rota.Rev, error)) {
		t.Helper()
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() {
				var err error
				if revs[i], err = change(t.key(fmt.Sprint(i)), fmt.Sprint(round), revs[i]); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		for i, rev := range revs {
			v.waitFor(t.key(fmt.Sprint(i)), fmt.Sprint(round), rev)
		}
	}
	each(0, w.tryPut)
	for round := range rounds {
		each(2*round+1, func(key, value string, rev rota.Rev) (rota.Rev, error) {
			if err := w.tryDelete(key, rev); err != nil {
				return 0, err
			}
			return w.tryPut(key, value, 0)
		})
		each(2*round+2, w.tryPut)
	}
}

// watchBeginsInTime begins watches during writes and deletions: there may be no gap
// between the first batch and the first change.
func watchBeginsInTime(t *storeTest) {
	const rounds, keys = 15, 4
	w, r := t.open(), t.open()
	for round := range rounds {
		dir := fmt.Sprintf("%d/", round)
		final := map[string]rota.Rev{}
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 3 * keys {
				key := t.key(dir + strconv.Itoa(i%keys))
				rev, err := w.tryPut(key, fmt.Sprint(i), final[key])
				if err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				final[key] = rev
			}
			key := t.key(dir + "0")
			if err := w.tryDelete(key, final[key]); err != nil {
				t.Errorf("Delete: %v", err)
			}
			final[key] = 0
		})
		v := t.view(r, t.key(dir))
		wg.Wait()
		for key, rev := range final {
			v.wait(fmt.Sprintf("%s at %d in the end (0: deleted)", key, rev), func() bool {
				e := v.cells[key]
				return rev == 0 && (e.Deleted || e.Rev == 0) || rev != 0 && !e.Deleted && e.Rev == rev
			})
		}
		v.cancel()
	}
}

// watchMissesNothing makes one change while watches begin, and none after it that
// could hide a gap: the change must be in the first batch or in a later one.
func watchMissesNothing(t *storeTest) {
	w, r := t.open(), t.open()
	for _, prefix := range []string{"dir/k", "dir/"} {
		rev := changeAtFirstBatch(t, w, r, t.key(prefix), w.put(t.key("dir/k"), "0", 0))
		takes := time.Hour // the shortest time until a first batch, without other load
		for range 5 {
			began := time.Now()
			t.view(r, t.key(prefix)).cancel()
			takes = min(takes, time.Since(began))
		}
		const rounds = 120
		for i := range rounds {
			rev = changeMeanwhile(t, w, r, t.key(prefix), rev, i%3 == 2, takes*time.Duration(3*i)/rounds)
		}
		if rev != 0 {
			w.delete(t.key("dir/k"), rev)
		}
	}
}

// changeAtFirstBatch makes the change inside the loop over the watch, at its first
// batch.
func changeAtFirstBatch(t *storeTest, w, r *client, prefix string, rev rota.Rev) (next rota.Rev) {
	t.Helper()
	ctx, cancel := t.timeout()
	defer cancel()
	for batch, err := range r.Watch(ctx, prefix) {
		if err != nil {
			break
		}
		if next == 0 {
			next = w.put(t.key("dir/k"), "first batch", rev)
		}
		for _, e := range batch {
			if e.Rev == next {
				return next
			}
		}
	}
	t.Fatalf("the watch of %s did not show what happened in the loop over its first batch", prefix)
	return 0
}

// changeMeanwhile changes or deletes the cell some time after watches began.
func changeMeanwhile(t *storeTest, w, r *client, prefix string, rev rota.Rev, gone bool, after time.Duration) (next rota.Rev) {
	t.Helper()
	key := t.key("dir/k")
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(after) // to hit another moment of the beginning each time
		if gone {
			err = w.tryDelete(key, rev)
		} else {
			next, err = w.tryPut(key, after.String(), rev)
		}
	})
	var views []*view
	for range 4 { // each begins a little later than the one before
		views = append(views, t.viewing(r, prefix, func(rota.Entry) {}))
	}
	wg.Wait()
	if err != nil {
		t.Fatalf("changing %s at %d: %v", key, rev, err)
	}
	for _, v := range views {
		v.begins()
		v.wait(fmt.Sprintf("%s at %d, after it was at %d when the watch began (0: deleted)", key, next, rev), func() bool {
			e, shown := v.cells[key]
			if next == 0 {
				return !shown || e.Deleted
			}
			return !e.Deleted && e.Rev == next
		})
		v.cancel()
	}
	return next
}

// manyWatchers watch a counter: each sees growing values only, and the last one.
func manyWatchers(t *storeTest) {
	const watchers, last = 60, 60
	w := t.open()
	rev := w.put(t.key("dir/k"), "0", 0)
	conns := []*client{t.open(), t.open(), t.open()}
	var views []*view
	for i := range watchers {
		newest := -1
		step := func(e rota.Entry) {
			n, err := strconv.Atoi(string(e.Value))
			if err != nil || n < newest {
				t.Errorf("a watcher saw version %q after %d", e.Value, newest)
			}
			newest = n
		}
		views = append(views, t.viewEach(conns[i%len(conns)], t.key([]string{"dir/", "dir/k"}[i%2]), step))
	}
	for i := range last {
		rev = w.put(t.key("dir/k"), strconv.Itoa(i+1), rev)
		if i%2 == 0 { // every other value waits for one of the watchers
			views[i%len(views)].waitFor(t.key("dir/k"), strconv.Itoa(i+1), rev)
		}
	}
	for _, v := range views {
		v.waitFor(t.key("dir/k"), strconv.Itoa(last), rev)
	}
}

// slowWatcher blocks in its loop during many writes. Writers do not wait for it; when
// it goes on it sees the newest version, or an error for the gap.
func slowWatcher(t *storeTest) {
	const writes = 300
	w, r := t.open(), t.open()
	rev := w.put(t.key("k"), "first", 0)
	ctx, cancel := context.WithCancel(context.Background())
	standing, goOn := make(chan struct{}), make(chan struct{})
	shown := make(chan rota.Rev, writes+1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		defer close(shown)
		stand := sync.OnceFunc(func() {
			close(standing)
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		})
		for batch, err := range r.Watch(ctx, t.key("k")) {
			if err != nil {
				return
			}
			stand()
			for _, e := range batch {
				shown <- e.Rev
			}
		}
	})
	<-standing
	filler := strings.Repeat("x", 1024)
	quick := t.view(r, t.key("k"))
	for i := range writes {
		rev = w.put(t.key("k"), filler+strconv.Itoa(i), rev)
		if (i+1)%20 == 0 {
			quick.waitFor(t.key("k"), filler+strconv.Itoa(i), rev)
		}
	}
	close(goOn)
	timeout := time.After(t.bound)
	for {
		select {
		case got, ok := <-shown:
			if !ok || got == rev {
				return // it heard of a gap, or saw the newest
			}
		case <-timeout:
			t.Fatalf("a slow watcher did not see the newest version within %v, nor hear of a gap", t.bound)
		}
	}
}

func watchEnds(t *storeTest) {
	c := t.open()
	rev := c.put(t.key("k"), "a", 0)
	once := func(how int) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, err := range c.Watch(ctx, t.prefix) {
			if err != nil && ctx.Err() == nil {
				t.Errorf("Watch: %v", err)
			}
			switch how {
			case 0:
				return // the loop is left
			case 1:
				cancel() // in the loop
			default:
				time.AfterFunc(time.Duration(how)*time.Millisecond, cancel) // while it waits
			}
		}
	}
	once(0) // starts the goroutines that a client keeps per connection
	const times = 60
	for i := range times {
		within(t, t.prompt, "a watch that is left, or whose ctx ends", func() {
			pprof.Do(context.Background(), pprof.Labels("watch", t.prefix), func(context.Context) { once(i % 4) })
		})
	}
	rev = c.put(t.key("k"), "b", rev)
	c.put(t.key("k"), "c", rev)
	eventually(t, t.bound, fmt.Sprintf("%d watches have left no goroutines behind", times), func() bool {
		return goroutinesOf(t.prefix) < times/4
	})
}

// goroutinesOf counts the goroutines that watches of a prefix have started, by the label that
// they inherit: other tests run beside this one.
func goroutinesOf(prefix string) (n int) {
	var profile strings.Builder
	pprof.Lookup("goroutine").WriteTo(&profile, 1)
	label := fmt.Sprintf("%q:%q", "watch", prefix)
	group := 0
	for line := range strings.Lines(profile.String()) {
		if count, _, ok := strings.Cut(line, " @ "); ok {
			group, _ = strconv.Atoi(count)
		} else if strings.HasPrefix(line, "# labels: ") && strings.Contains(line, label) {
			n += group
		}
	}
	return n
}
