package rota

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// AtOnce, as a duration of a Config, means no time at all, where zero means the
// default. QuietTime, Grace, Orphan, Return and StallTime accept it.
const AtOnce time.Duration = -1

// Strategy says how partitions are spread over members.
type Strategy string

// The strategies.
const (
	Spread Strategy = "spread" // counts differ by at most one, fewest moves; the default
	Range  Strategy = "range"  // contiguous blocks in joining order
	Pack   Strategy = "pack"   // by measured load: few members, few moves; Config.Packing says how
)

// Mode says how partitions change hands when the plan changes.
type Mode string

// The modes.
const (
	Incremental Mode = "incremental" // only partitions that move stop; the default
	Eager       Mode = "eager"       // all partitions stop before any starts
)

// OnStoreLoss says what a member does when the store does not answer and its lease is over.
type OnStoreLoss string

// What can be done.
const (
	StopAll  OnStoreLoss = "stop"     // everything stops until the lease is back; the default
	Continue OnStoreLoss = "continue" // work goes on, and exclusivity is given up: see Config.OnStoreLoss
)

// A Config says how a member works. Group, Store, Source and a handler are
// required; the zero value of any other field means the default given here.
type Config struct {
	Group  string // name of the group: A-Z, a-z, 0-9, _ and -, at most 48 characters
	Store  Store  // where the members of the group meet; Run does not close it
	Source Source // where the partitions and their messages come from; Run does not close it

	// Handle is called for each message: one at a time per partition, in order,
	// and for several partitions at once. A failed call is retried after a pause, for
	// as long as it takes: an outage of the sink costs no message and no order. The
	// messages behind it wait, other partitions go on. An error may say more than that
	// the call failed:
	//
	//	ErrBad      the message is bad: it is dead-lettered at once
	//	ErrUntried  the call could not begin: it does not count as an attempt
	//	ErrLost     the sink refused the token: nothing is settled, and the partition
	//	            rests until the plan takes it away, or the pause is over
	//
	// The ctx has the values of Run's. It ends when the lease is lost, the stop time is
	// nearly over or HandleTime has passed, not when Run is asked to end. A panic is not
	// recovered. Backlogged partitions are served at an equal rate, but none waits for
	// one whose handler is much slower than the others' or fails.
	Handle func(ctx context.Context, msg Message) error

	// HandleBatch, instead of Handle, is called with all messages that the source
	// fetched at once, and returns how many from the front are done. It is called
	// again with the rest; an error counts as an attempt of the first message that
	// is not done.
	HandleBatch func(ctx context.Context, msgs []Message) (done int, err error)

	// Parallel is how many messages of one partition are handled at the same time.
	// With more than 1 their order is lost, and messages handled after one that is
	// dead-lettered or returned are redelivered.
	Parallel int

	// Attempts is how often a message may fail before it is dead-lettered. Zero means
	// no limit: the message itself must be at fault, and only ErrBad says so.
	Attempts int

	BackoffFirst time.Duration // 100 ms: the pause after a first failure; it doubles with each further one
	BackoffLast  time.Duration // 10 s: the longest pause

	// HandleTime is the timeout of one call of the handler; zero means none. Its ctx
	// ends then, and an error that it returns counts as a failure like any other. A
	// call that does not return is waited for, since there must be one at a time.
	HandleTime time.Duration

	Name     string            // name of the member, for people; the default is host-pid-random
	Labels   map[string]string // for people and placement: pod, instance, version, capacity, limit; at most 64, 4 KB in all
	Strategy Strategy          // Spread
	Packing  Packing           // of the strategy Pack
	Scaler   Scaler            // starts and ends members as the load needs them: docs/scaling.md
	Scaling  Scaling           // its limits
	Mode     Mode              // Incremental

	Lease     time.Duration // 5 s: how long a silent member keeps its partitions
	Heartbeat time.Duration // 2 s: renewal interval of the lease; 2×Heartbeat + Lease/10 must be less than Lease
	QuietTime time.Duration // 100 ms: how long the leader waits for further arrivals, so that a burst is one plan
	StopTime  time.Duration // 30 s: timeout for a partition to stop; then Abort is called
	Grace     time.Duration // 1 s: how long a partition is kept away from a member that gave it up
	Orphan    time.Duration // 30 s: how long Run tries to reach the store after the lease has expired
	Return    time.Duration // none: how long the partitions of a member that left or died are kept for a member of the same Name
	ListEvery time.Duration // 30 s: how often the leader asks the source for its partitions

	// StallTime is how long an owned partition may make no progress before a condition
	// says so; the default is 1 min, and AtOnce turns it off. ConditionHandlerBusy: a
	// call of the handler has not returned for so long. ConditionSourceSilent: the source
	// has delivered nothing for so long although its Meter says that messages wait; a
	// source without a Meter is not judged. ConditionNoProgress: see Ownership.Progress.
	// The condition ends with the next progress, and nothing is stopped or moved.
	StallTime time.Duration

	// Quarantine is how many owners in a row must have died with a partition until it is
	// granted to nobody any more: 3 by default, and never if it is negative. It takes more
	// than one name among them, and at least two deaths more than any other partition
	// has. A partition that runs well for a minute starts from zero. `rota release` lets
	// it run again.
	Quarantine int

	// OnStoreLoss says what happens while the store does not answer and the lease is over.
	// By default everything stops: nobody can tell whether another member has taken over.
	// With Continue a member works on with what it owns, for as long as the store does not
	// answer, and starts nothing new. That gives up exclusivity: a member that alone is cut
	// off from the store works on beside the one that took over, and only a sink that
	// checks tokens tells them apart. Work stops when the store says that the session has
	// ended, and when the process itself was stopped for longer than the lease.
	OnStoreLoss OnStoreLoss

	// Rejoin makes Run start a new session when others have ended the old one,
	// instead of returning. Before that, everything of the old session has stopped.
	Rejoin bool

	// NewGroup says that the store is known to be new, so that the first plan
	// need not wait for leases that an emptied store might have forgotten. It
	// applies to the first session of a Member only: later ones wait.
	NewGroup bool

	// Abort is the last resort when a handler is still running after its lease or
	// its stop time: only the end of the process can stop it and keep the promise
	// of one owner. The default prints the reason and exits with status 4. An Abort
	// may return if the handler has ended or can have no more effect; the member
	// then goes on. An Abort that returns while the handler still acts breaks the
	// promise. It is called for each such handler, and again every tenth of the
	// lease while a handler that was cancelled has not returned. The member's
	// heartbeats wait until it returns.
	Abort func(error)

	// Trace is called with every event as it happens, where Events may miss some.
	// It is called from many goroutines and must return at once: a heartbeat may be
	// waiting for it. With TraceMessages it is also called for each message and each
	// renewal of the lease, which costs about a microsecond each.
	Trace         func(Event)
	TraceMessages bool

	// Log gets a line for each event of the member, with its reason. By default only
	// warnings are logged, by slog.Default as it is when New is called. What repeats is
	// logged at once, then with pauses that grow from 10 s to 5 min. For silence use
	// slog.New(slog.DiscardHandler).
	Log *slog.Logger
}

