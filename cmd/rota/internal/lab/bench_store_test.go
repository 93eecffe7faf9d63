package lab

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/rotatest"
)

func TestBenchStoreMeasuresAndRecommends(t *testing.T) {
	code, stdout, stderr := rotaRuns(t.Context(), "bench", "store", "--store", "mem:", "--members", "8", "--each", "50ms", "-o", "json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var r storeReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if r.Store != "mem:" || r.Members != 8 || r.CAS.Calls == 0 || r.CAS.Worst <= 0 || r.Heartbeats.Calls == 0 || r.PerSecond <= 0 || len(r.FanOut) != 3 {
		t.Errorf("%+v", r)
	}
	for i, f := range r.FanOut {
		if f.Bytes != planSizes[i] || f.Median <= 0 || f.Worst < f.Median {
			t.Errorf("%+v", f)
		}
	}
	if a := r.Recommended; a.Lease < 5 || a.Heartbeat <= 0 || a.Shortest <= 0 || len(a.Why) < 2 {
		t.Errorf("%+v", a)
	}
	trial.In(t, stderr, "compare-and-set", "connecting 8 members", "plans of 1 KB", "plans of 100 KB", "heartbeats")

	code, stdout, stderr = rotaRuns(t.Context(), "bench", "store", "--store", "mem:", "--members", "1", "--each", "10ms")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	trial.In(t, stdout, "mem:, class B", "1 member, each", "compare-and-set, one at a time", "a plan of 100 KB to the last member", "heartbeats, all at once", "a second", "recommended: --lease ", "longest call")
}

// A storeBench is a storeTrial on a store in memory whose calls take a millisecond or two.
type storeBench struct {
	*storeTrial
	mem    *rotatest.MemStore
	faults []*rotatest.FaultyStore
	wrap   func(rota.Store) rota.Store
	at     func(said string) // called on the way
}

func newBench(members int) *storeBench {
	b := &storeBench{mem: rotatest.NewMemStore(), wrap: func(s rota.Store) rota.Store { return s }, at: func(string) {}}
	b.storeTrial = newStoreTrial(func() (rota.Store, error) {
		f := rotatest.Faulty(b.mem.Open(), uint64(len(b.faults)))
		f.Delay(2 * time.Millisecond)
		b.faults = append(b.faults, f)
		return b.wrap(f), nil
	}, members, 200*time.Millisecond, func(said string) { b.at(said) })
	b.group = "bench-same" // faults depend on the keys: they are the same each time
	return b
}

// records are what the group has in the store.
func (b *storeBench) records(t *testing.T) (keys []string) {
	for batch, err := range b.mem.Open().Watch(t.Context(), b.group+"/") {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range batch {
			keys = append(keys, e.Key)
		}
		break
	}
	return keys
}

// However it ends, and whenever it is interrupted, the group is gone afterwards.
func TestBenchStoreRemovesItsGroup(t *testing.T) {
	for _, when := range []string{"", "compare-and-set", "connecting", "plans of 1 KB", "plans of 100 KB", "heartbeats"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := newBench(5)
			b.at = func(said string) {
				if when != "" && strings.HasPrefix(said, when) {
					time.AfterFunc(20*time.Millisecond, cancel)
				}
			}
			r, err := b.run(ctx)
			if when == "" && (err != nil || r.CAS.Calls == 0 || r.CAS.Failed+r.Heartbeats.Failed+r.Gaps != 0) {
				t.Errorf("%+v, %v", r, err)
			}
			if when != "" && !errors.Is(err, context.Canceled) {
				t.Errorf("interrupted at %q: %v", when, err)
			}
			if len(b.records(t)) == 0 {
				t.Errorf("%q: it has written nothing", when)
			}
			if err := b.remove(); err != nil {
				t.Error(err)
			}
			if keys := b.records(t); len(keys) > 0 {
				t.Errorf("interrupted at %q: it leaves %v behind", when, keys)
			}
		})
	}
}

// A store that fails now and then is measured, with the failures counted. One that is
// away ends the measuring, and the group is removed when it is back.
func TestBenchStoreOutlivesFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(5)
		b.wrap = func(s rota.Store) rota.Store {
			s.(*rotatest.FaultyStore).Chance(rotatest.LostAnswer, 0.05)
			return s
		}
		r, err := b.run(t.Context())
		if err != nil || r.CAS.Failed == 0 || r.Heartbeats.Failed == 0 || r.CAS.Failed >= r.CAS.Calls {
			t.Errorf("%+v, %v", r, err)
		}
		for _, f := range b.faults {
			f.Heal()
			f.Chance(rotatest.LostAnswer, 0)
		}
		if err := b.remove(); err != nil || len(b.records(t)) > 0 {
			t.Errorf("%v; it leaves %v behind", err, b.records(t))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(5)
		b.at = func(said string) {
			if strings.HasPrefix(said, "heartbeats") {
				for _, f := range b.faults {
					f.Fail()
				}
			}
		}
		if r, err := b.run(t.Context()); err == nil || !strings.Contains(err.Error(), "heartbeats: ") {
			t.Errorf("%+v, %v", r, err)
		}
		for _, f := range b.faults {
			f.Heal()
		}
		if err := b.remove(); err != nil || len(b.records(t)) > 0 {
			t.Errorf("%v; it leaves %v behind", err, b.records(t))
		}
	})
}

