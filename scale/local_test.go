package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// A staff is a supervisor whose members are names.
type staff struct {
	mu      sync.Mutex
	running map[string]string // name → session
	ended   map[string]bool
	started int
	most    int
	block   chan struct{} // Start waits for it, if it is not nil
	log     []string
}

func newStaff(names ...string) *staff {
	s := &staff{running: map[string]string{}, ended: map[string]bool{}, most: 100}
	for _, name := range names {
		s.running[name] = "s-" + name
	}
	return s
}

func (s *staff) Running() int { return len(s.running) }

func (s *staff) Start() error {
	if s.block != nil {
		<-s.block
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) == s.most {
		return fmt.Errorf("%d members are the most", s.most)
	}
	s.started++
	name := fmt.Sprintf("n%d", s.started)
	s.running[name] = "s-" + name
	s.log = append(s.log, "start "+name)
	return nil
}

func (s *staff) End(name, session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now, runs := s.running[name]; {
	case s.ended[name]:
		return nil
	case !runs:
		return errors.New("no such member runs here")
	case now != session:
		return errors.New("it runs in another session by now")
	}
	delete(s.running, name)
	s.ended[name] = true
	s.log = append(s.log, "end "+name)
	return nil
}

// changes returns what has happened since it was last asked.
func (s *staff) changes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.log, ", ")
	s.log = nil
	return out
}

// serve serves s at a socket until the test ends.
func serve(t *testing.T, s Supervisor) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "socket")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- Serve(ctx, l, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
	return path
}

func newLocal(t *testing.T, path string) rota.Scaler {
	t.Helper()
	l, err := Local("local:" + path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestASupervisorObeys(t *testing.T) {
	s := newStaff("c1", "c2", "c3")
	s.most = 5
	l := newLocal(t, serve(t, s))
	for _, c := range []struct {
		want    int
		remove  []rota.MemberInfo
		changes string
		fails   string
	}{
		{want: 3},
		{want: 4, changes: "start n1"},
		{want: 4},
		{want: 2}, // nobody is named
		{want: 3, remove: members("", "c2"), changes: "end c2"},
		{want: 3, remove: members("", "c2")}, // it still ends
		{want: 3, remove: members("", "c1"), changes: "end c1, start n2"},
		{want: 3, remove: members("", "x", "y"), fails: "end x: no such member runs here; end y: no such member runs here"},
		{want: 3, remove: []rota.MemberInfo{{Name: "c3", Session: "s-old"}}, fails: "end c3: it runs in another session by now"},
		{want: 9, changes: "start n3, start n4", fails: "start member 6 of 9: 5 members are the most"},
		{want: -1, fails: "the request wants -1 members: want a number from 0 to 10000"},
	} {
		err := l.Scale(t.Context(), c.want, c.remove)
		if got := s.changes(); got != c.changes {
			t.Errorf("%d without %v: %q, want %q", c.want, c.remove, got, c.changes)
		}
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || !strings.HasPrefix(err.Error(), "the supervisor at ")) {
			t.Errorf("%d without %v: %v, want %q", c.want, c.remove, err, c.fails)
		}
	}
}

func TestASocketIsForOneUserAndOneSupervisor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another supervisor listens there") {
		t.Errorf("a second one: %v", err)
	}
	// A supervisor that was killed leaves its socket behind.
	l.(*socket).UnixListener.Close()
	if err := newLocal(t, path).Scale(t.Context(), 1, nil); err == nil || !strings.Contains(err.Error(), "it does not run, or not there") {
		t.Errorf("nobody listens: %v", err)
	}
	again, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.Close(), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "that is no socket") {
		t.Errorf("a file: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".s*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestASupervisorThatAnswersNonsense(t *testing.T) {
	for answer, want := range map[string]string{
		"":                          "it has not answered: EOF",
		"{\"done\":true}":           "it has not answered: EOF",
		"hello\n":                   `the answer is not the JSON that was asked for: invalid character 'h' looking for beginning of value: "hello"`,
		"{}\n":                      `its answer says neither done nor error: "{}"`,
		strings.Repeat("x", 70_000): "it has not answered: a line longer than 65536 bytes",
	} {
		path := filepath.Join(t.TempDir(), "socket")
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			readLine(conn, mostOrder)
			io.WriteString(conn, answer)
		}()
		if err := newLocal(t, path).Scale(t.Context(), 1, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", answer, err, want)
		}
		l.Close()
	}
}

// A hall is a listener without a network, so that time in it is virtual.
type hall struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
}

func newHall() *hall { return &hall{conns: make(chan net.Conn), shut: make(chan struct{})} }

func (h *hall) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.shut:
		return nil, net.ErrClosed
	}
}

func (h *hall) Close() error   { h.once.Do(func() { close(h.shut) }); return nil }
func (h *hall) Addr() net.Addr { return &net.UnixAddr{Name: "hall", Net: "unix"} }

// connect is a leader that connects, and has not said anything yet.
func (h *hall) connect() net.Conn {
	mine, its := net.Pipe()
	h.conns <- its
	synctest.Wait()
	return mine
}