// timing is the core's Timing for the durations of c, with defaults.
func (c *Config) timing() core.Timing {
	or := orDefault
	t := core.MakeTiming(or(c.Lease, 5*time.Second), or(c.Heartbeat, 2*time.Second))
	t.Quiet = or(c.QuietTime, t.Quiet)
	t.QuietMax = max(t.QuietMax, t.Quiet)
	t.StopTime = or(c.StopTime, t.StopTime)
	t.Grace = or(c.Grace, t.Grace)
	t.Orphan = or(c.Orphan, t.Orphan)
	t.Return = or(c.Return, 0)
	t.Ask = or(c.ListEvery, t.Ask)
	return t
}

// orDefault is a duration of a Config: zero means the default, AtOnce no time at all.
func orDefault(d, def time.Duration) time.Duration {
	switch d {
	case 0:
		return def
	case AtOnce:
		return 0
	}
	return d
}

// handlerPause is the back-off between two calls of a handler that failed.
func (c *Config) handlerPause() backoff {
	last := cmp.Or(c.BackoffLast, 10*time.Second)
	return backoff{cmp.Or(c.BackoffFirst, min(100*time.Millisecond, last)), last}
}

// check refuses a Config that cannot work. Where two settings contradict each
// other, the error names both.
func (c *Config) check() error {
	switch {
	case c.Group == "":
		return fmt.Errorf("rota: Config.Group is empty: give the group a name")
	case len(c.Group) > 48 || strings.IndexFunc(c.Group, notInKey) >= 0:
		return fmt.Errorf("rota: Config.Group %q: use at most 48 characters of A-Z, a-z, 0-9, _ and -", c.Group)
	case c.Store == nil:
		return fmt.Errorf("rota: Config.Store is nil: a member needs a store to meet the others in")
	case c.Source == nil:
		return fmt.Errorf("rota: Config.Source is nil: say what there is to consume")
	case c.Parallel < 0:
		return fmt.Errorf("rota: Config.Parallel is %d: it cannot be negative; use zero for one at a time", c.Parallel)
	case c.Attempts < 0:
		return fmt.Errorf("rota: Config.Attempts is %d: it cannot be negative; use zero for no limit", c.Attempts)
	case c.Strategy != "" && c.Strategy != Spread && c.Strategy != Range && c.Strategy != Pack:
		return fmt.Errorf("rota: Config.Strategy %q: known are %q, %q and %q", c.Strategy, Spread, Range, Pack)
	case c.Mode != "" && c.Mode != Incremental && c.Mode != Eager:
		return fmt.Errorf("rota: Config.Mode %q: known are %q and %q", c.Mode, Incremental, Eager)
	case c.OnStoreLoss != "" && c.OnStoreLoss != StopAll && c.OnStoreLoss != Continue:
		return fmt.Errorf("rota: Config.OnStoreLoss %q: known are %q and %q", c.OnStoreLoss, StopAll, Continue)
	}
	if err := checkOwn("Store", c.Store); err != nil {
		return err
	}
	if err := checkOwn("Source", c.Source); err != nil {
		return err
	}
	if err := c.checkHandler(); err != nil {
		return err
	}
	if err := checkName("Config.Name", c.Name, 128); c.Name != "" && err != nil {
		return fmt.Errorf("rota: %w", err)
	}
	if err := c.checkTimes(); err != nil {
		return err
	}
	if err := c.checkPacking(); err != nil {
		return err
	}
	if err := c.checkScaling(); err != nil {
		return err
	}
	return c.checkLabels()
}

