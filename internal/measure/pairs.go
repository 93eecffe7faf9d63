// Package measure has what benchmarks of drivers measure by: a member beside the bare client of its
// broker, and what a process has.
package measure

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A Lap is how somebody has handled a backlog.
type Lap struct {
	Speed float64       // messages per second
	CPU   time.Duration // of this process, per message: the handler's own included, the broker's not
}

// Pairs compares a member with the bare client of its broker. Both handle the same backlog in turn,
// so that other load on the machine hits both: a pair in each round of the benchmark, after one to
// warm up.
func Pairs(b *testing.B, bare, member func() Lap) {
	b.Helper()
	run := []func() Lap{bare, member}
	for _, f := range run {
		f()
	}
	var ratios []float64
	var cpu [2][]time.Duration
	for b.Loop() {
		var lap [2]Lap
		for k := range run { // the first of a pair alternates
			at := (len(ratios) + k) % 2
			lap[at] = run[at]()
			cpu[at] = append(cpu[at], lap[at].CPU)
		}
		ratios = append(ratios, lap[1].Speed/lap[0].Speed)
		b.Logf("pair %2d: bare %6.0f/s, %v each, rota %6.0f/s, %v each, ratio %.3f", len(ratios), lap[0].Speed, lap[0].CPU, lap[1].Speed, lap[1].CPU, ratios[len(ratios)-1])
	}
	slices.Sort(ratios)
	n := len(ratios)
	b.ReportMetric((ratios[(n-1)/2]+ratios[n/2])/2, "ratio")
	b.ReportMetric(ratios[0], "ratio-min")
	b.ReportMetric(ratios[n-1], "ratio-max")
	b.ReportMetric(ratios[n*3/4]-ratios[n/4], "ratio-iqr")
	for at, unit := range []string{"bare-cpu-µs", "rota-cpu-µs"} {
		slices.Sort(cpu[at])
		b.ReportMetric(float64(cpu[at][n/2])/1e3, unit)
	}
}

// A Stopwatch runs from when every partition has had a message to the last message of all.
type Stopwatch struct {
	messages, partitions int64
	n, begun             atomic.Int64 // messages, and partitions that have had one
	since                atomic.Int64 // messages before the clock began
	at                   time.Time
	cpu                  time.Duration
	done                 chan Lap
}

func NewStopwatch(messages, partitions int) *Stopwatch {
	return &Stopwatch{messages: int64(messages), partitions: int64(partitions), done: make(chan Lap, 1)}
}

// Tick counts a message, which may be the first of its partition.
func (w *Stopwatch) Tick(first bool) {
	n := w.n.Add(1)
	if first && w.begun.Add(1) == w.partitions {
		w.at, w.cpu = time.Now(), used()
		w.since.Store(n)
	}
	if n == w.messages {
		n := float64(n - w.since.Load())
		took, cpu := time.Since(w.at), used()-w.cpu
		w.done <- Lap{Speed: n / took.Seconds(), CPU: time.Duration(float64(cpu) / n)}
	}
}

// Count counts a message of the only partition.
func (w *Stopwatch) Count() { w.Tick(w.n.Load() == 0) }

// Wait waits for the last message.
func (w *Stopwatch) Wait(b testing.TB) Lap {
	b.Helper()
	select {
	case lap := <-w.done:
		return lap
	case <-time.After(2 * time.Minute):
		b.Fatalf("%d of %d messages after two minutes", w.n.Load(), w.messages)
		return Lap{}
	}
}

// Work is busy, like a handler that computes.
func Work(d time.Duration) {
	if d == 0 {
		return
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}
