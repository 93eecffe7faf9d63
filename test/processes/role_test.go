//go:build linux

package processes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/rotatest"
)

// This program can be asked to be something else than a test: members that use
// the library, each with a connection of its own, a command that sends one
// effect to a sink, or a door: see mirror.
const roleVar, taskVar = "ROTA_TEST_ROLE", "ROTA_TEST_TASK"

var roles = map[string]func() error{"members": beMembers, "effect": beEffect, "door": beDoor}

// A task is what members are told.
type task struct {
	Group, Store, Source, Sink, Gate string
	Names                            []string
	Partitions                       int           // without a Source: these, and nothing arrives
	Work                             time.Duration // what a handler does before its effect
	Lease, Heartbeat, Settle         time.Duration
	Quiet                            bool   // tell no message and no lease
	Quarantine                       int    // so many owners of a partition may die in a row
	List                             string // without a Source: a file that names the partitions, one in a line
	Broken                           string // while there is such a file, the source fails
	Meter                            string // pack by load, and this is wrong with the meter
	Poison                           string // a process that handles a message of this partition dies
	Acts                             bool   // without a Source: owners send effects, of which none is a message
	OnStoreLoss                      rota.OnStoreLoss
	Probe                            string // where the first member says whether it is ready, and what its status is

	names []string // of those Partitions: one list for all members of the process
}

// beMembers runs members until they are asked to leave or have ended otherwise.
func beMembers() error {
	var k task
	if err := json.Unmarshal([]byte(os.Getenv(taskVar)), &k); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	k.names = rotatest.Names(k.Partitions)
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 64 // a handler for each partition
	j := newTeller(k.Group)
	var all []*rota.Member
	for _, name := range k.Names {
		m, err := rota.New(k.config(name, j))
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	if k.Probe != "" {
		go http.ListenAndServe(k.Probe, probing(all[0]))
	}
	fmt.Fprintln(os.Stderr, "ready")
	for {
		if _, err := os.Stat(k.Gate); err == nil {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	ends := make([]error, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { ends[i] = m.Run(ctx) })
	}
	wg.Wait()
	j.close()
	return errors.Join(ends...)
}

// probing answers as rota run --health does, and has the member's own status besides.
func probing(m *rota.Member) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := m.Ready(r.Context()); err != nil {
			fmt.Fprintln(w, "not ready:", strings.TrimPrefix(err.Error(), "rota: "))
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) { json.NewEncoder(w).Encode(m.Status()) })
	return mux
}

func (k *task) config(name string, j *teller) rota.Config {
	abort := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		told := make(chan struct{})
		go func() {
			defer close(told)
			j.close()
		}()
		select {
		case <-told:
		case <-time.After(100 * time.Millisecond):
		}
		os.Exit(4)
	}
	c := rota.Config{Group: k.Group, Abort: abort, Name: name, Store: openStore(k.Store), NewGroup: true, Lease: k.Lease, Heartbeat: k.Heartbeat, QuietTime: k.Settle, Quarantine: k.Quarantine, OnStoreLoss: k.OnStoreLoss, Trace: j.tell, TraceMessages: !k.Quiet}
	if k.List != "" {
		c.Source, c.ListEvery = &listed{file: k.List}, listEvery
		c.Handle = func(context.Context, rota.Message) error { return nil }
		return c
	}
	if k.Source == "" {
		c.Source = rota.Func(k.names, func(ctx context.Context, own rota.Ownership) error {
			own.Started()
			if k.Acts {
				return k.act(ctx, own)
			}
			<-own.Stop()
			return nil
		})
		return c
	}
	c.Source, c.ListEvery = openSource(k.Source), listEvery
	if k.Broken != "" {
		c.Source = &breaking{c.Source, k.Broken}
	}
	if k.Meter != "" {
		c.Strategy, c.Packing = rota.Pack, rota.Packing{Capacity: 1000}
		c.Source = &badMeter{Source: c.Source, wrong: k.Meter}
	}
	c.Handle = func(ctx context.Context, msg rota.Message) error {
		if msg.Partition == k.Poison {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		// Work that does not look at its context, as most does not, and then the
		// effect. A process that is frozen meanwhile sends it when it wakes.
		time.Sleep(k.Work)
		own := msg.Ownership()
		m, _ := own.Meta()
		meta, err := json.Marshal(m)
		if err != nil {
			return err
		}
		return effect(k.Sink, map[string]string{"Group": k.Group, "Partition": msg.Partition, "Token": fmt.Sprint(uint64(msg.Token)), "Session": msg.Session,
			"Message-Id": msg.ID, "Topic": own.Topic(), "Meta": string(meta)}, string(msg.Value))
	}
	return c
}

