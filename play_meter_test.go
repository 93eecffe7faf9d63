package rota_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/rota-dev/rota"
)

// playMeter counts what arrives at the partitions of a play. The play's mutex guards it.
type playMeter struct {
	parts map[string]*playArrivals
	fails bool
}

// playArrivals at one partition: so many until an instant, and so many a second since.
type playArrivals struct {
	count, speed float64
	since        time.Time
}

func (a *playArrivals) now() float64 { return a.count + a.speed*time.Since(a.since).Seconds() }

// load sets what arrives at a partition, or at all of them, per second.
func (w *play) load(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("wants a partition, or all, and how much arrives per second")
	}
	v, err := strconv.ParseFloat(args[1], 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.meter.parts == nil {
		w.meter.parts = map[string]*playArrivals{}
	}
	for _, name := range w.names {
		if args[0] != "all" && args[0] != name {
			continue
		}
		a := w.meter.parts[name]
		if a == nil {
			a = &playArrivals{since: time.Now()}
			w.meter.parts[name] = a
		}
		*a = playArrivals{a.now(), v, time.Now()}
	}
	return err
}

// Read implements rota.Meter.
func (p *proc) Read(ctx context.Context, names []string) (out []rota.Reading, err error) {
	time.Sleep(latency)
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.meter.fails {
		return nil, errors.New("the broker does not count")
	}
	for _, name := range names {
		r := rota.Reading{Partition: name}
		if a := w.meter.parts[name]; a != nil {
			r.Arrived = uint64(math.Floor(a.now() + 1e-6))
		}
		out = append(out, r)
	}
	return out, nil
}
