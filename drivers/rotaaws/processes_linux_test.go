package rotaaws

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/rotatest"
)

// A site is a group of real processes: each instance of a cloud is a rota run, its store is
// Redis, its messages are in NATS, and its metrics go to a board.
type site struct {
	t     *testing.T
	rota  string // the program
	dir   string // of event lines
	store string
	nats  string // where the messages are
	cloud *cloud
	board *board
	watch string // URL of the board

	mu   sync.Mutex
	runs map[string]*siteRun // by the id of the instance
}

// A siteRun is what the event lines of one instance said.
type siteRun struct {
	owns   map[string]bool
	counts map[string]int // by event
	busy   bool           // it owned something when it was asked to end
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir(), runs: map[string]*siteRun{}, cloud: emptyCloud(t), board: &board{t: t}}
	s.store = rotatest.StartRedis(t).URL()
	s.rota = filepath.Join(t.TempDir(), "rota")
	if out, err := exec.Command("go", "build", "-o", s.rota, "github.com/rota-dev/rota/cmd/rota").CombinedOutput(); err != nil {
		t.Fatalf("rota does not build: %v\n%s", err, out)
	}
	s.serve()
	for h, at := range map[*httptest.Server]*string{httptest.NewServer(s.cloud): &s.cloud.url, httptest.NewServer(s.board): &s.watch} {
		*at = h.URL
		t.Cleanup(h.Close)
	}
	t.Cleanup(func() { // before the servers that they ask are gone
		for _, i := range s.instances() {
			i.kill()
			<-i.gone
		}
	})
	s.cloud.launch = s.launch
	return s
}

// serve runs the NATS that has the messages.
func (s *site) serve() {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s.nats = "nats://" + addr
	s.start("serve", "--dir", filepath.Join(s.t.TempDir(), "data"), "--listen", addr, "--open")
	s.until("the NATS server", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// start runs rota until the function that it returns is called, or the test ends.
func (s *site) start(args ...string) (end func()) {
	s.t.Helper()
	cmd := exec.Command(s.rota, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, &out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("rota %s: %s", args[0], &out)
		}
	})
	s.t.Cleanup(end)
	return end
}

const sitePartitions = 12

// source is the URL of the partitions.
func (s *site) source() string {
	return fmt.Sprintf("%s?stream=ORDERS&subject=orders.*&partitions=%d&create=true", s.nats, sitePartitions)
}

// load publishes so many messages per second until the function that it returns is called.
func (s *site) load(rate int) (end func()) {
	return s.start("produce", "--source", s.source(), "--rate", fmt.Sprint(rate))
}

// launch runs a member as an instance. The cloud's lock is held.
func (s *site) launch(t *testing.T, id string, changed func(*instance, string)) *instance {
	cmd := exec.Command(s.rota, "run", "--group", "orders", "--name", id, "--label-from", "ec2", "--new-group", "--store", s.store, "--source", s.source(),
		"--handle", "none", "--events", "-", "--strategy", "pack", "--capacity", "60", "--interval", "2s", "--cool-down", "1s",
		"--scaler", "aws:fleet?region=eu-test-1&endpoint="+url.QueryEscape(s.cloud.url), "--scale", "1..6", "--up-after", "1s", "--down-after", "2s", "--cloudwatch", "Orders/rota")
	cmd.Env = append(os.Environ(), "AWS_REGION=eu-test-1", "AWS_ACCESS_KEY_ID="+keyID, "AWS_SECRET_ACCESS_KEY="+secretKey, "AWS_ENDPOINT_URL_CLOUDWATCH="+s.watch,
		"AWS_EC2_METADATA_DISABLED=false", "AWS_EC2_METADATA_SERVICE_ENDPOINT="+s.metadata(id))
	var said bytes.Buffer
	cmd.Stderr, cmd.SysProcAttr = &said, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		panic(err) // any goroutine launches instances
	}
	r := &siteRun{owns: map[string]bool{}, counts: map[string]int{}}
	s.mu.Lock()
	s.runs[id] = r
	s.mu.Unlock()
	i := &instance{id: id, state: "Pending", gone: make(chan struct{}), kill: func() { cmd.Process.Kill() }, ask: func() {
		s.mu.Lock()
		r.busy = r.busy || len(r.owns) > 0
		s.mu.Unlock()
		cmd.Process.Signal(syscall.SIGTERM)
	}}
	go func() {
		s.listen(out, r, filepath.Join(s.dir, id+".jsonl"), func() { changed(i, "InService") })
		cmd.Wait()
		if i.code = cmd.ProcessState.ExitCode(); i.code != 0 {
			t.Logf("%s ended with %d: %s", id, i.code, &said)
		}
		close(i.gone)
		changed(i, "Terminated")
	}()
	return i
}

