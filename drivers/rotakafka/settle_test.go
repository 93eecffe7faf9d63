package rotakafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSettler plays pumps against the clock: what is committed when, and that all of the last commit
// that can be done before the last message has ended is done before.
func TestSettler(t *testing.T) {
	refused := errors.New("refused")
	const takes = 10 * time.Millisecond // a request
	for _, c := range []struct {
		name   string
		from   start
		refuse string // the request that is refused
		pump   func(p *played)
		want   string
	}{
		{"nothing is done", start{}, "", func(p *played) { p.sleep(time.Minute); p.close(stopping) }, ""},
		{"in time, though the next message takes a minute", start{}, "", func(p *played) { p.done(1); p.sleep(time.Minute); p.close(stopping) },
			"shut out at 100ms, write 1 at 1s"},
		{"the first of several counts", start{}, "", func(p *played) {
			p.done(1)
			p.sleep(600 * time.Millisecond)
			p.done(1)
			p.sleep(time.Minute)
			p.close(stopping)
		},
			"shut out at 100ms, write 2 at 1s"},
		{"what is done during a commit", start{}, "", func(p *played) {
			p.done(1)
			p.sleep(time.Second + takes/2)
			p.done(1)
			p.sleep(time.Minute)
			p.close(stopping)
		}, "shut out at 100ms, write 1 at 1s, write 2 at 2s"},
		{"messages that are not for us", start{}, "", func(p *played) {
			p.skip()
			p.sleep(600 * time.Millisecond)
			p.skip()
			p.sleep(time.Minute)
			p.close(stopping)
		},
			"shut out at 100ms, write 2 at 1s"},
		{"half a window", start{}, "", func(p *played) { p.done(5); p.pace(false); p.sleep(time.Minute); p.close(stopping) },
			"shut out at 0s, paced at 0s, write 5 at 10ms"},
		{"a window", start{}, "", func(p *played) { p.done(10); p.pace(false); p.close(stopping) },
			"shut out at 0s, write 10 at 10ms, paced at 20ms"},
		{"half a window is under way", start{}, "", func(p *played) {
			p.done(5)
			p.pace(false)
			p.sleep(takes + takes/2)
			p.done(1)
			p.pace(false)
			p.sleep(time.Minute)
			p.close(stopping)
		}, "shut out at 0s, paced at 0s, write 5 at 10ms, paced at 15ms, write 6 at 1s"},
		{"with care", start{}, "", func(p *played) { p.done(1); p.pace(true); p.done(1); p.pace(true); p.close(stopping) },
			"shut out at 0s, write 1 at 10ms, paced at 20ms, write 2 at 20ms, paced at 30ms"},
		{"begins elsewhere", start{position: 7, settled: 3, moved: true}, "", func(p *played) { p.pace(false); p.close(stopping) },
			"shut out at 0s, write 7 at 10ms, paced at 20ms"},
		{"goes on elsewhere during a commit", start{}, "", func(p *played) {
			p.done(1)
			p.sleep(time.Second + takes/2)
			p.s.move(100)
			p.pace(false)
			p.close(stopping)
		}, "shut out at 100ms, write 1 at 1s, write 100 at 1.01s, paced at 1.02s"},
		{"went on without a commit", start{position: 7, settled: 3}, "", func(p *played) { p.sleep(time.Minute); p.close(stopping) },
			"shut out at 100ms, write 7 at 1s"},
		{"a stop during the last message", start{}, "", func(p *played) {
			p.done(1)
			p.sleep(500 * time.Millisecond)
			p.begin(1)
			p.stop()
			p.sleep(100 * time.Millisecond)
			p.done(1)
			p.close(stopping)
		}, "shut out at 100ms, stage 2, the last, at 500ms, write 2, the last, at 600ms"},
		{"a stop during several messages, of which one is the last", start{}, "", func(p *played) {
			p.begin(1)
			p.done(1)
			p.sleep(500 * time.Millisecond)
			p.begin(3)
			p.stop()
			p.sleep(100 * time.Millisecond)
			p.done(2)
			p.close(stopping)
		}, "shut out at 100ms, stage 1 at 500ms, write 3, the last, at 600ms"},
		{"a stop during the last message, which fails", start{}, "", func(p *played) {
			p.begin(1)
			p.done(1)
			p.sleep(500 * time.Millisecond)
			p.begin(1)
			p.stop()
			p.sleep(100 * time.Millisecond)
			p.close(leaving)
		}, "shut out at 100ms, stage 2, the last, at 500ms, write 1 at 600ms"},
		{"a stop during the last message, which takes a minute", start{}, "", func(p *played) {
			p.done(1)
			p.sleep(500 * time.Millisecond)
			p.stop()
			p.sleep(time.Minute)
			p.done(1)
			p.close(stopping)
		}, "shut out at 100ms, stage 1 at 500ms, write 1 at 1s, write 2, the last, at 1m0.5s"},
		{"a stop during the first message", start{}, "", func(p *played) { p.stop(); p.sleep(time.Minute); p.done(1); p.close(stopping) },
			"shut out at 1m0s, write 1, the last, at 1m0.01s"},
		{"a stop during the first message, which is known to be the last", start{}, "", func(p *played) {
			p.begin(1)
			p.stop()
			p.sleep(time.Minute)
			p.done(1)
			p.close(stopping)
		}, "shut out at 0s, stage 1, the last, at 10ms, write 1, the last, at 1m0s"},
		{"a stop during the first message, which fails", start{}, "", func(p *played) {
			p.begin(1)
			p.stop()
			p.sleep(time.Minute)
			p.close(stopping)
		}, "shut out at 0s, stage 1, the last, at 10ms, write 0, the last, at 1m0s"},
		{"a stop before the first message begins", start{}, "", func(p *played) {
			p.stop()
			p.sleep(time.Second)
			p.begin(1)
			p.sleep(time.Minute)
			p.done(1)
			p.close(stopping)
		}, "shut out at 1s, stage 1, the last, at 1.01s, write 1, the last, at 1m1s"},
		{"a stop between messages", start{}, "", func(p *played) { p.done(1); p.sleep(500 * time.Millisecond); p.stop(); p.close(stopping) },
			"shut out at 100ms, write 1, the last, at 500ms"},
		{"a failure", start{}, "", func(p *played) { p.done(1); p.close(leaving) }, "shut out at 0s, write 1 at 10ms"},
		{"a commit is refused", start{}, "write", func(p *played) { p.done(1); p.sleep(time.Minute); p.pace(false); p.close(leaving) },
			"shut out at 100ms, write 1 at 1s, paced at 1m0s: refused, closed: refused"},
		{"somebody cannot be shut out", start{}, "shut", func(p *played) { p.done(1); p.sleep(time.Second); p.pace(false); p.close(stopping) },
			"shut out at 100ms, paced at 1s: refused, closed: refused"},
		{"nothing can be staged", start{}, "stage", func(p *played) { p.done(1); p.sleep(takes); p.stop(); p.sleep(time.Second); p.close(stopping) },
			"shut out at 10ms, stage 1 at 20ms, write 1 at 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &played{T: t, begun: time.Now(), stopped: make(chan struct{}), at: c.from.position}
				request := func(ctx context.Context, what string) error {
					p.log("%s at %v", what, time.Since(p.begun))
					time.Sleep(takes)
					if c.refuse != "" && strings.HasPrefix(what, c.refuse) {
						return refused
					}
					return ctx.Err()
				}
				p.s = &settler{every: time.Second, most: time.Minute, window: 10, stop: p.stopped,
					shutOut: func(ctx context.Context) error { return request(ctx, "shut out") },
					stage:   func(ctx context.Context, at int64, last bool) error { return request(ctx, which("stage", at, last)) },
					write: func(ctx context.Context, at int64, last bool) error {
						return request(ctx, which("write", at, last))
					}}
				p.s.begin(c.from)
				go p.s.run(t.Context())
				c.pump(p)
				<-p.s.over
				if got := strings.Join(p.lines, ", "); got != c.want {
					t.Errorf("got:  %s\nwant: %s", got, c.want)
				}
			})
		})
	}
}

