package rotaaws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/address"
)

const (
	// publishEvery is the resolution that CloudWatch stores.
	publishEvery = time.Minute
	callTime     = 10 * time.Second
	// lastTime limits the last publication: the program is about to end.
	lastTime = 2 * time.Second
	// mostKept is how many data wait for a CloudWatch that does not answer: as many as one
	// call may bring, which is about an hour of a leader.
	mostKept = 1000
)

// Metrics publishes metrics of members to CloudWatch.
type Metrics struct {
	access
	namespace string
	kept      []types.MetricDatum // not published yet
	after     time.Duration       // how long CloudWatch wants to be left alone
	failures  int                 // in a row
	reason    string              // of the last one
	lost      int                 // data that were dropped since they were last reported
}

var namespaceRE = regexp.MustCompile(`^[A-Za-z0-9._/#-][A-Za-z0-9._/# -]{0,254}$`)

// CloudWatch returns Metrics that are published in this namespace. It does not connect.
func CloudWatch(namespace string, opts ...Option) (*Metrics, error) {
	if !namespaceRE.MatchString(namespace) || strings.HasPrefix(namespace, "AWS/") {
		return nil, fmt.Errorf("rotaaws: namespace %.40q: use at most 255 of A-Z, a-z, 0-9, . - _ / # and spaces, and not AWS/ at the beginning", namespace)
	}
	p := &Metrics{namespace: namespace}
	p.failed = func(error) {}
	p.apply(opts)
	return p, nil
}

// Publish publishes the metrics of a member once a minute, and those of its group while
// the member leads. It begins at once, so call it before Run: it ends when Run has
// returned, or ctx ends. The function that it returns waits for that, and for the last
// publication, which takes 2 s at most.
//
// It reads the events and the status of the member, and the status of the group from the
// member's store. Nothing waits for it. Use a Metrics for one member.
func (p *Metrics) Publish(ctx context.Context, m *rota.Member, store rota.Store) (wait func()) {
	seen := &counts{begun: map[string]time.Time{}}
	events := m.Events(ctx)
	running, ended := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer ended()
		for e := range events {
			seen.add(e)
		}
	}()
	go func() {
		defer close(done)
		// Members that start together publish at different times: CloudWatch limits the
		// calls per second.
		next := time.Now().Add(rand.N(publishEvery))
		for {
			select {
			case <-running.Done():
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
				defer cancel()
				p.collect(last, m, store, seen)
				p.send(last)
				return
			case <-time.After(time.Until(next)):
			}
			p.collect(running, m, store, seen)
			p.send(running)
			next = next.Add(max(publishEvery, p.after))
		}
	}()
	return func() { <-done }
}

// collect adds the data of now to what is to be published.
func (p *Metrics) collect(ctx context.Context, m *rota.Member, store rota.Store, seen *counts) {
	st := m.Status()
	session, tally := seen.read()
	if session == "" {
		return // it has not joined yet
	}
	s := &sheet{at: time.Now()}
	leads := st.Leader == session
	s.about("Group", st.Group)
	if leads {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		full, err := rota.Inspect(ctx, store, st.Group)
		if err != nil { // the store does not answer: the leader itself knows less
			full = st
		} else {
			s.problems(full.Problems)
		}
		s.group(&full)
		if full.Load != nil && full.Load.Known {
			s.load(full.Load)
		}
	}
	if leads || tally.plans+tally.dead > 0 { // it may have led a moment ago
		s.groupCounts(&tally)
	}
	s.about("Group", st.Group, "Member", m.Name())
	s.member(&st, session, &tally)
	p.kept = append(p.kept, s.data...)
	if over := len(p.kept) - mostKept; over > 0 {
		p.kept = append(p.kept[:0], p.kept[over:]...)
		p.lost += over
	}
}

// send publishes what is kept, in one call.
func (p *Metrics) send(ctx context.Context) {
	if len(p.kept) == 0 {
		return
	}
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := p.put(call)
	if errors.Is(ctx.Err(), context.Canceled) && err != nil {
		return // the last publication brings it
	}
	p.after = 0
	if l, ok := errors.AsType[later](err); ok {
		p.after = l.after
	}
	r, _ := errors.AsType[refused](err)
	if r.expired {
		p.forget()
	}
	if err == nil || r.invalid {
		if r.invalid { // it would be refused for ever, and all that comes after it
			p.lost += len(p.kept)
		}
		p.kept = nil
	}
	p.report(err, r.code)
}

func (p *Metrics) put(ctx context.Context) error {
	c, err := p.config(ctx)
	if err != nil {
		return err
	}
	client := cloudwatch.NewFromConfig(c)
	if _, err := client.PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: &p.namespace, MetricData: p.kept}); err != nil {
		return inWords("PutMetricData", err)
	}
	return nil
}

// report tells of a failure when its reason is new, and then of the 2nd, the 4th, the 8th
// and so on.
func (p *Metrics) report(err error, reason string) {
	if err == nil {
		if p.failures > 0 {
			p.failed(nil)
		}
		p.failures, p.lost = 0, 0
		return
	}
	if reason != p.reason {
		p.failures = 0
	}
	p.failures, p.reason = p.failures+1, reason
	if p.failures&(p.failures-1) != 0 {
		return
	}
	if p.failures > 1 {
		err = fmt.Errorf("%w (%d times by now)", err, p.failures)
	}
	if p.lost > 0 {
		err = fmt.Errorf("%w; %d data are lost", err, p.lost)
	}
	p.failed(address.Named("cloudwatch", err))
}
