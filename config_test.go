package rota_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

func sound() rota.Config {
	return rota.Config{
		Group:    "test",
		Store:    rotatest.NewMemStore(),
		Source:   rotatest.NewMemSource(0, "q0"),
		Handle:   func(context.Context, rota.Message) error { return nil },
		NewGroup: true,
	}
}

func manyLabels(n, size int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint("k", i)] = strings.Repeat("v", size)
	}
	return m
}

// TestS2_Knobs_NewNamesWhatIsWrong breaks a sound configuration in one line each. The
// error names the settings and their values, and says what to do.
func TestS2_Knobs_NewNamesWhatIsWrong(t *testing.T) {
	handle := func(context.Context, rota.Message) error { return nil }
	batch := func(context.Context, []rota.Message) (int, error) { return 0, nil }
	fn := rota.Func([]string{"q0"}, func(context.Context, rota.Ownership) error { return nil })
	const ms, sec = time.Millisecond, time.Second
	for _, c := range []struct {
		name string
		with func(*rota.Config)
		says string // phrases, separated by |; empty: nothing is wrong
	}{
		{"as it is", func(c *rota.Config) {}, ""},

		{"no group", func(c *rota.Config) { c.Group = "" }, "Config.Group is empty|name"},
		{"group with a dot", func(c *rota.Config) { c.Group = "a.b" }, `Config.Group "a.b"|A-Z`},
		{"group with a slash", func(c *rota.Config) { c.Group = "a/b" }, `Config.Group "a/b"|A-Z`},
		{"group with a letter of others", func(c *rota.Config) { c.Group = "größe" }, `Config.Group "größe"|A-Z`},
		{"longest group", func(c *rota.Config) { c.Group = strings.Repeat("g", 48) }, ""},
		{"group too long", func(c *rota.Config) { c.Group = strings.Repeat("g", 49) }, "Config.Group|at most 48"},
		{"no store", func(c *rota.Config) { c.Store = nil }, "Config.Store is nil|needs a store"},
		{"no source", func(c *rota.Config) { c.Source = nil }, "Config.Source is nil|say what"},

		{"both handlers", func(c *rota.Config) { c.HandleBatch = batch }, "Handle and HandleBatch|choose one"},
		{"no handler", func(c *rota.Config) { c.Handle = nil }, "no Handle and no HandleBatch|rota.Func"},
		{"a batch", func(c *rota.Config) { c.Handle, c.HandleBatch = nil, batch }, ""},
		{"a function", func(c *rota.Config) { c.Source, c.Handle = fn, nil }, ""},
		{"a function with Handle", func(c *rota.Config) { c.Source, c.Handle = fn, handle }, "handler and rota.Func|drop one"},
		{"a function with HandleBatch", func(c *rota.Config) { c.Source, c.Handle, c.HandleBatch = fn, nil, batch }, "handler and rota.Func|drop one"},
		{"a function with Parallel", func(c *rota.Config) { c.Source, c.Handle, c.Parallel = fn, nil, 3 }, "Config.Parallel is 3|rota.Func|drop one"},
		{"a nil function", func(c *rota.Config) { c.Source, c.Handle = rota.Func([]string{"q0"}, nil), nil }, "rota.Func of a nil function|give it one"},
		{"a batch with Parallel", func(c *rota.Config) { c.Handle, c.HandleBatch, c.Parallel = nil, batch, 2 }, "Config.Parallel is 2 with HandleBatch|use Handle"},
		{"negative Parallel", func(c *rota.Config) { c.Parallel = -1 }, "Config.Parallel is -1|use zero"},
		{"negative Attempts", func(c *rota.Config) { c.Attempts = -2 }, "Config.Attempts is -2|use zero"},

		{"negative pause", func(c *rota.Config) { c.BackoffFirst = -sec }, "Config.BackoffFirst is -1s|cannot be negative"},
		{"pauses that shrink", func(c *rota.Config) { c.BackoffFirst, c.BackoffLast = 2*sec, sec }, "Config.BackoffFirst is 2s|Config.BackoffLast is 1s|longer"},
		{"a short last pause", func(c *rota.Config) { c.BackoffLast = 10 * ms }, ""},
		{"handle time without a unit", func(c *rota.Config) { c.HandleTime = 30 }, "Config.HandleTime is 30ns|unit missing"},

		{"strange strategy", func(c *rota.Config) { c.Strategy = "best" }, `Config.Strategy "best"|"spread"|"range"`},
		{"known strategy", func(c *rota.Config) { c.Strategy = rota.Range }, ""},
		{"strange mode", func(c *rota.Config) { c.Mode = "lazy" }, `Config.Mode "lazy"|"incremental"|"eager"`},
		{"known mode", func(c *rota.Config) { c.Mode = rota.Eager }, ""},

		{"name with a line break", func(c *rota.Config) { c.Name = "a\nb" }, `Config.Name "a\nb"|control characters`},
		{"name that is no text", func(c *rota.Config) { c.Name = "a\xff" }, `Config.Name "a\xff"|not valid UTF-8`},
		{"longest name", func(c *rota.Config) { c.Name = strings.Repeat("n", 128) }, ""},
		{"name too long", func(c *rota.Config) { c.Name = strings.Repeat("n", 129) }, "Config.Name|129 bytes|128"},

		{"most labels", func(c *rota.Config) { c.Labels = manyLabels(64, 1) }, ""},
		{"too many labels", func(c *rota.Config) { c.Labels = manyLabels(65, 1) }, "Config.Labels|65 pairs, more than 64|use fewer"},
		{"labels too large", func(c *rota.Config) { c.Labels = manyLabels(2, 2100) }, "Config.Labels|4204 bytes|more than 4096|shorter"},
		{"label without a key", func(c *rota.Config) { c.Labels = map[string]string{"": "x"} }, "Config.Labels|key is empty"},
		{"label with a strange key", func(c *rota.Config) { c.Labels = map[string]string{"a\tb": "x"} }, `Config.Labels|"a\tb"|control`},
		{"label that is no text", func(c *rota.Config) { c.Labels = map[string]string{"a": "\xff"} }, `Config.Labels|"\xff"|UTF-8`},

		{"W not above B", func(c *rota.Config) { c.Lease, c.Heartbeat = 2*sec, 2*sec }, "lease of 2s|after 2.1s|heartbeat of 2s|for 2.6s|longer than 4.45s"},
		{"W not above B, with the default heartbeat", func(c *rota.Config) { c.Lease = sec }, "lease of 1s|heartbeat of 2s|longer"},
		{"two heartbeats do not fit", func(c *rota.Config) { c.Lease, c.Heartbeat = 4*sec, 2*sec }, "heartbeat of 2s|lease of 4s|the 400ms|below 1.8s|above 4.45s"},
		{"two heartbeats just do not fit", func(c *rota.Config) { c.Lease, c.Heartbeat = 5*sec, 2250*ms }, "heartbeat of 2.25s|lease of 5s|below 2.25s|above 5s"},
		{"two heartbeats just fit", func(c *rota.Config) { c.Lease, c.Heartbeat = 5*sec, 2249*ms }, ""},
		{"drain within the time to stop", func(c *rota.Config) { c.Lease, c.StopTime = 20*sec, 2*sec }, "stop time of 2s|the 2s|lease of 20s|longer"},
		{"drain just longer", func(c *rota.Config) { c.Lease, c.StopTime = 20*sec, 2001*ms }, ""},

		{"negative lease", func(c *rota.Config) { c.Lease = -sec }, "Config.Lease is -1s|cannot be negative"},
		{"negative heartbeat", func(c *rota.Config) { c.Heartbeat = -2 }, "Config.Heartbeat is -2ns|cannot be negative"},
		{"negative settle", func(c *rota.Config) { c.QuietTime = -2 }, "Config.QuietTime is -2ns|cannot be negative"},
		{"negative drain", func(c *rota.Config) { c.StopTime = -sec }, "Config.StopTime is -1s|cannot be negative"},
		{"negative grace", func(c *rota.Config) { c.Grace = -sec }, "Config.Grace is -1s|cannot be negative"},
		{"negative orphan", func(c *rota.Config) { c.Orphan = -sec }, "Config.Orphan is -1s|cannot be negative"},
		{"negative return", func(c *rota.Config) { c.Return = -sec }, "Config.Return is -1s|cannot be negative"},
		{"return without a name", func(c *rota.Config) { c.Name, c.Return = "", 10*sec }, "Config.Return is 10s|Config.Name is empty|another name"},
		{"negative listing", func(c *rota.Config) { c.ListEvery = -sec }, "Config.ListEvery is -1s|cannot be negative"},
		{"listing without a unit", func(c *rota.Config) { c.ListEvery = 30 }, "Config.ListEvery is 30ns|the least is 1ms"},
		{"listing at once", func(c *rota.Config) { c.ListEvery = rota.AtOnce }, "Config.ListEvery is AtOnce|zero"},
		{"negative stall", func(c *rota.Config) { c.StallTime = -sec }, "Config.StallTime is -1s|cannot be negative"},
		{"no stalls", func(c *rota.Config) { c.StallTime = rota.AtOnce }, ""},
		{"lease at once", func(c *rota.Config) { c.Lease = rota.AtOnce }, "Config.Lease is AtOnce|zero"},
		{"heartbeat at once", func(c *rota.Config) { c.Heartbeat = rota.AtOnce }, "Config.Heartbeat is AtOnce|zero"},
		{"drain at once", func(c *rota.Config) { c.StopTime = rota.AtOnce }, "Config.StopTime is AtOnce|zero"},
		{"the rest at once", func(c *rota.Config) {
			c.QuietTime, c.Grace, c.Orphan, c.Return = rota.AtOnce, rota.AtOnce, rota.AtOnce, rota.AtOnce
		}, ""},
		{"lease without a unit", func(c *rota.Config) { c.Lease = 5 }, "Config.Lease is 5ns|unit"},
		{"orphan without a unit", func(c *rota.Config) { c.Orphan = 30 }, "Config.Orphan is 30ns|unit"},
		{"lease too short", func(c *rota.Config) { c.Lease, c.Heartbeat = 99*ms, 10*ms }, "Config.Lease is 99ms|least is 100ms"},
		{"shortest lease", func(c *rota.Config) { c.Lease, c.Heartbeat = 100*ms, 40*ms }, ""},
		{"longest lease", func(c *rota.Config) { c.Lease, c.StopTime = 24*time.Hour, 3*time.Hour }, ""},
		{"lease too long", func(c *rota.Config) { c.Lease = 25 * time.Hour }, "Config.Lease is 25h0m0s|most is 24h0m0s"},
		{"lease that overflows", func(c *rota.Config) { c.Lease = 1<<63 - 1 }, "Config.Lease is|most is"},
		{"heartbeat that overflows", func(c *rota.Config) { c.Heartbeat = 1<<63 - 1 }, "Config.Heartbeat is|most is"},
		{"orphan that overflows", func(c *rota.Config) { c.Orphan = 1<<63 - 1 }, "Config.Orphan is|most is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := sound()
			c.with(&cfg)
			_, err := rota.New(cfg)
			if c.says == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("not refused")
			}
			for phrase := range strings.SplitSeq(c.says, "|") {
				if !strings.Contains(err.Error(), phrase) {
					t.Errorf("%q does not say %q", err, phrase)
				}
			}
			if !strings.HasPrefix(err.Error(), "rota: ") {
				t.Errorf("%q does not say whose error it is", err)
			}
		})
	}
}