// Watches that show nothing are reported, and not waited for without end.
func TestBenchStoreNoticesSilentWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(3)
		b.wrap = func(s rota.Store) rota.Store { return mute{s, b.group + "/plan"} }
		if _, err := b.run(t.Context()); err == nil || !strings.Contains(err.Error(), "a plan of 1 KB reached 0 of 3 members within 30s") {
			t.Errorf("%v", err)
		}
		if err := b.remove(); err != nil || len(b.records(t)) > 0 {
			t.Errorf("%v; it leaves %v behind", err, b.records(t))
		}
	})
}

// mute is a store whose watches of one key show nothing.
type mute struct {
	rota.Store
	key string
}

func (m mute) Watch(ctx context.Context, prefix string) iter.Seq2[[]rota.Entry, error] {
	if prefix != m.key {
		return m.Store.Watch(ctx, prefix)
	}
	return func(yield func([]rota.Entry, error) bool) {
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

func TestBenchStoreAdvice(t *testing.T) {
	for what, c := range map[string]struct {
		members           int
		p99, worst, beats float64 // worst of single calls, and of heartbeats
		perSecond         float64
		lease, shortest   float64
		says              string
	}{
		"a quick store":             {100, 2, 40, 60, 5000, 5, 0.8, "would allow a lease of 800ms"},
		"a very quick store":        {1, 0.1, 0.2, 0.3, 5000, 5, 0.5, "would allow a lease of 500ms"},
		"a slow call":               {100, 20, 700, 60, 5000, 10, 8.4, "3.57 times the longest call"},
		"a slow burst":              {100, 20, 100, 1000, 5000, 15, 12, "3.75 times the longest call that was seen (1000 ms)"},
		"slow as a rule":            {100, 300, 310, 310, 5000, 15, 12, "12.5 times the p99 of single calls (300 ms)"},
		"more members than it can":  {2000, 2, 40, 60, 1000, 10, 10, "500 heartbeats a second come from 2,000 members then; the store wrote 1,000"},
		"a store that is no use":    {100, 2000, 9000, 9000, 10, 60, 108, "too slow or too busy"},
		"one without a single beat": {100, 2, 40, 60, 0, 5, 0.8, "the store wrote 0"},
	} {
		a := advise(&storeReport{Members: c.members, CAS: timings{P99: c.p99, Worst: c.worst}, Heartbeats: timings{Worst: c.beats}, PerSecond: c.perSecond})
		if a.Lease != c.lease || a.Heartbeat != 0.4*c.lease || a.Shortest != c.shortest || !strings.Contains(strings.Join(a.Why, "\n"), c.says) {
			t.Errorf("%s: %+v, want lease %v, shortest %v and %q", what, a, c.lease, c.shortest, c.says)
		}
		if _, err := rota.New(rota.Config{Group: "g", Store: rotatest.NewMemStore(), Source: rotatest.NewMemSource(1, "q"), Lease: inSeconds(a.Lease), Heartbeat: inSeconds(a.Heartbeat),
			Handle: func(context.Context, rota.Message) error { return nil }}); err != nil {
			t.Errorf("%s: no member would take the advice: %v", what, err)
		}
	}
}

func TestBenchStorePercentiles(t *testing.T) {
	var calls []time.Duration
	for i := 1000; i > 0; i-- {
		calls = append(calls, time.Duration(i)*time.Millisecond)
	}
	if got, want := sumUp(calls, 3), (timings{Calls: 1000, Failed: 3, P50: 500, P99: 990, Worst: 1000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := sumUp(nil, 0); got != (timings{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// By Ctrl-C a real process removes its group from a real store.
func TestBenchStoreRemovesItsGroupAfterCtrlC(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := trial.Start(t, dir, "bench", "store", "--store", "embed:data", "--members", "5", "--each", "60s")
	trial.Until(t, "the first writes", func() bool { return strings.Contains(p.Err.String(), "one at a time") })
	p.Process.Signal(syscall.SIGINT)
	if code := p.Code(); code != cli.ExitInterrupted || p.Out.String() != "" {
		t.Errorf("exit %d, %q", code, &p.Out)
	}
	said := regexp.MustCompile(`the group (bench-[a-z0-9]+) is removed`).FindStringSubmatch(p.Err.String())
	if said == nil {
		t.Fatalf("it says %q", &p.Err)
	}
	s := embedded.Store("embed:" + filepath.Join(dir, "data"))
	defer s.Close()
	for batch, err := range s.Watch(t.Context(), said[1]+"/") {
		if err != nil || len(batch) > 0 {
			t.Errorf("it leaves %v behind (%v)", batch, err)
		}
		break
	}
}

func TestBenchStoreSaysWhatIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 69, "no rota up or rota serve has run in rota-data"},
		{"--store mysql://me:hunter2@h", 64, `--store "mysql://***@h": unknown kind of URL`},
		{"--store nats://me:hunter2@127.0.0.1:1", 69, "the store nats://***@127.0.0.1:1 cannot be reached: "},
		{"--store redis://:hunter2@127.0.0.1:1", 69, "connection refused"},
		{"--store mem: --members 0", 64, `--members "0": want a whole number from 1 to 2000`},
		{"--store mem: --each 0s", 64, `--each "0s": it cannot be zero`},
		{"--store mem: -o yaml", 64, `--output "yaml": want table or json`},
		{"--store mem: now", 64, `unknown command "now"`},
	} {
		code, stdout, stderr := rotaRuns(t.Context(), append([]string{"bench", "store"}, strings.Fields(c.args)...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: exit %d, %q, %q; want %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
}
