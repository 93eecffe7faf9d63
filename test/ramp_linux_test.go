package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/servers"
)

// What all ramps have in common. A member's worth of load is what one carries in a group
// that may shrink to it: what a plan fills, less the band that must fit besides and a little,
// since a load at the border of a size rightly keeps the larger one.
const (
	rampPartitions = 48
	rampCapacity   = 40.0
	rampTarget     = 0.8
	rampWorth      = rampCapacity * rampTarget / 1.15
)

// A ramp is a group that changes its size under a load that changes, and what was measured.
type ramp struct {
	*testing.T
	setup
	rota   string // the program
	dir    string // of event lines
	addr   string // of the NATS server that is its store and its source
	group  string
	stream string
	sink   *narrowSink
	store  rota.Store
	load   *wave
	stood  time.Duration // how long this process could not look, at most

	mu     sync.Mutex
	seen   *rota.Status
	grants granter
	all    []moment
}

// longTest skips a test that takes minutes, unless it was asked for.
func longTest(t *testing.T) {
	t.Helper()
	if os.Getenv("ROTA_RAMP") == "" {
		t.Skip("ROTA_RAMP is not set: make ramp runs this, for minutes")
	}
}

func newRamp(t *testing.T, scaler, group, stream string) *ramp {
	t.Helper()
	r := &ramp{T: t, rota: filepath.Join(t.TempDir(), "rota"), dir: t.TempDir(), group: group, stream: stream,
		setup: setup{scaler, rampPartitions, rampCapacity, rampTarget, 1, 1}}
	if keep := os.Getenv("ROTA_RAMP"); keep != "" {
		r.dir = filepath.Join(keep, scaler+".events") // for those who want to know why
		if err := errors.Join(os.RemoveAll(r.dir), os.MkdirAll(r.dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-o", r.rota, "github.com/rota-dev/rota/cmd/rota").CombinedOutput(); err != nil {
		t.Fatalf("rota does not build: %v\n%s", err, out)
	}
	addr, release, err := servers.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	r.addr = addr
	r.sink = newNarrowSink(t, r.dir, rampCapacity)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("this process itself stood still for %v at most: a busy machine shows nothing", r.stood)
		}
	})
	return r
}

// url is the address of the NATS server.
func (r *ramp) url() string { return "nats://" + r.addr }

// open looks at the group from now on, until the test ends.
func (r *ramp) open() {
	r.store = rotanats.Store(r.url())
	var over sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	r.Cleanup(func() {
		cancel()
		over.Wait()
		r.store.Close()
	})
	over.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			st, err := rota.Inspect(ctx, r.store, r.group)
			if err != nil {
				continue // not there yet, or the end
			}
			r.mu.Lock()
			r.seen = &st
			r.grants.see(&st)
			r.mu.Unlock()
		}
	})
}

// members are those that live, and those that are about to leave; wanted is what the leader
// wants.
func (r *ramp) members() (wanted, have, owners int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		return 0, 0, 0
	}
	if r.seen.Size != nil {
		wanted = r.seen.Size.Wanted
	}
	for _, m := range r.seen.Members {
		if m.State == rota.MemberLive || m.State == rota.MemberLeaving {
			have++
			if m.Partitions > 0 {
				owners++
			}
		}
	}
	return wanted, have, owners
}

// settled tells whether so many members are there and wanted, and everything runs.
func (r *ramp) settled(members int) bool {
	wanted, have, _ := r.members()
	r.mu.Lock()
	defer r.mu.Unlock()
	return wanted == members && have == members && r.seen.Phase == rota.Sentinel &&
		!slices.ContainsFunc(r.seen.Partitions, func(p rota.PartitionInfo) bool { return p.State != rota.PartitionOwned }) && len(r.seen.Partitions) == r.Partitions
}