// The time to stop is always a tenth of the lease today. If that changes, New must
// check it.
func TestNoLeaseWithinTheTimeToStop(t *testing.T) {
	err := rota.CheckTiming(5*time.Second, time.Second, 5*time.Second)
	if err == nil || !strings.Contains(err.Error(), "lease of 5s leaves no time after the 5s") {
		t.Errorf("got %v", err)
	}
	if err := rota.CheckTiming(5*time.Second, time.Second, time.Second); err != nil {
		t.Error(err)
	}
}

func TestS2_Knobs_Defaults(t *testing.T) {
	const ms, sec = time.Millisecond, time.Second
	for _, c := range []struct {
		with func(*rota.Config)
		want [7]time.Duration // lease, heartbeat, quiet, stop, grace, orphan, return
	}{
		{func(*rota.Config) {}, [...]time.Duration{5 * sec, 2 * sec, 100 * ms, 30 * sec, sec, 30 * sec, 0}},
		{func(c *rota.Config) {
			c.QuietTime, c.Grace, c.Orphan, c.Return = rota.AtOnce, rota.AtOnce, rota.AtOnce, rota.AtOnce
		}, [...]time.Duration{5 * sec, 2 * sec, 0, 30 * sec, 0, 0, 0}},
		{func(c *rota.Config) {
			c.Name = "c1"
			c.Lease, c.Heartbeat, c.QuietTime, c.StopTime, c.Grace, c.Orphan, c.Return = 9*sec, sec, 2*sec, 3*sec, 4*sec, 5*sec, 6*sec
		}, [...]time.Duration{9 * sec, sec, 2 * sec, 3 * sec, 4 * sec, 5 * sec, 6 * sec}},
	} {
		cfg := sound()
		c.with(&cfg)
		m, err := rota.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Timing(); got != c.want {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
	if m, _ := rota.New(sound()); len(strings.Split(m.Name(), "-")) < 3 {
		t.Errorf("default name %q, want host-pid-random", m.Name())
	}
}

func TestS2_Knobs_ShortLeaseWarns(t *testing.T) {
	for _, c := range []struct {
		lease time.Duration
		warns bool
	}{{5 * time.Second, false}, {4800 * time.Millisecond, true}} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			cfg := sound()
			cfg.Lease, cfg.Log = c.lease, slog.New(slog.NewTextHandler(&log, nil))
			m, err := rota.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			events := m.Events(context.Background())
			if err := m.Run(ctx); err != nil {
				t.Fatal(err)
			}
			note, told := fmt.Sprintf("a lease of %v is short for a heartbeat of 2s", c.lease), false
			for e := range events {
				told = told || e.Condition == rota.ConditionTightLease
			}
			if logged := strings.Contains(log.String(), note); told != c.warns || logged != c.warns {
				t.Errorf("lease %v: told %v, logged %v, want %v", c.lease, told, logged, c.warns)
			}
		})
	}
}