// TestCommitsAreSpread checks that partitions that began together commit at different times, each as
// often as it is to.
func TestCommitsAreSpread(t *testing.T) {
	const every = time.Second
	done := time.Now()
	var waits []time.Duration
	for n := range 100 {
		s := settler{every: every, phase: phaseOf("orders", int32(n), every)}
		due := s.due(done)
		waits = append(waits, due.Sub(done))
		if again := s.due(due); again != due.Add(every) {
			t.Errorf("due %v after it was done, and %v after that, want %v", due.Sub(done), again.Sub(due), every)
		}
	}
	slices.Sort(waits)
	if waits[0] <= 0 || waits[99] > every {
		t.Errorf("the first after %v, the last after %v, want %v at most", waits[0], waits[99], every)
	}
	for i := 10; i < 100; i++ {
		if gap := waits[i] - waits[i-10]; gap < every/20 || gap > every/5 {
			t.Errorf("10 of 100 partitions commit within %v", gap)
		}
	}
}

func which(what string, at int64, last bool) string {
	what += fmt.Sprintf(" %d", at)
	if last {
		what += ", the last,"
	}
	return what
}

// A played pump tells when what happened.
type played struct {
	*testing.T
	s       *settler
	begun   time.Time
	stopped chan struct{}
	at      int64

	mu    sync.Mutex
	lines []string
}

func (p *played) log(format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf(format, a...))
}

func (p *played) sleep(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// done handles messages.
func (p *played) done(n int) {
	p.at += int64(n)
	p.s.done(n, p.at)
}

// begin begins to handle messages together.
func (p *played) begin(n int) { p.s.handling(n, p.at+int64(n)) }

// skip skips a message that is not for us.
func (p *played) skip() {
	p.at++
	p.s.done(0, p.at)
}

func (p *played) pace(careful bool) {
	synctest.Wait()
	err := p.s.pace(p.Context(), careful)
	synctest.Wait()
	line := fmt.Sprintf("paced at %v", time.Since(p.begun))
	if err != nil {
		line += ": " + err.Error()
	}
	p.log("%s", line)
}

func (p *played) stop() { close(p.stopped) }

func (p *played) close(how closing) {
	if err := p.s.close(p.Context(), how); err != nil {
		p.log("closed: %v", err)
	}
}
