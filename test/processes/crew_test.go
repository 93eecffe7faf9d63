//go:build linux

// Package processes judges rota by real processes: the same scenarios that the
// core plays in virtual time, with members that are killed, frozen and cut off,
// over a real server, with a sink that writes down what reached it.
package processes

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/record"
)

// Leases are as short as the machine is sure to keep, for time is real. Stores on a shared disk
// were seen to answer nobody for two seconds.
const (
	lease     = 3 * time.Second
	heartbeat = 900 * time.Millisecond
	settle    = 500 * time.Millisecond // on two busy cores, a tenth of a second between two arrivals of one burst is nothing unusual
	patience  = 60 * time.Second       // how long to wait for what must come
)

// A crew is the members of one group, each a process, and what they need.
type crew struct {
	*testing.T
	rota    string // the program
	defect  string // rules that are taken out of it
	dir     string
	group   string
	host    *host
	parts   int
	finds   bool          // partitions are those that are at the broker: see find
	begun   bool          // the broker has what the test needs
	created int           // partitions at the broker
	library bool          // members are programs of our own, not rota run
	fed     bool          // members of startMany consume from the broker
	prompt  time.Duration // their quiet time, if it is another one
	brisk   bool          // such members do nothing but their effect, tell of no message, and have a long lease
	meter   string        // of such members: what is wrong with their meter
	poison  string        // and the partition whose messages kill them
	tune    []string      // flags of all members
	bound   time.Duration // how long to wait for what must come
	sink    *sink
	store   rota.Store // to look at the group

	mu      sync.Mutex
	changed chan struct{} // closed when something was heard
	crowded bool          // members share processes: a label does not tell who is who
	members []*member     // in the order of their start
	plans   []planned
	shown   *record.Plan // as the store showed it, with its roster
	roster  *record.Roster
	returns []returned // not told yet
	since   int64      // see arrivals
	heard   []string   // told and not yet asked for, see play
}

// A member is one process.
type member struct {
	c       *crew
	label   string
	id      string // of its files
	cmd     *exec.Cmd
	gate    string
	nets    *netns // nil if it lives where everybody does
	stderr  lockedBuffer
	exited  chan struct{}
	session string
	leads   bool
	over    bool
	owns    map[string]uint64 // partition → token, started and not drained
	in      map[string]bool   // partitions in which a handler is at work
	events  []line.Line
	tally   map[string]int // how many of each
}

// newCrew makes a group of its own on a host.
func newCrew(t *testing.T, h *host, partitions int) *crew {
	c := &crew{T: t, rota: program(t), dir: t.TempDir(), group: "g", host: h, parts: partitions, bound: patience, changed: make(chan struct{})}
	c.sink = newSink(t, filepath.Join(c.dir, "sink.jsonl"))
	c.store = openStore(c.storeURL())
	t.Cleanup(func() { c.store.Close() })
	go c.watch()
	return c
}

// name is what the group knows the process by: NAME/2 is another one of that name.
func (m *member) name() string {
	name, _, _ := strings.Cut(m.label, "/")
	return name
}

// start starts a process that is ready to join.
func (c *crew) start(label string, apart bool, flags ...string) *member {
	c.Helper()
	c.ready()
	m := c.enlist(label)
	doors := c.host.doors()
	doors["sink"] = c.sink.addr
	var argv []string
	if apart {
		m.nets = newNetns(c.T, doors)
		if c.host.broker.fixed {
			m.nets.mirror("broker", c.host.broker.addr)
		}
		doors, argv = m.nets.doors, m.nets.within()
	}
	sink := doors["sink"]
	source := c.host.broker.source(c, doors["broker"])
	if c.library {
		k := task{Source: source, Sink: sink, Names: []string{m.name()}, Work: 30 * time.Millisecond, Lease: lease, Heartbeat: heartbeat, Meter: c.meter, Poison: c.poison}
		if c.poison == "" {
			k.Quarantine = -1 // who dies is killed by the test
		}
		if c.finds {
			k.Broken = m.broken()
		}
		if c.brisk {
			k.Work, k.Quiet, k.Lease, k.Heartbeat = 0, true, 5*lease, 3*heartbeat
		}
		m.be(k)
		return m
	}
	argv = append(argv, c.rota, "run", "--group", c.group, "--name", m.name(), "--new-group", "--start-gate", m.gate, "--store", c.host.storeURL(c.T, doors), "--source", source,
		"--handle", "http://"+sink+"/", "--events", "-", "--trace", "--lease", lease.String(), "--heartbeat", heartbeat.String(), "--quiet-time", settle.String(), "--quarantine", "0")
	m.run(append(argv, append(slices.Clone(c.tune), flags...)...), "ROTA_DEFECT="+c.defect)
	return m
}

// startMany starts a process with many members. Nothing is delivered to them, unless they are fed.
// Their leases are the usual ones.
func (c *crew) startMany(label string, n int) *member {
	c.Helper()
	m := c.enlist(label)
	c.note(func() { c.crowded = true })
	k := task{Partitions: c.parts, Quiet: true, Settle: c.prompt}
	if c.fed {
		c.ready()
		k.Source, k.Sink = c.sourceURL(), c.sink.addr
	}
	for i := range n {
		k.Names = append(k.Names, fmt.Sprintf("%s-%d", label, i))
	}
	m.be(k)
	return m
}