// lists is a source that lists what it is told to, then something else.
type lists struct {
	rota.Source
	answers []func() ([]rota.Partition, error) // the last one again and again
	asked   int
}

func (l *lists) Partitions(context.Context) ([]rota.Partition, error) {
	l.asked++
	return l.answers[min(l.asked, len(l.answers))-1]()
}

func listing(names ...string) func() ([]rota.Partition, error) {
	return func() ([]rota.Partition, error) {
		var out []rota.Partition
		for _, n := range names {
			out = append(out, rota.Partition{Name: n})
		}
		return out, nil
	}
}

// partial lists q0, and names in its error what it leaves out.
func partial(left ...string) func() ([]rota.Partition, error) {
	return func() ([]rota.Partition, error) {
		var errs []error
		for _, l := range left {
			errs = append(errs, fmt.Errorf("%w: %s", rota.ErrPartial, l))
		}
		return []rota.Partition{{Name: "q0"}}, errors.Join(errs...)
	}
}

func silent() ([]rota.Partition, error) { return nil, errors.New("nobody there") }

// A list that cannot be served ends Run if it is the source's first one; later it is a
// condition.
func TestRunRefusesWhatTheSourceLists(t *testing.T) {
	const good = "" // Run goes on
	meta := func(m rota.Meta) func() ([]rota.Partition, error) {
		return func() ([]rota.Partition, error) { return []rota.Partition{{Name: "q0", Meta: m}}, nil }
	}
	type answers = []func() ([]rota.Partition, error)
	for _, c := range []struct {
		name     string
		answers  answers
		says     string
		reported string // a condition
	}{
		{"good", answers{listing("q0")}, good, ""},
		{"none", answers{listing()}, "no partition at all|name at least one", ""},
		{"twice", answers{listing("a", "b", "a")}, `"a" twice|must differ`, ""},
		{"empty name", answers{listing("")}, "partition 0 is empty|name it", ""},
		{"a bad name among good ones", answers{listing("q0", "")}, good, "not served: partition is empty"},
		{"a control character among good ones", answers{listing("q0", "a\x01")}, good, `not served: partition "a\x01" has control characters`},
		{"no text among good ones", answers{listing("a\xff", "q0")}, good, `not served: partition "a\xff" is not valid UTF-8`},
		{"too long among good ones", answers{listing(strings.Repeat("n", 257), "q0")}, good, "is 257 bytes long"},
		{"not all", answers{partial("a of 7", "b of 7")}, good, "the source does not list everything: a of 7\nthe source does not list everything: b of 7"},
		{"control character", answers{listing("a\x00")}, `partition 0 "a\x00"|control characters|leave them out`, ""},
		{"no text", answers{listing("a\xff")}, `partition 0 "a\xff"|UTF-8`, ""},
		{"longest name", answers{listing("q0", strings.Repeat("n", 256))}, good, ""},
		{"too long", answers{listing(strings.Repeat("n", 257))}, "257 bytes|most is 256|shorter", ""},
		{"most metadata", answers{meta(rota.Meta{"k": strings.Repeat("v", 4095)})}, good, ""},
		{"too much metadata", answers{meta(rota.Meta{"k": strings.Repeat("v", 4096)})}, "metadata|4097 bytes|more than 4096|make the list shorter", ""},
		{"metadata that is no text", answers{meta(rota.Meta{"k": "\xff"})}, `metadata|"\xff"|UTF-8`, ""},
		{"no answer at first", answers{silent, silent, listing("q0")}, good, "nobody there"},
		{"no answer, then a bad one", answers{silent, listing()}, "no partition at all", ""},
		{"bad later", answers{listing("q0"), listing("q0", "q0")}, good, `lists what cannot be served: "q0" twice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := sound()
				cfg.Source = &lists{Source: cfg.Source, answers: c.answers}
				cfg.Rejoin = true // which must not hide it
				m, err := rota.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				events := m.Events(context.Background())
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				err = m.Run(ctx)
				if c.says == good && (err != nil || ctx.Err() == nil) || c.says != good && err == nil {
					t.Fatalf("Run returned %v", err)
				}
				for phrase := range strings.SplitSeq(c.says, "|") {
					if err != nil && !strings.Contains(err.Error(), phrase) {
						t.Errorf("%q does not say %q", err, phrase)
					}
				}
				started, reported := false, ""
				for e := range events {
					started = started || e.Kind == rota.EventStart && e.Partition == "q0"
					if e.Kind == rota.EventCondition {
						reported += e.Because + "\n"
					}
				}
				if started != (c.says == good) {
					t.Errorf("q0 was started: %v", started)
				}
				if !strings.Contains(reported, c.reported) {
					t.Errorf("reported %q, want %q", reported, c.reported)
				}
				if n := strings.Count(reported, c.reported); strings.HasPrefix(c.reported, "not served") && n != 1 {
					t.Errorf("%q was reported %d times", c.reported, n)
				}
			})
		})
	}
}

// A bad listing by a new leader's source must not end a group that works, one
// leader after the other.
func TestBadListingEndsNoGroupAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		_, leave1 := g.start("c1", nil)
		pass(time.Second)
		m2, leave2 := g.start("c2", func(c *rota.Config) {
			c.Source = &lists{Source: g.src, answers: []func() ([]rota.Partition, error){listing()}}
		})
		pass(time.Second)
		if err := leave1(); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		st := m2.Status()
		if len(st.Members) != 2 || !slices.ContainsFunc(st.Members, func(m rota.MemberInfo) bool {
			return m.Session == st.Leader && m.Name == "c2" && m.State == rota.MemberLive && m.Partitions >= 2
		}) {
			t.Errorf("the new leader does not go on: %+v", st)
		}
		if err := leave2(); err != nil {
			t.Error(err)
		}
		g.wg.Wait()
	})
}
