package rotanats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors that JetStream answers with.
const (
	codeNoMessage     = 10037
	codeNoStream      = 10059
	codeStreamExists  = 10058
	codeWrongSequence = 10071
	codeWrongInFlight = 10164 // another write of the key is on its way through the replicas
)

// answer is what begins every answer of JetStream.
type answer struct {
	Error *jetstream.APIError `json:"error"`
}

// clear: an answer without an error says nothing of errors.
func (a *answer) clear() { a.Error = nil }

func (a *answer) err() error {
	if a.Error == nil {
		return nil
	}
	return a.Error
}

// code is JetStream's own number of an error, 0 if it is not one of its errors.
func code(err error) int {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return int(api.ErrorCode)
	}
	return 0
}

// A reply is something with an answer in it.
type reply interface {
	clear()
	err() error
}

// ask puts a question to JetStream, and again if there is no answer: a server
// that is about to lead a stream, or no longer does, keeps silent. All questions
// are such that asking twice does no harm; records are not written this way.
func (l *link) ask(ctx context.Context, verb string, question any, to reply) error {
	return l.askIf(ctx, func() error { return nil }, verb, question, to)
}

// askIf is ask for what only an owner may do. It calls may directly before each
// try: the process may have been frozen since the last.
func (l *link) askIf(ctx context.Context, may func() error, verb string, question any, to reply) error {
	msg := nats.NewMsg(l.api(verb))
	if question != nil {
		var err error
		if msg.Data, err = json.Marshal(question); err != nil {
			return err
		}
	}
	ctx, cancel := within(ctx)
	defer cancel()
	for wait := askTime; ; wait *= 2 {
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

// api is the subject of a question to JetStream.
func (l *link) api(verb string) string { return cmp.Or(l.set.API, "$JS.API") + "." + verb }

// askTime is how long the first answer may take before a question is asked again.
const askTime = 400 * time.Millisecond

// streamInfo is what a stream's leader tells of it.
type streamInfo struct {
	answer
	Config  jetstream.StreamConfig `json:"config"`
	Created time.Time              `json:"created"`
	State   struct {
		Subjects map[string]uint64 `json:"subjects"`
		Last     uint64            `json:"last_seq"`
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

// find looks for a stream, and makes it if there is none and config says how.
// Others may be about to make it at the same time: until it is there for
// everybody, one server of a cluster says that it exists and another that it does
// not.
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

// findTime is how soon a stream is looked for again that somebody is making.
const findTime = 10 * time.Millisecond

// make creates a stream, replicated if that can be.
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
		return fmt.Errorf("make it with %d replicas: %w; a cluster with fewer servers wants replicas=1", c.Replicas, err)
	}
	return err
}
