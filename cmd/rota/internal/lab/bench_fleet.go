package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/demo"
	"github.com/rota-dev/rota/cmd/rota/internal/lab/failover"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/line"
)

// A fleet is a server and members, each a process of its own, and what they have
// told. It belongs to one goroutine.
type fleet struct {
	f       *failoverFlags
	dir     string
	group   string
	server  *benchProc
	address string // where the server listens
	feed    feeder
	fed     map[string]int // messages published, by partition
	hist    *failover.History
	own     *os.File // our own lines: who was signalled, who is gone
	tails   []*line.Tail
	files   []string
	members []*benchProc // in the order of their coming
	next    int
	used    struct{ members, server time.Duration } // of the processor, once they have ended
}

// A benchProc is one of its processes.
type benchProc struct {
	name   string
	cmd    *exec.Cmd
	tether io.WriteCloser
	ended  chan struct{} // closed when it has
	at     time.Duration // when, on CLOCK_BOOTTIME
	errs   string        // the file with its standard error
	asked  bool          // to end, one way or the other
	told   bool          // its end is written down
}

// A feeder publishes messages.
type feeder interface {
	publish(partition, n int) error
	Close()
}

// backlog is how many messages wait in a partition, about.
const backlog = 100

// newFleet starts a server, fills its partitions and starts one member.
func newFleet(ctx context.Context, f *failoverFlags, dir string) (*fleet, error) {
	v := &fleet{f: f, dir: dir, group: benchGroup(), fed: map[string]int{}, hist: failover.NewHistory()}
	var err error
	if v.own, err = os.Create(filepath.Join(dir, "driver.jsonl")); err != nil {
		return nil, err
	}
	v.files = append(v.files, v.own.Name())
	if err := v.serve(); err != nil {
		v.Close()
		return nil, err
	}
	if err := v.fill(ctx); err != nil {
		v.Close()
		return nil, err
	}
	if _, err := v.start(1, ""); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// spawn starts a process that hangs on a tether.
func (v *fleet) spawn(name string, argv []string, out io.Writer) (*benchProc, error) {
	p := &benchProc{name: name, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{}), errs: filepath.Join(v.dir, name+".err")}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "ROTA_") && !strings.HasPrefix(kv, "ROTA_TEST_AS=") // what is measured is told by flags
	})
	if v.f.store != "" {
		p.cmd.Env = append(p.cmd.Env, "ROTA_STORE="+v.f.store) // its secrets are nothing for a command line
	}
	p.cmd.SysProcAttr = demo.ChildAttr()
	errs, err := os.Create(p.errs)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, errs
	if p.tether, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", strings.Join(argv, " "), err)
	}
	go func() {
		p.cmd.Wait()
		p.at = clock.Boot()
		close(p.ended)
	}()
	return p, nil
}

