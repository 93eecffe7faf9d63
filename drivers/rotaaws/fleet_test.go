package rotaaws

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A fleet is a group whose members run on the instances of a cloud, in virtual time.
type fleet struct {
	t     *testing.T
	cloud *cloud
	store *rotatest.MemStore
	names []string // of the partitions

	mu      sync.Mutex
	rate    float64 // messages per second that arrive for all partitions together
	arrived float64
	since   time.Time // arrived counts until then

	busy  atomic.Int32 // members that were asked to end while they owned something
	ended atomic.Int32 // members that were asked to end
}

func newFleet(t *testing.T, partitions int) *fleet {
	f := &fleet{t: t, cloud: emptyCloud(t), store: rotatest.NewMemStore(), since: time.Now()}
	for i := range partitions {
		f.names = append(f.names, "q"+strconv.Itoa(i))
	}
	f.cloud.launch = f.launch
	return f
}

// setRate changes how many messages arrive.
func (f *fleet) setRate(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance()
	f.rate = rate
}

func (f *fleet) advance() {
	now := time.Now()
	f.arrived += f.rate * now.Sub(f.since).Seconds()
	f.since = now
}

// A fleetSource measures what the fleet says, and counts what its member owns.
type fleetSource struct {
	rota.Source
	f *fleet
}

func (s fleetSource) Read(_ context.Context, partitions []string) (all []rota.Reading, err error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.advance()
	for _, name := range partitions {
		all = append(all, rota.Reading{Partition: name, Arrived: uint64(s.f.arrived / float64(len(s.f.names)))})
	}
	return all, nil
}

// boot is how long an instance takes to start.
const boot = 40 * time.Second

// launch starts a member in place of a process.
func (f *fleet) launch(t *testing.T, id string, changed func(*instance, string)) *instance {
	var owned atomic.Int32
	source := fleetSource{rota.Func(f.names, func(ctx context.Context, own rota.Ownership) error {
		owned.Add(1)
		defer owned.Add(-1)
		select {
		case <-own.Stop():
		case <-ctx.Done():
		}
		return nil
	}), f}
	c := signed()
	c.HTTPClient = &http.Client{Transport: direct{f.cloud}}
	m, err := rota.New(rota.Config{Group: "orders", Store: f.store.Open(), Source: source, Name: id, NewGroup: true, Labels: map[string]string{InstanceLabel: id}, StallTime: rota.AtOnce, Log: slog.New(slog.DiscardHandler),
		Handle:   func(context.Context, rota.Message) error { return nil },
		Strategy: rota.Pack, Packing: rota.Packing{Capacity: 100}, Scaler: Scaler("aws:fleet?region=eu-test-1", Using(c)), Scaling: rota.Scaling{Min: 1, Max: 8}})
	if err != nil {
		panic(err) // it may be any goroutine
	}
	ctx, cancel := context.WithCancel(t.Context())
	i := &instance{id: id, state: "Pending", gone: make(chan struct{}), kill: cancel, ask: func() {
		f.ended.Add(1)
		if owned.Load() > 0 {
			f.busy.Add(1)
		}
		cancel()
	}}
	go func() {
		time.Sleep(boot)
		changed(i, "InService")
		if err := m.Run(ctx); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		close(i.gone)
		changed(i, "Terminated")
	}()
	return i
}

// The real rule, the real SDK and the fake together: the fleet grows with the load and
// comes back with it, and an instance that goes owns nothing.
func TestS0_Infra_AutoScalingFollowsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 24)
		f.setRate(60)
		f.cloud.mu.Lock()
		f.cloud.desired = 1
		f.cloud.converge()
		f.cloud.mu.Unlock()
		for _, phase := range []struct {
			rate float64
			want int // what the rate needs at 80 of 100 for each, and one to spare
		}{{60, 2}, {420, 7}, {60, 2}} {
			f.setRate(phase.rate)
			time.Sleep(15 * time.Minute)
			if n, size := len(f.cloud.ids()), f.cloud.capacity(); n != phase.want || size != phase.want {
				t.Errorf("at %v per second there are %d instances and the capacity is %d, want %d", phase.rate, n, size, phase.want)
			}
		}
		st, err := rota.Inspect(t.Context(), f.store, "orders")
		if err != nil || slices.ContainsFunc(st.Partitions, func(p rota.PartitionInfo) bool { return p.State != rota.PartitionOwned }) || len(st.Problems) > 0 {
			t.Errorf("%v, %+v", err, st)
		}
		if f.ended.Load() != 5 || f.busy.Load() > 0 {
			t.Errorf("%d members were ended, want 5; %d of them owned something", f.ended.Load(), f.busy.Load())
		}
		if open := f.cloud.unprotected(); len(open) > 0 {
			t.Errorf("%v are not protected", open)
		}
		for _, i := range slices.Clone(f.cloud.instances) {
			i.kill()
			<-i.gone
		}
	})
}
