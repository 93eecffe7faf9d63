package setback

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		wait := func() (failing bool, took time.Duration) {
			began := time.Now()
			failing, err := b.Wait(t.Context(), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			return failing, time.Since(began)
		}
		if failing, took := wait(); failing || took != 0 {
			t.Errorf("before any setback: %v after %v", failing, took)
		}
		for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			b.Add("a")
			if failing, took := wait(); !failing || took != want*time.Millisecond {
				t.Errorf("%v after %v, want a pause of %v ms", failing, took, int(want))
			}
		}
		if failing, took := wait(); !failing || took != 0 {
			t.Errorf("after the pause: %v after %v", failing, took)
		}
		b.Add("b")
		b.Clear("a")
		if failing, took := wait(); failing || took != 0 {
			t.Errorf("when it was consumed: %v after %v", failing, took)
		}
		b.Add("a")
		if _, took := wait(); took != 100*time.Millisecond {
			t.Errorf("the first pause after that is %v", took)
		}
	})
}

func TestStopAndContextEndAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		for range 9 {
			b.Add("a")
		}
		began := time.Now()
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		if failing, err := b.Wait(t.Context(), "a", stop); !failing || err != nil || time.Since(began) != time.Second {
			t.Errorf("%v, %v after %v", failing, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if failing, err := b.Wait(ctx, "a", nil); !failing || err != context.DeadlineExceeded || time.Since(began) != 2*time.Second {
			t.Errorf("%v, %v after %v", failing, err, time.Since(began))
		}
	})
}
