package rotanats_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

const (
	slowPartitions = 64
	slowWork       = 20 * time.Millisecond
	slowWarm       = 150 // messages of each partition before a run is measured: the first fetch is over
	slowRun        = 8 * time.Second
	slowBacklog    = 900 // messages of each partition: more than a run can handle, and fetch
)

// BenchmarkSlowHandlers compares what messages cost whose handlers take 20 ms: a member and a
// process with bare consumers of the NATS client, prefetch 256, in turns. Server and client
// are processes of their own, and /proc tells what each has used. It also compares how long
// a partition with a backlog waits between two messages; bare consumers that fetch one message
// at a time show what the broker itself needs for that.
//
//	go test -run '^$' -bench SlowHandlers -benchtime 10x .
func BenchmarkSlowHandlers(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	_, server := hostProcess(b, dir)
	clear := fillSlow(b, dir)
	kinds := []string{"rota", "bare", "single"}
	var costs []float64
	pauses := make([][]float64, len(kinds))
	for b.Loop() { // a turn of each
		of := make([]slowResult, len(kinds))
		for k := range kinds {
			at := (len(costs) + k) % len(kinds) // another one begins each time
			of[at] = consumeSlowly(b, dir, kinds[at], server)
			pauses[at] = append(pauses[at], of[at].Pause)
			clear()
		}
		costs = append(costs, of[0].cost()/of[1].cost())
		b.Logf("turn %2d: rota %v; bare %v; one at a time %v; ratio %.2f", len(costs), of[0], of[1], of[2], costs[len(costs)-1])
	}
	b.ReportMetric(middle(costs), "cpu-ratio")
	for i, kind := range kinds {
		b.ReportMetric(middle(pauses[i]), kind+"-p99.9-ms")
	}
}

func middle(list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}

// fillSlow makes the stream with a backlog, and returns a function that removes its consumers.
func fillSlow(b testing.TB, dir string) (clear func()) {
	nc, err := rotanats.Connect("folder:"+dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	st, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "SLOW", Subjects: []string{"slow.*"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		b.Fatal(err)
	}
	for i := range slowBacklog {
		for p := range slowPartitions {
			if _, err := js.PublishAsync(fmt.Sprint("slow.", p), fmt.Appendf(nil, "%0128d", i)); err != nil {
				b.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	return func() {
		for name := range st.ConsumerNames(b.Context()).Name() {
			if err := st.DeleteConsumer(b.Context(), name); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// A slowResult is what a run has cost, and how steady it was.
type slowResult struct {
	Messages int
	Pause    float64 // between two messages of a partition, ms, 99.9 % of all
	Median   float64
	client   float64 // µs of CPU per message
	server   float64
}

func (r slowResult) cost() float64 { return r.client + r.server }

func (r slowResult) String() string {
	return fmt.Sprintf("%4.0f/s, %3.0f+%3.0f µs, pause %.2f and %.2f ms", float64(r.Messages)/slowRun.Seconds(), r.client, r.server, r.Median, r.Pause)
}

// consumeSlowly runs a process that consumes, and measures it once all its partitions do.
func consumeSlowly(b testing.TB, dir, how string, server int) (r slowResult) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ROTANATS_TEST_CONSUME="+how, "ROTANATS_TEST_FOLDER="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		b.Fatalf("%s says %q, %v", how, line, err)
	}
	client, served := used(b, cmd.Process.Pid), used(b, server)
	fmt.Fprintln(in, "go")
	time.Sleep(slowRun)
	client, served = used(b, cmd.Process.Pid)-client, used(b, server)-served
	in.Close()
	line, err := lines.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	if err != nil || r.Messages == 0 {
		b.Fatalf("%s says %q, %v", how, line, err)
	}
	r.client = float64(client.Microseconds()) / float64(r.Messages)
	r.server = float64(served.Microseconds()) / float64(r.Messages)
	return r
}

// used returns the CPU time of a process.
func used(b testing.TB, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// A slowHandler takes its time, and notes how long each partition had waited for it.
type slowHandler struct {
	mu     sync.Mutex
	last   map[string]time.Time
	n      map[string]int
	pauses []float64
	going  bool
	warm   int           // partitions that have had slowWarm messages
	ready  chan struct{} // closed when all have
}

func (h *slowHandler) handle(partition string) {
	now := time.Now()
	h.mu.Lock()
	if last, ok := h.last[partition]; ok && h.going {
		h.pauses = append(h.pauses, float64(now.Sub(last).Microseconds())/1000)
	}
	h.mu.Unlock()
	time.Sleep(slowWork) // the work
	now = time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[partition] = now
	if h.n[partition]++; h.n[partition] == slowWarm {
		if h.warm++; h.warm == slowPartitions {
			close(h.ready)
		}
	}
}

// slowChild is the process that consumes, until its standard input ends.
func slowChild(how, dir string) error {
	h := &slowHandler{last: map[string]time.Time{}, n: map[string]int{}, ready: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := map[string]func(context.Context, string, *slowHandler) error{
		"rota":   slowRota,
		"bare":   func(ctx context.Context, dir string, h *slowHandler) error { return slowBare(ctx, dir, h, 256) },
		"single": func(ctx context.Context, dir string, h *slowHandler) error { return slowBare(ctx, dir, h, 1) },
	}[how]
	if err := begin(ctx, dir, h); err != nil {
		return err
	}
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		in := bufio.NewReader(os.Stdin)
		in.ReadString('\n')
		close(begun)
		in.ReadString('\n') // until the parent closes it, in whatever way
		close(ended)
	}()
	select {
	case <-h.ready:
	case <-ended:
		return errors.New("not all partitions are consumed")
	}
	fmt.Println("ready")
	<-begun
	h.mu.Lock()
	h.going = true
	h.mu.Unlock()
	<-ended
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.pauses)
	n := len(h.pauses)
	if n == 0 {
		return errors.New("no message")
	}
	return json.NewEncoder(os.Stdout).Encode(slowResult{Messages: n, Pause: h.pauses[n*999/1000], Median: h.pauses[n/2]})
}

func slowRota(ctx context.Context, dir string, h *slowHandler) error {
	m, err := rota.New(rota.Config{Group: fmt.Sprint("slow", os.Getpid()), Store: rotatest.NewMemStore(), NewGroup: true,
		Source: rotanats.Source(fmt.Sprintf("folder:%s?stream=SLOW&subject=slow.*&partitions=%d", dir, slowPartitions)),
		Handle: func(_ context.Context, msg rota.Message) error { h.handle(msg.Partition); return nil }})
	if err != nil {
		return err
	}
	go func() {
		if err := m.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	return nil
}

func slowBare(ctx context.Context, dir string, h *slowHandler, prefetch int) error {
	nc, err := rotanats.Connect("folder:"+dir, nil)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for i := range slowPartitions {
		subject := fmt.Sprint("slow.", i)
		c, err := js.CreateConsumer(ctx, "SLOW", jetstream.ConsumerConfig{Durable: fmt.Sprintf("bare%d-%d", os.Getpid(), i), FilterSubject: subject,
			AckPolicy: jetstream.AckAllPolicy, MaxAckPending: 512, MaxWaiting: 16})
		if err != nil {
			return err
		}
		if _, err := c.Consume(func(msg jetstream.Msg) { h.handle(subject); msg.Ack() }, jetstream.PullMaxMessages(prefetch)); err != nil {
			return err
		}
	}
	return nil
}
