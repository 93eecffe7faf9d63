package rotatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// faulty is a wrapped MemStore and what is really in it.
func faulty() (f *FaultyStore, mem *MemStore) {
	mem = NewMemStore()
	return Faulty(mem, 1), mem
}

var background = context.Background()

func mustPut(t *testing.T, s rota.Store, key, value string, prev rota.Rev) rota.Rev {
	t.Helper()
	rev, err := s.Put(background, key, []byte(value), prev)
	if err != nil {
		t.Fatalf("Put(%s): %v", key, err)
	}
	return rev
}

// lost tells whether err leaves the outcome unknown.
func lost(err error) bool {
	return err != nil && !errors.Is(err, rota.ErrConflict) && !errors.Is(err, rota.ErrNotFound)
}

func TestALostRequestDoesNothing(t *testing.T) {
	f, mem := faulty()
	f.Chance(LostRequest, 1)
	if _, err := f.Put(background, "k", nil, 0); !lost(err) {
		t.Errorf("Put: %v", err)
	}
	if _, err := mem.Get(background, "k"); !errors.Is(err, rota.ErrNotFound) {
		t.Errorf("it has happened: %v", err)
	}
	if n := f.Count(LostRequest); n != 1 {
		t.Errorf("counted %d", n)
	}
}

func TestALostAnswerHasHappened(t *testing.T) {
	f, mem := faulty()
	f.Chance(LostAnswer, 1)
	if _, err := f.Put(background, "k", nil, 0); !lost(err) {
		t.Errorf("Put: %v", err)
	}
	e, err := mem.Get(background, "k")
	if err != nil {
		t.Errorf("it has not happened: %v", err)
	}
	if err := f.Delete(background, "k", e.Rev); !lost(err) {
		t.Errorf("Delete: %v", err)
	}
	if _, err := mem.Get(background, "k"); !errors.Is(err, rota.ErrNotFound) {
		t.Errorf("it has not happened: %v", err)
	}
}

func TestARepeatedWriteConflictsWithItself(t *testing.T) {
	f, mem := faulty()
	f.Chance(Repeated, 1)
	if _, err := f.Put(background, "k", nil, 0); !errors.Is(err, rota.ErrConflict) {
		t.Errorf("Put: %v", err)
	}
	if _, err := mem.Get(background, "k"); err != nil {
		t.Errorf("it has not happened: %v", err)
	}
}

func TestAStaleReadShowsAFormerVersion(t *testing.T) {
	f, _ := faulty()
	one := mustPut(t, f, "k", "1", 0)
	two := mustPut(t, f, "k", "2", one)
	f.Chance(StaleRead, 1)
	seen := map[string]bool{}
	for range 50 {
		e, err := f.Get(background, "k")
		switch {
		case errors.Is(err, rota.ErrNotFound):
			seen["nothing"] = true
		case err != nil || e.Rev == two:
			t.Fatalf("Get: %v, %v", e, err)
		default:
			seen[string(e.Value)] = true
		}
	}
	if !seen["nothing"] || !seen["1"] {
		t.Errorf("seen: %v", seen)
	}
}

// watched reads a watch in a bubble until it ends; batches are joined by spaces.
func watched(f *FaultyStore, ctx context.Context) (text *string, err *error) {
	text, err = new(string), new(error)
	go func() {
		for batch, e := range f.Watch(ctx, "d/") {
			if *err = e; e != nil {
				return
			}
			*text += "|"
			for _, x := range batch {
				*text += x.Key + "=" + string(x.Value)
			}
		}
	}()
	synctest.Wait()
	return text, err
}

func TestWatchesBreakAndDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		f, mem := faulty()
		mustPut(t, mem, "d/a", "1", 0)
		text, err := watched(f, ctx)
		f.Chance(DroppedBatch, 1)
		mustPut(t, mem, "d/b", "1", 0)
		synctest.Wait()
		f.Chance(DroppedBatch, 0)
		mustPut(t, mem, "d/c", "1", 0)
		synctest.Wait()
		f.Chance(BrokenWatch, 1)
		mustPut(t, mem, "d/d", "1", 0)
		synctest.Wait()
		if *text != "|d/a=1|d/c=1" || *err == nil {
			t.Errorf("seen: %s, then %v", *text, *err)
		}
		f.Chance(BrokenWatch, 0)
		text, err = watched(f, ctx)
		f.Gap()
		synctest.Wait()
		if *text != "|d/a=1d/b=1d/c=1d/d=1" || *err == nil {
			t.Errorf("seen: %s, then %v", *text, *err)
		}
	})
}

func TestACutSwallowsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		f, mem := faulty()
		text, err := watched(f, ctx)
		f.Cut()
		f.Chance(LateWrite, 1)
		began := time.Now()
		short, done := context.WithTimeout(ctx, time.Second)
		defer done()
		if _, err := f.Put(short, "d/late", []byte("1"), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put: %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		waits := make(chan error, 1)
		go func() {
			_, err := f.Put(ctx, "d/waits", []byte("1"), 0)
			waits <- err
		}()
		mustPut(t, mem, "d/others", "1", 0)
		synctest.Wait()
		if _, err := mem.Get(ctx, "d/late"); !errors.Is(err, rota.ErrNotFound) || *text != "|" {
			t.Errorf("something came through: %v, %s", err, *text)
		}
		f.Heal()
		synctest.Wait()
		if err := <-waits; err != nil {
			t.Errorf("who waited: %v", err)
		}
		if _, err := mem.Get(ctx, "d/late"); err != nil || f.Count(LateWrite) != 1 {
			t.Errorf("the late write: %v", err)
		}
		if e := *err; e != nil || len(*text) < len("|d/late=1d/others=1d/waits=1") {
			t.Errorf("seen: %s, then %v", *text, e)
		}
	})
}

func TestFailIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		f, _ := faulty()
		_, err := watched(f, ctx)
		f.Cut()
		hung := make(chan error, 1)
		go func() { _, err := f.Get(ctx, "k"); hung <- err }()
		synctest.Wait()
		f.Fail()
		synctest.Wait()
		if *err == nil || !lost(<-hung) {
			t.Errorf("the watch goes on: %v", *err)
		}
		if _, err := f.Get(ctx, "k"); !lost(err) {
			t.Errorf("Get: %v", err)
		}
		f.Heal()
		if _, err := f.Get(ctx, "k"); !errors.Is(err, rota.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
	})
}

func TestDelaysTakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := faulty()
		f.Delay(time.Second)
		began := time.Now()
		for i := range 20 {
			mustPut(t, f, fmt.Sprint("k", i), "", 0)
		}
		if took := time.Since(began); took < 10*time.Second || took > 40*time.Second {
			t.Errorf("20 puts took %v", took)
		}
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		began = time.Now()
		if _, err := f.Put(ctx, "k", nil, 0); !lost(err) || time.Since(began) != time.Millisecond {
			t.Errorf("Put: %v after %v", err, time.Since(began))
		}
	})
}

func TestRollbackForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := faulty()
		one := mustPut(t, f, "d/k", "1", 0)
		f.Mark()
		two := mustPut(t, f, "d/k", "2", one)
		mustPut(t, f, "d/new", "", 0)
		_, err := watched(f, t.Context())
		f.Rollback()
		synctest.Wait()
		if *err == nil {
			t.Error("the watch goes on")
		}
		if e, err := f.Get(background, "d/k"); err != nil || e.Rev != one {
			t.Errorf("Get: %v, %v", e, err)
		}
		if _, err := f.Get(background, "d/new"); !errors.Is(err, rota.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		if again := mustPut(t, f, "d/k", "3", one); again != two {
			t.Errorf("revision %d, want %d once more", again, two)
		}
	})
}

// TestASeedIsAFate shows that the faults of a call do not depend on concurrent calls.
func TestASeedIsAFate(t *testing.T) {
	story := func(seed uint64, others bool) (out []bool) {
		f := Faulty(NewMemStore(), seed)
		f.Chance(LostRequest, 0.5)
		for i := range 64 {
			if others {
				f.Get(background, fmt.Sprint("other", i))
			}
			_, err := f.Get(background, "k")
			out = append(out, errors.Is(err, rota.ErrNotFound))
		}
		return out
	}
	if !slices.Equal(story(1, false), story(1, true)) {
		t.Error("one seed, two stories")
	}
	if slices.Equal(story(1, false), story(2, false)) {
		t.Error("two seeds, one story")
	}
}
