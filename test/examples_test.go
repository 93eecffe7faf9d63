//go:build linux

package test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaactive"
	"github.com/rota-dev/rota/drivers/rotakafka"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/rotatest"
)

// TestExamples runs two processes of each example against a real broker. Orders are printed in
// order within each partition, by both of them, and by one alone when the other has left.
func TestExamples(t *testing.T) {
	t.Parallel()
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		at := "amqp://guest:guest@" + rotatest.StartRabbitMQ(t).Addr() + "?queues=orders.{0..3}&declare=quorum"
		e := newExample(t, "rabbitmq", rotarabbit.Source(at), at)
		e.orders()
		letters := e.source.(rota.DeadLetters)
		if err := e.source.(publishes).Publish(t.Context(), "orders.0", []byte{}); err != nil {
			t.Fatal(err)
		}
		e.until("an order of nothing to be a dead letter", func() bool {
			for l, err := range letters.Letters(t.Context(), "") {
				return err == nil && strings.Contains(l.Reason, "an order of nothing")
			}
			return false
		})
		e.leave(1)
	})
	t.Run("activemq", func(t *testing.T) {
		t.Parallel()
		s := rotatest.StartActiveMQ6(t, rotatest.ActiveMQSetup{})
		for _, at := range []string{"stomp://" + s.At("stomp"), "amqp10://" + s.At("amqp")} {
			scheme, _, _ := strings.Cut(at, ":")
			t.Run(scheme, func(t *testing.T) {
				t.Parallel()
				at += "?queues=" + scheme + ".{0..3}"
				e := newExample(t, "activemq", rotaactive.Source(at), at)
				e.orders()
				e.leave(1)
			})
		}
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		addr := rotatest.StartKafka(t).Addr()
		c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("bills"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if got, err := kadm.NewClient(c).CreateTopics(t.Context(), 4, 1, nil, "orders", "bills"); err != nil || got.Error() != nil {
			t.Fatal(err, got.Error())
		}
		at := "kafka://" + addr + "?topic=orders"
		e := newExample(t, "kafka", rotakafka.Source(at), at)
		e.orders()
		e.leave(1)
		e.billed(c)
	})
}

// An example is two processes of a program of the folder examples.
type example struct {
	t      *testing.T
	source rota.Source
	cmds   []*exec.Cmd
	read   []chan struct{} // closed when all that a process has printed is read
	sent   map[string]int  // by partition

	mu    sync.Mutex
	got   map[string][]string // by partition
	by    map[int]int         // orders that each process has printed
	wrong []string
}

// publishes is what sources of brokers can do beyond their contract.
type publishes interface {
	Publish(ctx context.Context, partition string, values ...[]byte) error
}

// newExample builds the program and starts two processes of it.
func newExample(t *testing.T, name string, source rota.Source, at string) *example {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/rota-dev/rota/examples/"+name).CombinedOutput(); err != nil {
		t.Fatalf("examples/%s does not build: %v\n%s", name, err, out)
	}
	e := &example{t: t, source: source, sent: map[string]int{}, got: map[string][]string{}, by: map[int]int{}}
	t.Cleanup(func() { source.(interface{ Close() error }).Close() })
	store := "nats://" + rotatest.StartNATS(t).Addr() + "?bucket=" + url.QueryEscape(name)
	for i := range 2 {
		cmd := exec.Command(bin, "-store", store, "-source", at)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		e.cmds, e.read = append(e.cmds, cmd), append(e.read, read)
		go func() {
			defer close(read)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				e.printed(i, lines.Text())
			}
		}()
		t.Cleanup(func() {
			cmd.Process.Kill()
			<-read
			cmd.Wait()
			if t.Failed() {
				t.Logf("process %d: %s", i, &said)
			}
		})
	}
	return e
}

// printed notes an order that a process has printed.
func (e *example) printed(by int, line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	partition, order, ok := strings.Cut(line, " ")
	if want := fmt.Sprint("order ", len(e.got[partition])); !ok || order != want {
		e.wrong = append(e.wrong, fmt.Sprintf("process %d printed %q, want %s", by, line, want))
		return
	}
	e.got[partition] = append(e.got[partition], order)
	e.by[by]++
}

// orders publishes while both processes are there, until both have handled some, and goes on
// when one of them has left.
func (e *example) orders() {
	e.t.Helper()
	list, err := e.source.Partitions(e.t.Context())
	if err != nil || len(list) != 4 {
		e.t.Fatalf("there are %d partitions, want 4: %v", len(list), err)
	}
	e.until("both processes to handle orders", func() bool {
		e.publish(list)
		return e.by[0] > 0 && e.by[1] > 0
	})
	e.leave(0)
	e.mu.Lock()
	before := e.by[1]
	e.mu.Unlock()
	e.until("the other process to handle the orders of all", func() bool {
		e.publish(list)
		return e.by[1] > before+20
	})
	e.until("all orders to be handled", func() bool {
		for p, n := range e.sent {
			if len(e.got[p]) < n {
				return false
			}
		}
		return true
	})
}

// publish sends one order to each partition.
func (e *example) publish(list []rota.Partition) {
	for _, p := range list {
		if err := e.source.(publishes).Publish(e.t.Context(), p.Name, fmt.Append(nil, "order ", e.sent[p.Name])); err != nil {
			e.t.Fatal(err)
		}
		e.sent[p.Name]++
	}
}

// leave asks a process to leave.
func (e *example) leave(i int) {
	e.t.Helper()
	if err := e.cmds[i].Process.Signal(syscall.SIGTERM); err != nil {
		e.t.Fatal(err)
	}
	<-e.read[i]
	if err := e.cmds[i].Wait(); err != nil {
		e.t.Errorf("process %d ends with %v", i, err)
	}
}

// billed reads the bills: one for each order, in order within each partition.
func (e *example) billed(c *kgo.Client) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	all, got := 0, map[string][]string{}
	for _, n := range e.sent {
		all += n
	}
	for n := 0; n < all; {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			e.t.Fatalf("%d of %d bills: %v", n, all, err)
		}
		for r := range f.RecordsAll() {
			got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
			n++
		}
	}
	for p, n := range e.sent {
		var want []string
		for i := range n {
			want = append(want, fmt.Sprint("bill for order ", i))
		}
		if !slices.Equal(got[p], want) {
			e.t.Errorf("%s has the bills %q, want %q", p, got[p], want)
		}
	}
}

func (e *example) until(what string, is func() bool) {
	e.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		e.mu.Lock()
		ok, wrong := is(), slices.Clone(e.wrong)
		e.mu.Unlock()
		if len(wrong) > 0 {
			e.t.Fatal(strings.Join(wrong, "\n"))
		}
		if ok {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("after two minutes still not: %s", what)
		}
	}
}
