//go:build linux

package processes

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/line"
)

// A sink is where effects go. It checks tokens: what carries a lower one than it
// has seen for the partition is refused. What it refuses is what a sink that does
// not check would have taken.
type sink struct {
	addr string
	file *os.File
	w    *bufio.Writer
	mu   sync.Mutex

	pause     time.Duration // before an effect is taken
	hung      string        // a partition whose effects are neither taken nor refused: the sender waits
	failing   string        // a partition whose effects fail
	uneven    bool          // the higher a partition's number, the slower
	highest   map[string]uint64
	about     map[string]string // the topic and the metadata that the last effect of a partition came with
	next      map[string]int    // what is to come first: everything below was accepted
	begins    map[string][]beginning
	accepted  int
	again     int // of these, not for the first time
	stretches []stretch
	refused   int
	wrong     []string
}

// A beginning is the first effect that was accepted under a token.
type beginning struct {
	token  uint64
	number int // of the message
	next   int // and of the one that was to come
	at     time.Time
}

// A stretch is a row of messages of a partition that were accepted before.
type stretch struct {
	partition     string
	former, token uint64 // under which it was written to before the first of them, and under which they came
	count         int
	at            time.Time // of the first
	ended         bool
}

func newSink(t *testing.T, file string) *sink {
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{addr: l.Addr().String(), file: f, w: bufio.NewWriter(f), highest: map[string]uint64{}, about: map[string]string{}, next: map[string]int{}, begins: map[string][]beginning{}}
	srv := &http.Server{Handler: s}
	go srv.Serve(l)
	t.Cleanup(func() {
		srv.Close()
		s.flush()
		f.Close()
	})
	return s
}

// ServeHTTP takes an effect, whose body is its number in the partition.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it never came in whole
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(body)))
	token, bad := strconv.ParseUint(r.Header.Get("Rota-Token"), 10, 64)
	p := r.Header.Get("Rota-Partition")
	for waits := true; waits && r.Context().Err() == nil; {
		s.mu.Lock()
		pause := s.pause
		waits = s.hung == p
		s.mu.Unlock()
		if s.uneven { // set once, before anything comes
			n, _ := strconv.Atoi(p[strings.LastIndexAny(p, ".-")+1:])
			pause = time.Duration(n) * 150 * time.Microsecond
		}
		if waits {
			pause = 5 * time.Millisecond
		}
		time.Sleep(pause)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing == p && p != "" {
		http.Error(w, "the disk is full", http.StatusInternalServerError)
		return
	}
	if err != nil || bad != nil || p == "" {
		s.wrong = append(s.wrong, fmt.Sprintf("an effect nobody asked for: %q %v", body, r.Header))
		http.Error(w, "not an effect", http.StatusBadRequest)
		return
	}
	l := line.New(line.Accept, r.Header.Get("Rota-Group"), "sink")
	l.Session, l.Partition, l.Token, l.Message = r.Header.Get("Rota-Session"), p, token, r.Header.Get("Rota-Message-Id")
	if token < s.highest[p] {
		l.Event = line.Refuse
		s.refused++
		http.Error(w, "the partition has a later owner", http.StatusConflict)
	} else {
		former := s.highest[p]
		if token > former {
			s.begins[p] = append(s.begins[p], beginning{token, n, s.next[p], time.Now()})
		}
		s.highest[p] = token
		s.about[p] = r.Header.Get("Rota-Topic") + " " + r.Header.Get("Rota-Meta")
		s.take(p, n, former, token)
	}
	json.NewEncoder(s.w).Encode(l)
}

// slow lets every effect take that long.
func (s *sink) slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = d
}

// hang lets the effects of one partition wait until another is named, or none.
func (s *sink) hang(partition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = partition
}

// fail lets the effects of one partition fail until another is named, or none.
func (s *sink) fail(partition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = partition
}

// said is the topic and the metadata that the last effect of a partition came with.
func (s *sink) said(partition string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.about[partition]
}

// begun is how the next owner after a token has begun, if it has.
func (s *sink) begun(partition string, after uint64) (beginning, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.begins[partition] {
		if b.token > after {
			return b, true
		}
	}
	return beginning{}, false
}

// refusals is how much was refused by its token.
func (s *sink) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// got is how much was accepted.
func (s *sink) got() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// counts is how much was accepted of each partition but one.
func (s *sink) counts(but string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.next)
	delete(all, but)
	return all
}

// take accepts a message. Repeats are fair, gaps are not.
func (s *sink) take(p string, n int, former, token uint64) {
	s.accepted++
	switch {
	case n > s.next[p]:
		s.wrong = append(s.wrong, fmt.Sprintf("%s: message %d came before %d", p, n, s.next[p]))
	case n < s.next[p]:
		s.again++
		s.repeated(p, former, token)
	default:
		s.next[p]++
		if i := s.open(p); i >= 0 {
			s.stretches[i].ended = true
		}
	}
}

// repeated notes a message that was accepted before.
func (s *sink) repeated(p string, former, token uint64) {
	i := s.open(p)
	if i < 0 || token > former {
		s.stretches = append(s.stretches, stretch{partition: p, former: former, token: token, at: time.Now()})
		i = len(s.stretches) - 1
	}
	s.stretches[i].count++
}

// open is the last stretch of a partition if it has not ended, and -1 otherwise.
func (s *sink) open(p string) int {
	for i, x := range slices.Backward(s.stretches) {
		if x.partition == p {
			if x.ended {
				return -1
			}
			return i
		}
	}
	return -1
}

// longest is how many messages the longest stretch has.
func (s *sink) longest() (n int) {
	for _, x := range s.stretches {
		n = max(n, x.count)
	}
	return n
}

// reached is how many messages were accepted, each once.
func (s *sink) reached() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, next := range s.next {
		n += next
	}
	return n
}

// await waits until everything that was sent has been accepted, in order.
func (s *sink) await(c *crew, sent []int) error {
	deadline := time.Now().Add(patience)
	for {
		s.mu.Lock()
		missing := ""
		for p, n := range sent {
			if got := s.next[c.partition(p)]; got < n {
				missing = fmt.Sprintf("partition %d: %d of %d messages have arrived", p, got, n)
			}
		}
		wrong := append([]string{}, s.wrong...)
		s.mu.Unlock()
		switch {
		case len(wrong) > 0:
			return fmt.Errorf("%s", strings.Join(wrong, "\n"))
		case missing == "":
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s", missing)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *sink) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.Flush()
}

// ruledBy: it has seen these tokens, so that it refuses all earlier ones.
func (s *sink) ruledBy(c *crew, tokens map[string]uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, token := range s.highest {
		if token < tokens[c.part(p)] {
			return false
		}
	}
	return len(s.highest) > 0
}