// act sends effects for as long as it may. All have one number: they are no messages, so none can
// be missing. What the sink refuses is its own affair.
func (k *task) act(ctx context.Context, own rota.Ownership) error {
	for tick := time.Tick(50 * time.Millisecond); ; {
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if own.Check() == nil {
			effect(k.Sink, map[string]string{"Group": k.Group, "Partition": own.Partition(), "Token": fmt.Sprint(uint64(own.Token())), "Session": own.Session()}, "0")
		}
	}
}

// A badMeter measures badly what its source measures.
type badMeter struct {
	rota.Source
	wrong string
	first []rota.Reading
}

// Bind forwards, as a source that wraps another must.
func (m *badMeter) Bind(group string) error { return m.Source.(rota.Binder).Bind(group) }

func (m *badMeter) Read(ctx context.Context, partitions []string) ([]rota.Reading, error) {
	switch m.wrong {
	case "hangs":
		select {}
	case "fails":
		return nil, errors.New("no meter today")
	}
	got, err := m.Source.(rota.Meter).Read(ctx, partitions)
	if err != nil {
		return nil, err
	}
	switch m.wrong {
	case "frozen":
		if m.first == nil {
			m.first = got
		}
		return m.first, nil
	case "lies":
		for i := range got {
			got[i].Backlog, got[i].Arrived = -1, uint64(time.Now().UnixNano()%1e9)
		}
		return append(got[:len(got)-1], got[0], rota.Reading{Partition: "nobody's"}), nil
	case "begins anew":
		for i := range got {
			got[i].Epoch = time.Now().String()
		}
	}
	return got, nil
}

// beEffect is a command of rota run: what it is told is in its environment.
func beEffect() error {
	n, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	headers := map[string]string{}
	for _, h := range []string{"Group", "Partition", "Token", "Session", "Message-Id", "Topic", "Meta"} {
		headers[h] = os.Getenv("ROTA_" + strings.ToUpper(strings.ReplaceAll(h, "-", "_")))
	}
	time.Sleep(20 * time.Millisecond)
	return effect(os.Getenv(taskVar), headers, string(n))
}

// effect sends what a handler does to the sink.
func effect(sink string, headers map[string]string, body string) error {
	r, err := http.NewRequest("POST", "http://"+sink+"/", strings.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range headers {
		r.Header.Set("Rota-"+k, v)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// A teller writes event lines as rota run does: docs/events.md.
type teller struct {
	group string
	lines chan []byte
	done  chan struct{}
	at    clock.Instants
	mu    sync.Mutex
	over  bool
}

func newTeller(group string) *teller {
	j := &teller{group: group, lines: make(chan []byte, 1<<13), done: make(chan struct{})}
	go func() {
		defer close(j.done)
		w := bufio.NewWriter(os.Stdout)
		for l := range j.lines {
			w.Write(append(l, '\n'))
			if len(j.lines) == 0 {
				w.Flush()
			}
		}
		w.Flush()
	}()
	return j
}

func (j *teller) tell(e rota.Event) {
	b, err := json.Marshal(line.Of(e, j.group, j.at.Boot(e.Time)))
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil && !j.over {
		j.lines <- b
	}
}

func (j *teller) close() {
	j.mu.Lock()
	if !j.over {
		j.over = true
		close(j.lines)
	}
	j.mu.Unlock()
	<-j.done
}

// ending is how such a process ends: as rota run does.
func ending(err error) int {
	for code, end := range map[int]error{3: rota.ErrFenced, 5: rota.ErrOrphaned} {
		if errors.Is(err, end) {
			return code
		}
	}
	if err != nil {
		return 1
	}
	return 0
}