// metadata is the URL of the metadata service of an instance.
func (s *site) metadata(id string) string {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			fmt.Fprint(w, "a-token")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "a-token":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			fmt.Fprint(w, id)
		}
	}))
	s.t.Cleanup(h.Close)
	return h.URL
}

// listen keeps the event lines of an instance, and calls joined when it has.
func (s *site) listen(out io.Reader, r *siteRun, file string, joined func()) {
	var all bytes.Buffer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintf(&all, "%s\n", lines.Bytes())
		var l struct{ Event, Partition string }
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue // half a line: it was killed
		}
		s.mu.Lock()
		r.counts[l.Event]++
		switch l.Event {
		case "grant":
			r.owns[l.Partition] = true
		case "stopped":
			delete(r.owns, l.Partition)
		}
		s.mu.Unlock()
		if l.Event == "joined" {
			joined()
		}
	}
	if err := os.WriteFile(file, all.Bytes(), 0o644); err != nil {
		s.t.Error(err)
	}
}

func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("no %s: %d instances, a capacity of %d, owners of %v partitions", what, len(s.instances()), s.cloud.capacity(), s.owners())
		}
	}
}

func (s *site) instances() []*instance {
	s.cloud.mu.Lock()
	defer s.cloud.mu.Unlock()
	return slices.Clone(s.cloud.instances)
}

// owners are how many partitions those have that have any.
func (s *site) owners() (out []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if len(r.owns) > 0 {
			out = append(out, len(r.owns))
		}
	}
	return out
}

// runsOn tells whether so many instances are in service and wanted, and everything is owned.
func (s *site) runsOn(instances int) bool {
	owned := 0
	for _, n := range s.owners() {
		owned += n
	}
	s.cloud.mu.Lock()
	defer s.cloud.mu.Unlock()
	return owned == sitePartitions && s.cloud.desired == instances && len(s.cloud.instances) == instances && s.cloud.inService() == instances
}

// counted adds up an event over all instances.
func (s *site) counted(event string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		n += r.counts[event]
	}
	return n
}

// Real members, the real SDK and the fakes of Auto Scaling and CloudWatch: the group asks for
// instances when the load grows, and ends those that it does not need once they own nothing.
// What its members publish is what happened to them. This proves our calls; it does not prove
// how AWS behaves.
func TestS0_Infra_CloudByProcesses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cloud.set(func() {
		s.cloud.desired = 1
		s.cloud.converge()
	})
	s.until("first member", func() bool { return s.runsOn(1) })
	end := s.load(60) // what two members are given
	s.until("growth to two members and a spare one", func() bool { return s.runsOn(3) && len(s.owners()) >= 2 })
	end()
	end = s.load(12)
	s.until("one member and a spare one", func() bool { return s.runsOn(2) })
	end()
	s.until("protection of every instance", func() bool { return len(s.cloud.unprotected()) == 0 })
	if n := s.cloud.count("TerminateInstanceInAutoScalingGroup"); n == 0 {
		t.Error("nobody was ended by the group")
	}
	s.mu.Lock()
	for id, r := range s.runs {
		if r.busy {
			t.Errorf("%s owned something when it was ended", id)
		}
	}
	s.mu.Unlock()
	for _, i := range s.instances() {
		i.ask()
		<-i.gone
		if i.code != 0 {
			t.Errorf("%s left with %d", i.id, i.code)
		}
	}
	s.checkMetrics()
	files, err := filepath.Glob(filepath.Join(s.dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(s.rota, append([]string{"check"}, files...)...).CombinedOutput(); err != nil || len(files) < 3 {
		t.Errorf("rota check of %d files: %v: %s", len(files), err, out)
	}
}

// checkMetrics compares what was published with what the event lines say.
func (s *site) checkMetrics() {
	s.t.Helper()
	for _, id := range slices.Sorted(maps.Keys(s.runs)) {
		if v, ok := s.board.newest("PartitionsOwned", "Group=orders Member="+id); !ok || v != 0 {
			s.t.Errorf("%s has left, and its last word is that it owns %v (%v)", id, v, ok)
		}
	}
	value := func(d datum) float64 { return d.value }
	for metric, event := range map[string]string{"Plans": "plan", "StartTime": "start", "StopTime": "stopped", "MembersDead": "dead", "Lapses": "lapsed"} {
		if got, want := s.board.count(metric, value), s.counted(event); got != float64(want) {
			s.t.Errorf("%s adds up to %v, and there were %d events %s", metric, got, want, event)
		}
	}
	if s.counted("plan") == 0 || s.counted("start") == 0 || s.counted("stopped") == 0 {
		s.t.Error("the event lines tell of no plan, start or stop")
	}
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	for _, d := range s.board.data {
		if d.namespace != "Orders/rota" || !strings.HasPrefix(d.of, "Group=orders ") {
			s.t.Errorf("it published %+v", d)
		}
	}
}