// over tells whether it has ended.
func (p *benchProc) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// used is what it has used of the processor; it has ended.
func (p *benchProc) used() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// words is the end of what it said on standard error.
func (p *benchProc) words() string {
	b, _ := os.ReadFile(p.errs)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// serve starts the server and waits until it says that it serves.
func (v *fleet) serve() error {
	argv := append(slices.Clone(v.f.command), "serve", "--tether", "--scratch", v.dir)
	if v.f.ours() {
		argv = append(argv, "--dir", filepath.Join(v.dir, "data"), "--listen", "")
	} else {
		argv = append(argv, "--partitions", strconv.Itoa(v.f.partitions), "--lease", v.f.lease.String(), "--heartbeat", v.f.heartbeat.String())
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	v.server, err = v.spawn("server", argv, in)
	in.Close() // its own end alone is open now, so that its end is seen
	if err != nil {
		out.Close()
		return err
	}
	first := make(chan string, 1)
	go func() {
		defer out.Close()
		r := bufio.NewReader(out)
		text, _ := r.ReadString('\n')
		first <- text
		io.Copy(io.Discard, r)
	}()
	select {
	case text := <-first:
		_, at, ok := strings.Cut(text, " at ")
		if at, _, _ = strings.Cut(at, ";"); !ok || !strings.HasPrefix(text, "serving") {
			return fmt.Errorf("the server said %q instead of where it serves: %s", strings.TrimSpace(text), v.server.words())
		}
		v.address = strings.TrimSpace(at)
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("the server did not say within 20 s that it serves")
	}
}

func (v *fleet) source() string {
	return "embed:" + filepath.Join(v.dir, "data") + "?stream=BENCH&subject=bench.*&partitions=" + strconv.Itoa(v.f.partitions)
}

func (v *fleet) partition(i int) string { return "bench." + strconv.Itoa(i) }

// fill opens the feeder and gives every partition its backlog.
func (v *fleet) fill(ctx context.Context) error {
	if !v.f.ours() {
		v.feed = lineFeeder{v.server.tether}
		return v.topUp()
	}
	p, err := demo.NewProducer(ctx, v.source(), "")
	if err != nil {
		return err
	}
	v.feed = &streamFeeder{p}
	_, err = p.MakeStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.*"}, Storage: jetstream.MemoryStorage, MaxMsgsPerSubject: 3 * backlog})
	if err != nil {
		return fmt.Errorf("make the stream: %w", err)
	}
	return v.topUp()
}

// topUp publishes as much as was handled.
func (v *fleet) topUp() error {
	const little = 10
	for i := range v.f.partitions {
		name := v.partition(i)
		n := backlog + v.hist.Done(name) - v.fed[name]
		if n < little {
			continue
		}
		if err := v.feed.publish(i, n); err != nil {
			return err
		}
		v.fed[name] += n
	}
	return nil
}

// streamFeeder publishes to JetStream.
type streamFeeder struct{ to *demo.Producer }

func (s *streamFeeder) publish(partition, n int) error {
	for range n {
		if err := s.to.PublishTo(partition, []byte("a message")); err != nil {
			return err
		}
	}
	return nil
}

func (s *streamFeeder) Close() { s.to.Close() }

// lineFeeder asks the server to publish.
type lineFeeder struct{ w io.Writer }

func (l lineFeeder) publish(partition, n int) error {
	_, err := fmt.Fprintln(l.w, partition, n)
	return err
}

func (l lineFeeder) Close() {}

// start starts members that join when the gate, if there is one, is opened.
func (v *fleet) start(n int, gate string) (names []string, err error) {
	for range n {
		v.next++
		name := "c" + strconv.Itoa(v.next)
		file := filepath.Join(v.dir, name+".jsonl")
		argv := append(slices.Clone(v.f.command), "run", "--name", name, "--events", file, "--trace", "--quiet", "--tether", "--handle", "sleep:"+v.f.handler.String(),
			"--lease", v.f.lease.String(), "--heartbeat", v.f.heartbeat.String(), "--group", v.group)
		if gate != "" {
			argv = append(argv, "--start-gate", gate)
		}
		if v.f.ours() {
			argv = append(argv, "--dir", filepath.Join(v.dir, "data"), "--source", v.source(), "--new-group")
		} else {
			argv = append(argv, "--server", v.address)
		}
		p, err := v.spawn(name, argv, nil)
		if err != nil {
			return nil, err
		}
		v.members = append(v.members, p)
		v.tails, v.files, names = append(v.tails, line.Follow(file)), append(v.files, file), append(names, name)
	}
	return names, nil
}

// live are the names of members that run.
func (v *fleet) live() (names []string) {
	for _, p := range v.members {
		if !p.asked {
			names = append(names, p.name)
		}
	}
	return names
}

func (v *fleet) member(name string) *benchProc {
	i := slices.IndexFunc(v.members, func(p *benchProc) bool { return p.name == name })
	return v.members[i]
}

// tell writes a line of our own.
func (v *fleet) tell(event, name string, at time.Duration, because string) error {
	l := line.New(event, v.group, name)
	l.Boot, l.Because = int64(at), because
	if j, ok := v.hist.Last("joined", name); ok {
		l.Session, l.PID = j.Session, j.PID
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	v.hist.Add(l)
	_, err = v.own.Write(append(b, '\n'))
	return err
}

// signal sends one to members and notes when: just before the first.
func (v *fleet) signal(event string, sig syscall.Signal, names ...string) error {
	at := clock.Boot()
	for _, name := range names {
		p := v.member(name)
		p.asked = true
		if err := p.cmd.Process.Signal(sig); err != nil {
			return fmt.Errorf("signal %s: %w", name, err)
		}
	}
	for _, name := range names {
		if err := v.tell(event, name, at, ""); err != nil {
			return err
		}
	}
	return nil
}

// poll reads what was told since, keeps the backlog, and notes who is gone.
func (v *fleet) poll() error {
	for _, t := range v.tails {
		if err := t.Read(v.hist.Add); err != nil {
			return err
		}
	}
	if v.server.over() {
		return fmt.Errorf("the server has ended (%v): %s", v.server.cmd.ProcessState, v.server.words())
	}
	for _, p := range v.members {
		if !p.over() || p.told {
			continue
		}
		if !p.asked {
			return fmt.Errorf("member %s has ended by itself: %s\n%s", p.name, demo.HowEnded(p.cmd.ProcessState, nil), p.words())
		}
		p.told = true
		if err := v.tell(line.Gone, p.name, p.at, demo.HowEnded(p.cmd.ProcessState, nil)); err != nil {
			return err
		}
	}
	return v.topUp()
}

// pollEvery is how often files are read. Figures do not depend on it.
const pollEvery = 5 * time.Millisecond

// until polls until something is so.
func (v *fleet) until(ctx context.Context, what string, so func() bool) error {
	late := time.After(v.f.patience())
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := v.poll(); err != nil {
			return err
		}
		if so() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("waited %v for %s, in vain", v.f.patience(), what)
		case <-tick.C:
		}
	}
}

// Close ends everything: members first, for they need the server to leave.
func (v *fleet) Close() error {
	end(v.members, 5*time.Second)
	if v.feed != nil {
		v.feed.Close()
	}
	if v.server != nil {
		end([]*benchProc{v.server}, 5*time.Second)
		v.used.server = v.server.used()
	}
	for _, p := range v.members {
		v.used.members += p.used()
	}
	for _, t := range v.tails {
		t.Close()
	}
	return errors.Join(v.clear(), v.own.Close())
}

// clear removes the group from a store that was there before.
func (v *fleet) clear() error {
	if v.f.store == "" {
		return nil
	}
	s, err := connect.OpenStore(v.f.store)
	if err != nil {
		return err
	}
	defer s.Close()
	// The context of the command may have ended by Ctrl-C.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := clearGroup(ctx, s, v.group); err != nil {
		return fmt.Errorf("the group %s is still in the store: %w", v.group, cli.Bare(err))
	}
	return nil
}

// end asks processes to end, and ends what does not.
func end(all []*benchProc, patience time.Duration) {
	var wg sync.WaitGroup
	for _, p := range all {
		p.asked = true
		p.cmd.Process.Signal(syscall.SIGTERM)
		wg.Go(func() {
			select {
			case <-p.ended:
			case <-time.After(patience):
				p.cmd.Process.Kill()
				<-p.ended
			}
			p.tether.Close()
		})
	}
	wg.Wait()
}
