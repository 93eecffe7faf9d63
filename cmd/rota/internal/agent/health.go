package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/plain"
)

// A health answers those who probe this member by HTTP: a kubelet, a load balancer, a
// person with curl. Nobody has to sign in, so it tells little and holds little: few
// connections, short timeouts, no body is read.
type health struct {
	listener net.Listener
	server   *http.Server

	mu    sync.Mutex
	asked *asked // the question to the loop that is in flight
	open  int    // connections
}

// loopTime is how long a loop may take to answer before it counts as held up. In a loop
// that turns it takes microseconds.
const loopTime = 2 * time.Second

// mostProbes is how many connections may be open at once: a member needs its descriptors
// for its store and its source.
const mostProbes = 64

// listenHealth reserves the address of --health; "" is none.
func listenHealth(addr string) (*health, error) {
	if addr == "" {
		return nil, nil
	}
	_, port, err := net.SplitHostPort(addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return nil, cli.Usagef("--health %q: want HOST:PORT, such as 127.0.0.1:8086, or :8086 for every interface", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // it repeats the address
		}
		return nil, errors.New("--health " + addr + " cannot be listened on: " + err.Error())
	}
	return &health{listener: l}, nil
}

// serve answers by what ready says until close is called.
func (h *health) serve(ready func(context.Context) error) {
	if h == nil {
		return
	}
	h.server = &http.Server{Handler: h.handler(ready), ConnState: h.count, ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 8 << 10,
		ReadTimeout: 5 * time.Second, WriteTimeout: 2*loopTime + time.Second, IdleTimeout: 30 * time.Second}
	go h.server.Serve(h.listener)
}

func (h *health) handler(ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux() // GET also stands for HEAD; anything else gets 405
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		err := h.ask(ready)
		if !errors.Is(err, errHeldUp) {
			err = nil
		}
		answerProbe(w, r, "alive", err)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answerProbe(w, r, "ready", h.ask(ready)) })
	return mux
}

func (h *health) close() {
	if h == nil {
		return
	}
	h.listener.Close()
	if h.server != nil {
		h.server.Close()
	}
}

// count closes what comes beyond mostProbes.
func (h *health) count(c net.Conn, s http.ConnState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s {
	case http.StateNew:
		if h.open++; h.open > mostProbes {
			c.Close()
		}
	case http.StateClosed:
		h.open--
	}
}

// asked is one question to the loop, for everybody who asks while it is in flight: a
// loop is never asked twice at once, however many probes there are.
type asked struct {
	done chan struct{}
	err  error
}

var errHeldUp = errors.New("the loop of this member has not answered for " + loopTime.String())

func (h *health) ask(ready func(context.Context) error) error {
	h.mu.Lock()
	a := h.asked
	if a == nil {
		a = &asked{done: make(chan struct{})}
		h.asked = a
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), loopTime)
			defer cancel()
			if a.err = ready(ctx); errors.Is(a.err, context.DeadlineExceeded) {
				a.err = errHeldUp
			}
			h.mu.Lock()
			h.asked = nil
			h.mu.Unlock()
			close(a.done)
		}()
	}
	h.mu.Unlock()
	<-a.done
	return a.err
}

// A probed is the answer as JSON.
type probed struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// answerProbe writes one line: the word, or what keeps it from being true.
func answerProbe(w http.ResponseWriter, r *http.Request, word string, err error) {
	code, text, answer := http.StatusOK, word, probed{OK: err == nil}
	if err != nil {
		answer.Reason = plain.Text(strings.TrimPrefix(err.Error(), "rota: "))
		code, text = http.StatusServiceUnavailable, "not "+word+": "+answer.Reason
	}
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	if wantsJSON(r) {
		head.Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(answer)
		return
	}
	head.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, text+"\n")
}

func wantsJSON(r *http.Request) bool {
	return r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json")
}
