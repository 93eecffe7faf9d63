package rotanats

import (
	"context"
	"time"

	"github.com/rota-dev/rota"
)

// An elsewhere is a list of partitions that the group, or the one it takes over from,
// reads under another durable, and of the consumers that it has under its own. It is used
// for a while: many partitions begin at the same time, and one list is enough for all.
type elsewhere struct {
	until time.Time
	found map[string]*consumerInfo // by partition
	left  map[string][]leftover    // by partition
}

// A leftover is a consumer of our durable.
type leftover struct {
	name, group string
	token       rota.Token
}

const (
	elsewhereTime  = 5 * time.Second // how long a list is used
	unlistedTime   = time.Minute     // after a failure
	elsewhereLimit = 2 * time.Second // timeout: a server does not answer a request without the right for it
)

// startsAnew returns an error if the group begins with the first message of a partition
// although it reads that partition under another durable: the URL has lost its durable= or
// takeover=, or has a wrong one. It also returns the consumers that the group has of the
// partition. If the consumers cannot be listed, for lack of a right, the group begins.
func (s *source) startsAnew(ctx context.Context, r *reader, partition string) ([]leftover, error) {
	select {
	case e := <-s.elsewhere:
		if time.Now().After(e.until) {
			e = s.readElsewhere(ctx, r)
		}
		s.elsewhere <- e
		c := e.found[partition]
		if c == nil {
			return e.left[partition], nil
		}
		group, durable := c.Config.Metadata[metaGroup], c.Config.Metadata[metaDurable]
		return nil, foreignf("group %s reads it under durable %s, and durable %s of group %s would begin with the first message: write durable=%[2]s into the URL, or remove the consumers %[2]s_…",
			group, durable, r.durable, r.group)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *source) readElsewhere(ctx context.Context, r *reader) elsewhere {
	ctx, cancel := context.WithTimeout(ctx, elsewhereLimit)
	defer cancel()
	e := elsewhere{found: map[string]*consumerInfo{}, left: map[string][]leftover{}}
	err := s.listConsumers(ctx, func(c *consumerInfo) {
		if token, ok := s.ofReader(r, c); ok {
			p := c.Config.FilterSubject
			e.left[p] = append(e.left[p], leftover{c.Name, c.Config.Metadata[metaGroup], token})
			return
		}
		durable, group := c.Config.Metadata[metaDurable], c.Config.Metadata[metaGroup]
		if durable == "" || durable == r.durable || group == "" || group != r.group && group != r.takeover {
			return
		}
		p := c.Config.FilterSubject
		_, short := s.noteKey(&reader{durable: durable}, p)
		if _, ok := consumerToken(c.Name, durable, short); ok {
			e.found[p] = c
		}
	})
	e.until = time.Now().Add(elsewhereTime)
	if err != nil {
		s.set.Log.Debug("cannot tell whether the group reads under another durable", "err", err)
		e.until = time.Now().Add(unlistedTime)
	}
	return e
}