func (c *crew) storeURL() string { return c.host.storeURL(c.T, c.host.doors()) }

// enlist makes room for one more process.
func (c *crew) enlist(label string) *member {
	m := &member{c: c, label: label, exited: make(chan struct{}), owns: map[string]uint64{}, in: map[string]bool{}, tally: map[string]int{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.id = fmt.Sprintf("%d-%s", len(c.members), m.name())
	m.gate = filepath.Join(c.dir, m.id+".gate")
	c.members = append(c.members, m)
	return m
}

// be runs this program as members that use the library.
func (m *member) be(k task) {
	m.c.Helper()
	k.Group, k.Store, k.Gate, k.Settle = m.c.group, cmp.Or(k.Store, m.c.storeURL()), m.gate, cmp.Or(k.Settle, settle)
	b, err := json.Marshal(k)
	if err != nil {
		m.c.Fatal(err)
	}
	m.run(os.Args[:1], roleVar+"=members", taskVar+"="+string(b))
}

func (m *member) run(argv []string, env ...string) {
	c := m.c
	c.Helper()
	m.cmd = exec.Command(argv[0], argv[1:]...)
	m.cmd.Env = append(os.Environ(), env...)
	m.cmd.Stderr = &m.stderr
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		c.Fatal(err)
	}
	file, err := os.Create(filepath.Join(c.dir, m.id+".jsonl"))
	if err != nil {
		c.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	go m.listen(out, file)
	c.Cleanup(func() {
		m.cmd.Process.Kill()
		<-m.exited
		if c.Failed() {
			c.Logf("%s ended with %d: %s", m.label, m.cmd.ProcessState.ExitCode(), &m.stderr)
		}
	})
}

// listen hears what the process tells until it has ended, and keeps it.
func (m *member) listen(out io.Reader, file *os.File) {
	lines := bufio.NewScanner(io.TeeReader(out, file))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e, err := line.Parse(lines.Bytes())
		if err != nil {
			continue // half a line: it was killed
		}
		m.c.note(func() { m.hear(e) })
	}
	m.cmd.Wait()
	file.Close()
	m.c.note(func() {
		m.over, m.leads = true, false
		m.ended()
	})
	close(m.exited)
}

// note changes what is known and tells those who wait.
func (c *crew) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// until waits for what members must bring about.
func (c *crew) until(what string, cond func() bool) {
	c.Helper()
	if err := c.await(cond); err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

func (c *crew) await(cond func() bool) error {
	timeout := time.After(c.bound)
	look := time.NewTicker(5 * time.Millisecond) // not everything is told
	defer look.Stop()
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-look.C:
		case <-timeout:
			return fmt.Errorf("not within %v", c.bound)
		}
	}
}

// join starts processes and lets them join at one instant.
func (c *crew) join(apart bool, labels ...string) {
	c.Helper()
	var all []*member
	for _, l := range labels {
		all = append(all, c.start(l, apart))
	}
	c.admit(all)
}

// admit lets processes that were started join at one instant. The first of a group
// is a moment ahead, so that everybody knows who leads.
func (c *crew) admit(all []*member) {
	c.Helper()
	c.mu.Lock()
	first := len(c.members) == len(all)
	c.mu.Unlock()
	for _, m := range all {
		c.until(m.label+" to be ready", func() bool { return strings.Contains(m.stderr.String(), "ready") || m.over })
	}
	if first {
		all[0].open()
		c.until(all[0].label+" to lead", func() bool { return all[0].leads || all[0].over })
		all = all[1:]
	}
	for _, m := range all {
		m.open()
	}
}

// broken is the file that makes the source of a member that uses the library fail.
func (m *member) broken() string { return filepath.Join(m.c.dir, m.id+".broken") }

func (m *member) open() {
	if err := os.WriteFile(m.gate, nil, 0o644); err != nil {
		m.c.Fatal(err)
	}
}

func (m *member) signal(s syscall.Signal) {
	if err := m.cmd.Process.Signal(s); err != nil {
		m.c.Errorf("%s: %v", m.label, err)
	}
}

// member is the newest process of a label.
func (c *crew) member(label string) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest(label)
}

func (c *crew) newest(label string) *member {
	for _, m := range slices.Backward(c.members) {
		if m.label == label {
			return m
		}
	}
	return nil
}

// code waits for the end of a process.
func (m *member) code() int {
	m.c.Helper()
	m.c.until(m.label+" to end", func() bool { return m.over })
	return m.cmd.ProcessState.ExitCode()
}

// order lets an operator speak.
func (c *crew) order(words ...string) error {
	args := append(words, "--group", c.group, "--store", c.storeURL())
	out, err := exec.Command(c.rota, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("rota %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// errBroken: a promise was broken, as opposed to something that took too long.
var errBroken = errors.New("a promise was broken")

// judge asks rota check about everything that was told and received.
func (c *crew) judge() error {
	files, err := filepath.Glob(filepath.Join(c.dir, "*.jsonl"))
	if err != nil {
		return err
	}
	c.sink.flush()
	out, err := exec.Command(c.rota, append([]string{"check"}, files...)...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return fmt.Errorf("%w: %s", errBroken, out)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if testing.Verbose() {
		c.Logf("%s", out)
	}
	return nil
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