// say sends an order and does not wait for the answer.
func say(conn net.Conn, want int, remove ...string) {
	b, _ := json.Marshal(order{want, victims(members("", remove...))})
	conn.Write(append(b, '\n'))
	synctest.Wait()
}

func answerTo(conn net.Conn) string {
	b, err := readLine(conn, mostReply)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// inHall runs a supervisor in a bubble.
func inHall(t *testing.T, s *staff, play func(t *testing.T, h *hall)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- Serve(ctx, h, s) }()
		play(t, h)
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestALateOrderLoses: the old leader was stopped between connecting and asking.
func TestALateOrderLoses(t *testing.T) {
	s := newStaff("c1", "c2")
	inHall(t, s, func(t *testing.T, h *hall) {
		old := h.connect()
		now := h.connect()
		say(now, 3)
		if got := answerTo(now); got != `{"done":true}` || s.changes() != "start n1" {
			t.Errorf("the new leader: %s", got)
		}
		say(old, 2, "c2")
		if got := answerTo(old); !strings.Contains(got, "a later request was obeyed already") || s.changes() != "" {
			t.Errorf("the old leader: %s", got)
		}
	})
}

// TestAnOrderEndsWithItsConnection: a leader asks while another order is carried out, and
// is killed before its turn comes.
func TestAnOrderEndsWithItsConnection(t *testing.T) {
	s := newStaff("c1", "c2")
	inHall(t, s, func(t *testing.T, h *hall) {
		s.block = make(chan struct{})
		first, second := h.connect(), h.connect()
		say(first, 3)
		say(second, 5, "c2")
		second.Close()
		synctest.Wait()
		close(s.block)
		if got := answerTo(first); got != `{"done":true}` {
			t.Errorf("the first order: %s", got)
		}
		synctest.Wait()
		if got := s.changes(); got != "start n1" {
			t.Errorf("changes %q", got)
		}
	})
}

// TestAnOrderStopsWhenItsLeaderGoes: the leader is killed while members are started.
func TestAnOrderStopsWhenItsLeaderGoes(t *testing.T) {
	s := newStaff()
	inHall(t, s, func(t *testing.T, h *hall) {
		s.block = make(chan struct{})
		conn := h.connect()
		say(conn, 5)
		s.block <- struct{}{} // the first has started
		synctest.Wait()
		conn.Close()
		synctest.Wait()
		close(s.block)
		synctest.Wait()
		if got := s.changes(); got != "start n1, start n2" {
			t.Errorf("changes %q", got)
		}
	})
}

// TestSilentCallersBlockNobody: connections that say nothing are closed after a while, and
// those that are too many at once.
func TestSilentCallersBlockNobody(t *testing.T) {
	s := newStaff()
	inHall(t, s, func(t *testing.T, h *hall) {
		var silent []net.Conn
		for range mostCallers {
			silent = append(silent, h.connect())
		}
		if got := answerTo(h.connect()); got != "EOF" {
			t.Errorf("one too many: %s", got)
		}
		time.Sleep(orderTime)
		synctest.Wait()
		for _, conn := range silent {
			if got := answerTo(conn); got != "EOF" {
				t.Errorf("a silent one: %s", got)
			}
		}
		conn := h.connect()
		say(conn, 1)
		if got := answerTo(conn); got != `{"done":true}` {
			t.Errorf("after all that: %s", got)
		}
	})
}

// TestServeEndsWithItsListener: a listener that fails is told, and nobody hangs.
func TestServeEndsWithItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall()
		served, began := make(chan error), time.Now()
		go func() { served <- Serve(t.Context(), h, newStaff()) }()
		conn := h.connect()
		h.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if got := answerTo(conn); got != "EOF" {
			t.Errorf("a caller: %s", got)
		}
	})
}

func TestAFrozenSupervisorIsNotWaitedForLonger(t *testing.T) {
	s := newStaff()
	s.block = make(chan struct{})
	defer close(s.block)
	l := newLocal(t, serve(t, s))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.Scale(ctx, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// FuzzOrder: what a supervisor reads as an order is one.
func FuzzOrder(f *testing.F) {
	for _, text := range []string{`{"want":3,"remove":[{"name":"c1","session":"1"}]}`, `{"want":-1}`, `{"remove":[{}]}`, `[]`, `{"want":1e99}`, "\x00"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := readOrder(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := readOrder(b)
		if err != nil || again.Want != o.Want || len(again.Remove) != len(o.Remove) || o.Want < 0 {
			t.Errorf("%q is %+v, and that is %+v, %v", text, o, again, err)
		}
	})
}

// FuzzReply: only a reply that says done is one.
func FuzzReply(f *testing.F) {
	for _, text := range []string{`{"done":true}`, `{"error":"x"}`, `{}`, `{"done":1}`, `null`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r reply
		if readReply(text) == nil && (json.Unmarshal(text, &r) != nil || !r.Done || r.Error != "") {
			t.Errorf("%q passes for done", text)
		}
	})
}