// checkOwn asks a Checker.
func checkOwn(field string, of any) error {
	if x, ok := of.(Checker); ok {
		if err := x.Check(); err != nil {
			return fmt.Errorf("rota: Config.%s: %w", field, err)
		}
	}
	return nil
}

// checkLabels refuses labels that do not fit into a member's record: the member
// could never join.
func (c *Config) checkLabels() error {
	m := self(c)
	m.Session, m.Name, m.Lease, m.Beat = 1, "any", time.Second, time.Second
	if _, err := record.Encode(m); err != nil {
		return fmt.Errorf("rota: Config.Labels do not fit into the member's record: %w: use fewer, shorter labels in UTF-8, with plain keys", err)
	}
	return nil
}

func (c *Config) checkHandler() error {
	fn, isFunc := c.Source.(*funcSource)
	switch {
	case c.Handle != nil && c.HandleBatch != nil:
		return fmt.Errorf("rota: Config has both Handle and HandleBatch: choose one")
	case isFunc && (c.Handle != nil || c.HandleBatch != nil):
		return fmt.Errorf("rota: Config has a handler and rota.Func as its Source, which delivers nothing: drop one of them")
	case isFunc && fn.fn == nil:
		return fmt.Errorf("rota: Config.Source is rota.Func of a nil function: give it one")
	case isFunc && c.Parallel > 1:
		return fmt.Errorf("rota: Config.Parallel is %d with rota.Func as the Source, which delivers nothing: drop one of them", c.Parallel)
	case !isFunc && c.Handle == nil && c.HandleBatch == nil:
		return fmt.Errorf("rota: Config has no Handle and no HandleBatch: say what to do with messages, or use rota.Func as the Source")
	case c.HandleBatch != nil && c.Parallel > 1:
		return fmt.Errorf("rota: Config.Parallel is %d with HandleBatch: a batch is one call; use Handle", c.Parallel)
	}
	return nil
}

// Limits of the durations: a shorter one most likely lacks its unit, and sums of
// longer ones could overflow.
const (
	minDuration = time.Millisecond
	minLease    = 100 * time.Millisecond
	maxDuration = 24 * time.Hour
)