// until waits for a condition, and measures meanwhile.
func (r *ramp) until(what string, most time.Duration, holds func() bool) {
	r.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for end, last := time.Now().Add(most), time.Now(); !holds(); <-tick.C {
		r.stood, last = max(r.stood, time.Since(last)), time.Now()
		r.measure()
		if time.Now().After(end) {
			wanted, have, owners := r.members()
			r.Fatalf("no %s within %v: %d members wanted, %d there, %d own something", what, most, wanted, have, owners)
		}
	}
}

// measure adds a moment, if there is a load.
func (r *ramp) measure() {
	if r.load == nil {
		return
	}
	sent, _ := r.load.count()
	handled, _ := r.sink.got()
	since := time.Since(r.load.began)
	m := moment{At: since.Seconds(), Rate: r.load.rate(since), Sent: sent, Handled: min(handled, sent)}
	m.Needed = r.needed(m.Rate)
	m.Want, m.Have, _ = r.members()
	r.all = append(r.all, m)
}

// worths begins a load of so many members' worth at each time.
func (r *ramp) worths(at func(since time.Duration) float64) {
	r.load = newWave(r.T, r.url(), r.stream+".", r.Partitions, func(since time.Duration) float64 { return rampWorth * at(since) })
}

// triangle goes from 1 to 6 in one leg and back in the next.
func triangle(leg time.Duration) func(time.Duration) float64 {
	return func(since time.Duration) float64 {
		away := (since - leg).Abs()
		return 1 + 5*max(0, 1-away.Seconds()/leg.Seconds())
	}
}

// finish stops the load, waits until everything is handled, and measures a last time.
func (r *ramp) finish() {
	r.Helper()
	sent, err := r.load.stop()
	if err != nil {
		r.Fatalf("publish: %v", err)
	}
	r.until("end of the backlog", time.Minute, func() bool { n, _ := r.sink.got(); return n >= sent })
	r.measure()
	if _, wrong := r.sink.got(); len(wrong) > 0 {
		r.Errorf("%d messages came out of order: %s", len(wrong), wrong[0])
	}
}

// climb runs a whole ramp and comes back to the least and the spare ones.
func (r *ramp) climb(leg time.Duration) {
	r.Helper()
	r.worths(func(time.Duration) float64 { return 1 })
	r.until("a member and a spare one", 3*time.Minute, func() bool { return r.settled(r.Least + r.Spare) })
	if _, err := r.load.stop(); err != nil {
		r.Fatal(err)
	}
	r.resume(triangle(leg))
	r.until("end of the curve", 2*leg+time.Minute, func() bool { return time.Since(r.load.began) >= 2*leg })
	r.until("a member and a spare one again", 6*time.Minute, func() bool { return r.settled(r.Least + r.Spare) })
	r.finish()
}

// resume goes on with another load, whose figures count from now.
func (r *ramp) resume(at func(time.Duration) float64) {
	r.load.resume(func(since time.Duration) float64 { return rampWorth * at(since) })
	r.all = nil
}

// judgeAll judges what was measured and what the members told until before, on the clock of
// the event lines, and writes the file that the picture is made of.
func (r *ramp) judgeAll(before int64, files ...string) {
	r.Helper()
	f, wrong := r.judge(r.all)
	r.Logf("%s: %v", r.Scaler, f)
	r.keep()
	ended := r.judgeLines(before, files...)
	r.Logf("%s: %d members were ended, %d messages", r.Scaler, ended, r.all[len(r.all)-1].Sent)
	if ended == 0 {
		wrong = append(wrong, "nobody was ended")
	}
	for _, w := range wrong {
		r.Error(w)
	}
}

// judgeLines asks rota check about the event lines, and whether nobody was ended that owned
// something or was granted something when it did not live.
func (r *ramp) judgeLines(before int64, files ...string) (ended int) {
	r.Helper()
	r.sink.flush()
	out, err := exec.Command(r.rota, append([]string{"check", filepath.Join(r.dir, "sink.jsonl")}, files...)...).CombinedOutput()
	if err != nil {
		r.Errorf("rota check: %v: %s", err, out)
	}
	lines := readLines(r.T, files...)
	busy, ended := endedBusy(lines, before)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range append(busy, r.grants.wrong...) {
		r.Error(w)
	}
	return ended
}

