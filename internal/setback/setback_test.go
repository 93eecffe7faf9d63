package setback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		wait := func() (failing bool, took time.Duration) {
			began := time.Now()
			failing, err := b.wait(t.Context(), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			return failing, time.Since(began)
		}
		if failing, took := wait(); failing || took != 0 {
			t.Errorf("before any setback: %v after %v", failing, took)
		}
		for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			b.add("a")
			if failing, took := wait(); !failing || took != want*time.Millisecond {
				t.Errorf("%v after %v, want a pause of %v ms", failing, took, int(want))
			}
		}
		if failing, took := wait(); !failing || took != 0 {
			t.Errorf("after the pause: %v after %v", failing, took)
		}
		b.add("b")
		b.clear("a")
		if failing, took := wait(); failing || took != 0 {
			t.Errorf("when it was consumed: %v after %v", failing, took)
		}
		b.add("a")
		if _, took := wait(); took != 100*time.Millisecond {
			t.Errorf("the first pause after that is %v", took)
		}
	})
}

func TestStopAndContextEndAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		for range 9 {
			b.add("a")
		}
		began := time.Now()
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		if failing, err := b.wait(t.Context(), "a", stop); !failing || err != nil || time.Since(began) != time.Second {
			t.Errorf("%v, %v after %v", failing, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if failing, err := b.wait(ctx, "a", nil); !failing || err != context.DeadlineExceeded || time.Since(began) != 2*time.Second {
			t.Errorf("%v, %v after %v", failing, err, time.Since(began))
		}
	})
}

// TestTry plays attempts that take a second each, and tells when each began and what came of
// them.
func TestTry(t *testing.T) {
	bad := errors.New("bad")
	for _, c := range []struct {
		name    string
		before  int                // setbacks
		results []string           // "worked", "ok", or else an error; the last one again and again
		verdict map[string]Verdict // by error
		stop    time.Duration
		want    string
	}{
		{"the first attempt is good", 0, []string{"ok"}, nil, 0, "0s: <nil>"},
		{"errors are retried with growing pauses", 0, []string{"x", "x", "ok"}, nil, 0, "0s 1.02s 2.06s: <nil>"},
		{"for so long", 0, []string{"x"}, nil, 0, "0s 1.02s 2.06s 3.14s 4.3s: x"},
		{"an attempt that worked begins anew", 0, []string{"x", "x", "x", "worked", "ok"}, nil, 0, "0s 1.02s 2.06s 3.14s 4.16s: <nil>"},
		{"one verdict gives up", 0, []string{"x", "y"}, map[string]Verdict{"y": GiveUp}, 0, "0s 1.02s: y"},
		{"another is not held against the partition", 0, []string{"y"}, map[string]Verdict{"y": Over}, 0, "0s: y"},
		{"after setbacks the first attempt waits", 3, []string{"ok"}, nil, 0, "400ms: <nil>"},
		{"and the next one longer", 3, []string{"x", "ok"}, nil, 0, "400ms 2.4s: <nil>"},
		{"a stop ends the pauses", 4, []string{"ok"}, nil, 300 * time.Millisecond, ": <nil>"},
		{"also those in between", 0, []string{"x"}, nil, 1010 * time.Millisecond, "0s: <nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b Book
				for range c.before {
					b.add("a")
				}
				stop, began := make(chan struct{}), time.Now()
				if c.stop > 0 {
					time.AfterFunc(c.stop, func() { close(stop) })
				}
				var at []string
				n := 0
				err := b.Try(t.Context(), "a", stop, func() (bool, error) {
					at = append(at, time.Since(began).String())
					time.Sleep(time.Second)
					r := c.results[min(n, len(c.results)-1)]
					n++
					switch r {
					case "ok":
						return true, nil
					case "worked":
						return true, bad
					}
					return false, errors.New(r)
				}, func(err error, failing bool) Verdict {
					if failing != (c.before > 0) {
						t.Errorf("failing is %v", failing)
					}
					return c.verdict[err.Error()]
				})
				if got := strings.Join(at, " ") + fmt.Sprint(": ", err); got != c.want {
					t.Errorf("attempts at %s, want %s", got, c.want)
				}
				if failing, _ := b.wait(t.Context(), "a", nil); failing != (err != nil && c.verdict[err.Error()] != Over || c.stop > 0 && c.before > 0) {
					t.Errorf("a setback is recorded: %v", failing)
				}
			})
		})
	}
}
