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
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/rotatest"
)

// This program can be asked to be something else than a test: members that use
// the library, each with a connection of its own, or a command that sends one
// effect to a sink.
const roleVar, taskVar = "ROTA_TEST_ROLE", "ROTA_TEST_TASK"

var roles = map[string]func() error{"members": beMembers, "effect": beEffect}

// A task is what members are told.
type task struct {
	Group, Store, Source, Sink, Gate string
	Names                            []string
	Partitions                       int           // without a Source: these, and nothing arrives
	Work                             time.Duration // what a handler does before its effect
	Lease, Heartbeat, Settle         time.Duration
	Quiet                            bool // tell no message and no lease

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
	j := newTeller(k.Group)
	var all []*rota.Member
	for _, name := range k.Names {
		m, err := rota.New(k.config(name, j))
		if err != nil {
			return err
		}
		all = append(all, m)
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
	c := rota.Config{Group: k.Group, Abort: abort, Name: name, Store: openStore(k.Store), NewGroup: true, Lease: k.Lease, Heartbeat: k.Heartbeat, QuietTime: k.Settle, Trace: j.tell, TraceMessages: !k.Quiet}
	if k.Source == "" {
		c.Source = rota.Func(k.names, func(ctx context.Context, own rota.Ownership) error {
			own.Started()
			<-own.Stop()
			return nil
		})
		return c
	}
	c.Source = rotanats.Source(k.Source)
	c.Handle = func(ctx context.Context, msg rota.Message) error {
		// Work that does not look at its context, as most does not, and then the
		// effect. Whoever is frozen meanwhile sends it when it wakes.
		time.Sleep(k.Work)
		return effect(k.Sink, k.Group, msg.Partition, fmt.Sprint(uint64(msg.Token)), msg.Session, msg.ID, string(msg.Value))
	}
	return c
}

// beEffect is a command of rota run: what it is told is in its environment.
func beEffect() error {
	n, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	env := func(name string) string { return os.Getenv("ROTA_" + name) }
	time.Sleep(20 * time.Millisecond)
	return effect(os.Getenv(taskVar), env("GROUP"), env("PARTITION"), env("TOKEN"), env("SESSION"), env("MESSAGE_ID"), string(n))
}

// effect sends what a handler does to the sink.
func effect(sink, group, partition, token, session, id, body string) error {
	r, err := http.NewRequest("POST", "http://"+sink+"/", strings.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range map[string]string{"Group": group, "Partition": partition, "Token": token, "Session": session, "Message-Id": id} {
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
