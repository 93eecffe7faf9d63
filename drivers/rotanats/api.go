package rotanats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of JetStream.
const (
	codeNoMessage     = 10037
	codeNoStream      = 10059
	codeStreamExists  = 10058
	codeWrongSequence = 10071
	codeWrongInFlight = 10164 // another write of the key is in flight between the replicas
	codeSameInFlight  = 10158 // this write is, sent before
)

// answer is the part that all answers of JetStream have in common.
type answer struct {
	Error *jetstream.APIError `json:"error"`
}

// clear removes the error of an earlier attempt: JSON without an error field would
// leave it as it is.
func (a *answer) clear() { a.Error = nil }

func (a *answer) err() error {
	if a.Error == nil {
		return nil
	}
	return a.Error
}

// code returns JetStream's code of an error, 0 if the error is not from JetStream.
func code(err error) int {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return int(api.ErrorCode)
	}
	return 0
}

// A reply is a type that embeds answer.
type reply interface {
	clear()
	err() error
}

// ask sends a request to JetStream's API and retries after a timeout, which is short in a
// cluster: a server that is about to become a stream's leader, or no longer is, does not
// answer. A server that stands alone answers in turn, and drops requests only if there are
// too many: then a second attempt that comes soon makes it worse. Only idempotent requests
// are sent this way; records are not.
func (l *link) ask(ctx context.Context, verb string, body any, to reply) error {
	return l.askIf(ctx, func() error { return nil }, verb, body, to)
}

// askIf is ask for requests that only an owner may send. It calls may directly before
// each attempt: the process may have been stopped by a signal since the last.
func (l *link) askIf(ctx context.Context, may func() error, verb string, body any, to reply) error {
	msg := nats.NewMsg(l.api(verb))
	if body != nil {
		var err error
		if msg.Data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	ctx, cancel := within(ctx)
	defer cancel()
	first := l.patience(ctx)
	for wait := first; ; wait = longer(wait, first) {
		if err := may(); err != nil {
			return err
		}
		once, cancel := context.WithTimeout(ctx, wait)
		r, err := l.request(once, msg)
		silence := once.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			to.clear()
			if err := json.Unmarshal(r.Data, to); err != nil {
				return fmt.Errorf("the answer to %s: %w", verb, err)
			}
			return to.err()
		case !silence:
			return err
		}
	}
}

// patience is the timeout of the first attempt: another server may answer the next one if
// the one that we are connected to belongs to a cluster, or passes requests on to a domain.
func (l *link) patience(ctx context.Context) time.Duration {
	nc, _, err := l.conn(ctx)
	if err != nil || nc.ConnectedClusterName() != "" || l.set.Domain != "" || l.set.API != "" {
		return replyTimeout
	}
	return 5 * replyTimeout
}

// api returns the subject of a request to JetStream's API.
func (l *link) api(verb string) string { return l.set.Prefix() + "." + verb }

// replyTimeout is the timeout of the first attempt.
const replyTimeout = 400 * time.Millisecond

// longer is the timeout of the attempt that follows one with this timeout: twice as long, but
// not for ever. What was sent just before a cluster has a leader again is lost, and nobody asks again
// before its time is over.
func longer(wait, first time.Duration) time.Duration { return min(2*wait, 4*first) }

// streamInfo has the fields of STREAM.INFO that are used here.
type streamInfo struct {
	answer
	Config  jetstream.StreamConfig `json:"config"`
	Created time.Time              `json:"created"`
	State   struct {
		Subjects  map[string]uint64 `json:"subjects"`
		First     uint64            `json:"first_seq"`
		Last      uint64            `json:"last_seq"`
		Consumers int               `json:"consumer_count"`
	} `json:"state"`
	Cluster *struct {
		Name        string     `json:"name"`
		RaftGroup   string     `json:"raft_group"`
		Leader      string     `json:"leader"`
		LeaderSince *time.Time `json:"leader_since"`
	} `json:"cluster"`
	Total  int `json:"total"`
	Offset int `json:"offset"`
	Limit  int `json:"limit"`
}

// find reads the info of a stream, and creates the stream if there is none and config is
// not nil. Other processes may create it at the same time. Until all servers of a
// cluster know it, one answers that it exists and another that it does not; then find
// retries.
func (l *link) find(ctx context.Context, name string, config *jetstream.StreamConfig, info *streamInfo) error {
	for wait := findTime; ; wait = min(2*wait, 16*findTime) {
		err := l.ask(ctx, "STREAM.INFO."+name, nil, info)
		if code(err) != codeNoStream || config == nil {
			return err
		}
		err = l.make(ctx, *config, info)
		if c := code(err); c != codeStreamExists && c != codeNoStream {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return l.explain(errors.Join(ctx.Err(), err))
		}
	}
}

// findTime is the first back-off of find.
const findTime = 10 * time.Millisecond

// make creates a stream. Without a number of replicas it gets three in a cluster.
func (l *link) make(ctx context.Context, c jetstream.StreamConfig, info *streamInfo) error {
	nc, _, err := l.conn(ctx)
	if err != nil {
		return err
	}
	if c.Replicas == 0 {
		c.Replicas = 1
		if nc.ConnectedClusterName() != "" {
			c.Replicas = 3
		}
	}
	err = l.ask(ctx, "STREAM.CREATE."+c.Name, c, info)
	if code(err) != 0 && c.Replicas > 1 {
		return fmt.Errorf("create it with %d replicas: %w; in a cluster with fewer servers add replicas=1 to the URL", c.Replicas, err)
	}
	return err
}