func (c *Config) checkTimes() error {
	for _, d := range []struct {
		name   string
		v      time.Duration
		atOnce bool
	}{
		{"Lease", c.Lease, false}, {"Heartbeat", c.Heartbeat, false}, {"QuietTime", c.QuietTime, true}, {"StopTime", c.StopTime, false},
		{"Grace", c.Grace, true}, {"Orphan", c.Orphan, true}, {"Return", c.Return, true}, {"ListEvery", c.ListEvery, false}, {"StallTime", c.StallTime, true},
		{"BackoffFirst", c.BackoffFirst, false}, {"BackoffLast", c.BackoffLast, false}, {"HandleTime", c.HandleTime, false},
	} {
		switch {
		case d.v > maxDuration:
			return fmt.Errorf("rota: Config.%s is %v: the most is %v", d.name, d.v, maxDuration)
		case d.v == AtOnce && d.atOnce:
		case d.v == AtOnce:
			return fmt.Errorf("rota: Config.%s is AtOnce: it takes time; use zero for the default", d.name)
		case d.v < 0:
			return fmt.Errorf("rota: Config.%s is %v: it cannot be negative; use zero for the default", d.name, d.v)
		case d.v > 0 && d.v < minDuration:
			return fmt.Errorf("rota: Config.%s is %v: the least is %v; is a unit missing, as in 5*time.Second?", d.name, d.v, minDuration)
		}
	}
	if p := c.handlerPause(); p.next > p.last {
		return fmt.Errorf("rota: Config.BackoffFirst is %v and Config.BackoffLast is %v: the first pause cannot be longer than the last", p.next, p.last)
	}
	if c.Return > 0 && c.Name == "" {
		return fmt.Errorf("rota: Config.Return is %v and Config.Name is empty: a process that is started again would have another name, and its partitions would wait for nobody; name it, or leave Config.Return zero", c.Return)
	}
	if c.Lease > 0 && c.Lease < minLease {
		return fmt.Errorf("rota: Config.Lease is %v: the least is %v; a shorter one would expire with a single failed heartbeat", c.Lease, minLease)
	}
	return checkTiming(c.timing())
}

// leaseFor is the lower limit of a lease for this heartbeat, rounded up: two
// heartbeats must fit into nine tenths of it, since the last tenth is for stopping.
func leaseFor(beat time.Duration) time.Duration {
	const round = 10 * time.Millisecond
	return (2*beat*10/9 + round - 1) / round * round
}

// checkTiming refuses timings that are unsafe or cannot work.
func checkTiming(t core.Timing) error {
	switch w, b := t.W(), t.B(); {
	case t.Lease <= t.Margin:
		return fmt.Errorf("rota: a lease of %v leaves no time after the %v it takes to stop: make it longer", t.Lease, t.Margin)
	case w <= b:
		return fmt.Errorf("rota: with a lease of %v a silent member is declared dead after %v, and with a heartbeat of %v a healthy one may be silent for %v: make the lease longer than %v or the heartbeat shorter",
			t.Lease, w, t.Heartbeat, b, leaseFor(t.Heartbeat))
	case 2*t.Heartbeat+t.Margin >= t.Lease:
		return fmt.Errorf("rota: a heartbeat of %v is too slow for a lease of %v: two heartbeats and the %v it takes to stop must fit into the lease; use a heartbeat below %v or a lease above %v",
			t.Heartbeat, t.Lease, t.Margin, (t.Lease-t.Margin)/2, leaseFor(t.Heartbeat))
	case t.StopTime <= t.Margin:
		return fmt.Errorf("rota: a stop time of %v is not longer than the %v that stopping takes with a lease of %v: make the stop time longer or the lease shorter", t.StopTime, t.Margin, t.Lease)
	}
	return nil
}

// tight tells whether members that die in one instant may take two plans, which is
// so with W < 2B, and says it in words.
func tight(t core.Timing) (string, bool) {
	if t.W() >= 2*t.B() {
		return "", false
	}
	return fmt.Sprintf("a lease of %v is short for a heartbeat of %v: members that die in one instant may take two plans instead of one; a lease of %v would do",
		t.Lease, t.Heartbeat, 2*t.B()), true
}

// defaultName is host-pid-random. A host name that checkName refuses is replaced by
// "host".
func defaultName() string {
	host, err := os.Hostname()
	if err != nil || checkName("host", host, 64) != nil {
		host = "host"
	}
	return fmt.Sprintf("%s-%d-%04x", host, os.Getpid(), uint16(random()))
}

func notInKey(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}

func checkName(what, s string, most int) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty: name it", what)
	case len(s) > most:
		return fmt.Errorf("%s %.40q… is %d bytes long: the most is %d, use a shorter one", what, s, len(s), most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %q is not valid UTF-8: use text", what, s)
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		return fmt.Errorf("%s %q has control characters: leave them out", what, s)
	}
	return nil
}