// keep writes what was measured into the folder that ROTA_RAMP names, if it does.
func (r *ramp) keep() {
	dir := os.Getenv("ROTA_RAMP")
	if dir == "" {
		return
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.Encode(r.setup)
	for i := range r.all {
		w.Encode(&r.all[i])
	}
	if err := os.WriteFile(filepath.Join(dir, r.Scaler+".jsonl"), b.Bytes(), 0o644); err != nil {
		r.Error(err)
	}
}

// readLines reads event lines, in the order of time.
func readLines(t *testing.T, files ...string) (all []line.Line) {
	t.Helper()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for text := range bytes.Lines(b) {
			if l, err := line.Parse(text); err == nil {
				all = append(all, l)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b line.Line) int { return int(a.Boot - b.Boot) })
	return all
}

// now is the time of the event lines.
func now() int64 { return int64(clock.Boot()) }

// up runs rota up with a size that changes, without a load of its own.
func (r *ramp) up() (events string, stop func()) {
	r.Helper()
	data := filepath.Join(r.TempDir(), "data")
	log, err := os.Create(filepath.Join(r.dir, "up.log"))
	if err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command(r.rota, "up", "--scale", "1..8", "--capacity", fmt.Sprint(r.Capacity), "--partitions", fmt.Sprint(r.Partitions), "--rate", "0",
		"--handle", "http://"+r.sink.addr+"/", "--dir", data, "--listen", r.addr, "--open")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	r.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && r.Failed() {
			r.Logf("rota up: …%s", text[max(0, len(text)-3000):])
		}
	})
	r.open()
	r.until("a first member", time.Minute, func() bool { _, have, _ := r.members(); return have > 0 })
	return filepath.Join(data, "events.jsonl"), func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	}
}

// TestRamp: rota up follows a load that goes from 1 to 6 members' worth in two minutes and
// back in two.
func TestRamp(t *testing.T) {
	longTest(t)
	r := newRamp(t, "local", "demo", "demo")
	events, stop := r.up()
	r.climb(2 * time.Minute)
	before := now()
	stop()
	r.judgeAll(before, events)
}

// TestLoadDoublesAtOnce: from 2 to 4 members' worth. The group gets relief within the
// interval, the start of a process and one hand-over, and the share of each is told.
func TestLoadDoublesAtOnce(t *testing.T) {
	longTest(t)
	r := newRamp(t, "doubled", "demo", "demo")
	events, stop := r.up()
	r.worths(func(time.Duration) float64 { return 2 })
	r.until("two members and a spare one", 3*time.Minute, func() bool { return r.settled(3) })
	if _, err := r.load.stop(); err != nil {
		t.Fatal(err)
	}
	began := now()
	r.resume(func(time.Duration) float64 { return 4 })
	r.until("four members and a spare one", 3*time.Minute, func() bool { return r.settled(5) })
	r.until("end of the backlog", 3*time.Minute, func() bool { m := &r.all[len(r.all)-1]; return m.backlog() < m.Rate })
	r.finish()
	before := now()
	stop()
	r.keep()
	r.judgeLines(before, events)
	relief := r.relief(began, readLines(t, events))
	t.Logf("%v", relief)
	if most := defaultInterval + relief.start + relief.moved; relief.total > most {
		t.Errorf("relief took %v, and the interval, the start of a process and a hand-over are %v", relief.total, most)
	}
}

// defaultInterval is how often the whole plan is looked at.
const defaultInterval = 30 * time.Second

// A relief says where the time went between an overload and its end.
type relief struct {
	grew    time.Duration // until the backlog did not grow any more: the spare member helps first
	noticed time.Duration // until more members were asked for
	start   time.Duration // from there until the first of them had joined
	moved   time.Duration // from the first revoke after that until everything ran
	total   time.Duration // until then
}

