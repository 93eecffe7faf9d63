package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/rota-dev/rota"
)

// A Sink has the effects of messages. For each partition it knows the token and the session of the
// last write, and it compares and writes in one step: between the two there is no moment in which
// a process can be frozen.
type Sink interface {
	// Save writes the message's value behind those of its partition. It returns an error that
	// wraps rota.ErrLost, and writes nothing, if the partition has been written to under a higher
	// token, or under the same one by another session. rota then gives the partition up.
	Save(ctx context.Context, msg rota.Message) error
	Close() error
}

// open opens the sink that a URL names.
func open(ctx context.Context, at string) (Sink, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	switch u.Scheme {
	case "sqlite":
		return openSQLite(ctx, u.Opaque+u.Path)
	case "redis":
		return openRedis(at)
	case "nats":
		return openNATS(ctx, "nats://"+u.Host, u.Query().Get("bucket"))
	case "kafka":
		return openKafka(u.Host, u.Query().Get("topic")), nil
	}
	return nil, fmt.Errorf("sink %s: want sqlite:FILE, redis://HOST, nats://HOST?bucket=NAME or kafka://HOST?topic=NAME", u.Redacted())
}

// An owner is what a sink knows of the last write of a partition.
type owner struct {
	Token   rota.Token `json:"token,string"` // numbers of JSON are not exact beyond 2^53 everywhere
	Session string     `json:"session"`
}

func ownerOf(msg rota.Message) owner { return owner{msg.Token, msg.Session} }

// follows tells whether an owner may write after the last one.
func (o owner) follows(last owner) bool {
	return o.Token > last.Token || o.Token == last.Token && (o.Session == last.Session || last.Session == "")
}

// digits is the token with leading zeros, for sinks that compare texts. Lua and many databases have
// no unsigned numbers of 64 bits.
func (o owner) digits() string { return fmt.Sprintf("%020d", uint64(o.Token)) }

func refused(msg rota.Message) error {
	return fmt.Errorf("%w: %s has been written to by a later owner than token %d of session %s", rota.ErrLost, msg.Partition, msg.Token, msg.Session)
}
