package rotatest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A probe is a test that is meant to fail: it collects its complaints.
type probe struct {
	testing.TB
	mu       sync.Mutex
	said     []string
	cleanups []func()
}

// bites runs f in a bubble and expects a complaint.
func bites(t *testing.T, says string, f func(testing.TB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if said := probed(t, f); !strings.Contains(said, says) {
			t.Errorf("it did not say %q, but: %s", says, said)
		}
		time.Sleep(time.Hour) // what was left behind comes to its end
	})
}

// probed runs f as a test of its own and returns what it complained about.
func probed(t testing.TB, f func(testing.TB)) string {
	p := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer p.clean()
		f(p)
	}()
	<-done
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "\n")
}

// clean runs the cleanups as testing does: last first, and each of them even if
// another has ended the test.
func (p *probe) clean() {
	p.mu.Lock()
	n := len(p.cleanups)
	if n == 0 {
		p.mu.Unlock()
		return
	}
	f := p.cleanups[n-1]
	p.cleanups = p.cleanups[:n-1]
	p.mu.Unlock()
	defer p.clean()
	f()
}

func (p *probe) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

func (p *probe) say(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, s)
}

func (p *probe) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.said) > 0
}

func (p *probe) Helper()                           {}
func (p *probe) Error(args ...any)                 { p.say(fmt.Sprint(args...)) }
func (p *probe) Errorf(format string, args ...any) { p.say(fmt.Sprintf(format, args...)) }
func (p *probe) Fatal(args ...any)                 { p.say(fmt.Sprint(args...)); runtime.Goexit() }
func (p *probe) Fatalf(format string, args ...any) {
	p.say(fmt.Sprintf(format, args...))
	runtime.Goexit()
}