func (x relief) String() string {
	return fmt.Sprintf("relief after %.1f s: more members were asked for after %.1f s, the first had joined %.1f s later, and a hand-over took %.1f s; the backlog grew for %.1f s",
		x.total.Seconds(), x.noticed.Seconds(), x.start.Seconds(), x.moved.Seconds(), x.grew.Seconds())
}

// relief reads the event lines since a load doubled.
func (r *ramp) relief(began int64, lines []line.Line) (x relief) {
	var asked, joined, revoked, started int64
	for _, l := range lines {
		switch {
		case l.Boot < began:
		case l.Event == string(rota.EventSize) && asked == 0 && l.Want > l.Have:
			asked = l.Boot
		case l.Event == string(rota.EventJoined) && asked > 0 && joined == 0:
			joined = l.Boot
		case l.Event == string(rota.EventRevoke) && joined > 0 && revoked == 0:
			revoked = l.Boot
		case l.Event == string(rota.EventStart) && revoked > 0 && l.Boot-revoked < int64(10*time.Second):
			started = l.Boot
		}
	}
	if asked == 0 || joined == 0 || revoked == 0 || started == 0 {
		r.Fatalf("the lines do not tell how the group got relief: asked %d, joined %d, revoked %d, started %d", asked, joined, revoked, started)
	}
	x.noticed, x.start, x.moved = time.Duration(asked-began), time.Duration(joined-asked), time.Duration(started-revoked)
	worst := 0
	for i := range r.all {
		if r.all[i].backlog() > r.all[worst].backlog() {
			worst = i
		}
	}
	x.grew = time.Duration(r.all[worst].At * float64(time.Second))
	x.total = max(time.Duration(started-began), x.grew)
	return x
}

// A process is a member that a platform runs.
type process struct {
	cmd    *exec.Cmd
	joined chan struct{} // closed when it has
	gone   chan struct{} // closed when it has ended
}

// run starts a member by rota run.
func (r *ramp) run(name, scaler string, flags ...string) *process {
	args := append([]string{"run", "--group", r.group, "--name", name, "--new-group", "--store", r.url(), "--source", fmt.Sprintf("%s?stream=%s&subject=%s.*&partitions=%d&create=true", r.url(), r.stream, r.stream, r.Partitions),
		"--handle", "http://" + r.sink.addr + "/", "--events", "-", "--strategy", "pack", "--capacity", fmt.Sprint(r.Capacity), "--scaler", scaler, "--scale", "1..8"}, flags...)
	p := &process{cmd: exec.Command(r.rota, args...), joined: make(chan struct{}), gone: make(chan struct{})}
	var said bytes.Buffer
	p.cmd.Stderr = &said
	p.cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	file, bad := os.Create(filepath.Join(r.dir, name+".jsonl"))
	if err == nil {
		err = bad
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		panic(err) // any goroutine starts members
	}
	go func() {
		defer close(p.gone)
		defer file.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintf(file, "%s\n", lines.Bytes())
			if l, err := line.Parse(lines.Bytes()); err == nil && l.Event == string(rota.EventJoined) {
				close(p.joined)
			}
		}
		if err := p.cmd.Wait(); err != nil {
			r.Errorf("%s: %v: %s", name, err, said.String())
		}
	}()
	return p
}

// end asks a member to leave, and waits for that.
func (p *process) end() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.gone
}

// serve runs the server that is store and source.
func (r *ramp) serve() {
	r.Helper()
	cmd := exec.Command(r.rota, "serve", "--dir", filepath.Join(r.TempDir(), "data"), "--listen", r.addr, "--open")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, &out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	r.until("server", time.Minute, func() bool {
		c, err := net.Dial("tcp", r.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	r.open()
}

// eventFiles are those of all members that ran.
func (r *ramp) eventFiles() []string {
	all, err := filepath.Glob(filepath.Join(r.dir, "*.jsonl"))
	if err != nil {
		r.Fatal(err)
	}
	return slices.DeleteFunc(all, func(f string) bool { return strings.HasSuffix(f, "sink.jsonl") })
}
