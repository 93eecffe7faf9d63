package rotanats_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// extended is a source whose group has more partitions, as by order.
type extended struct {
	rota.Source
	names []string
}

func (e extended) Bind(group string) error { return e.Source.(rota.Binder).Bind(group) }

func (e extended) Partitions(context.Context) (out []rota.Partition, err error) {
	for _, name := range e.names {
		out = append(out, rota.Partition{Name: name})
	}
	return out, nil
}

// TestAPartitionOutsideTheSubjectDoesNotRun gives a group partitions that are none of the
// source's subjects, as an operator can by order. Each is reported and not served; one that
// the subject covers, beyond the numbered ones, is served.
func TestAPartitionOutsideTheSubjectDoesNotRun(t *testing.T) {
	ns := serveAccount(t, -1)
	b := newBroker(t, ns.ClientURL())
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	src := rotanats.Source(b.url + "?stream=S&subject=s.*.eu&partitions=1")
	defer src.(io.Closer).Close()
	good, bad := []string{"s.0.eu", "s.9.eu"}, []string{"other.9", "s.1.2.eu", "s.eu", "s.3.us"}
	events := make(chan rota.Event, 10_000)
	m, err := rota.New(rota.Config{Group: "g", Store: rotatest.NewMemStore(), NewGroup: true, Source: extended{src, append(good, bad...)},
		Handle: func(context.Context, rota.Message) error { return nil },
		Trace: func(e rota.Event) {
			select {
			case events <- e:
			default:
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	started, gaveUp := map[string]bool{}, map[string]bool{}
	late := time.After(time.Minute)
	for len(gaveUp) < len(bad) || len(started) < len(good) {
		select {
		case e := <-events:
			if e.Kind == rota.EventStart {
				started[e.Partition] = true
			}
			if e.Kind == rota.EventStopped {
				gaveUp[e.Partition] = true
			}
		case <-late:
			t.Fatalf("started %v, gave up %v", started, gaveUp)
		}
	}
	for _, p := range bad {
		if started[p] || !gaveUp[p] {
			t.Errorf("%s: started %v, given up %v", p, started[p], gaveUp[p])
		}
	}
	for _, p := range good {
		if !started[p] || gaveUp[p] {
			t.Errorf("%s: started %v, given up %v", p, started[p], gaveUp[p])
		}
	}
	said := false
	for _, c := range m.Status().Members[0].Conditions {
		said = said || c.Code == rota.ConditionSourceFailed && strings.Contains(c.Text, ": it is none of the subjects s.*.eu: no message can arrive for it; rota partitions remove")
	}
	if !said {
		t.Errorf("the conditions are %+v", m.Status().Members[0].Conditions)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
