package rotanats

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// serverLimit is how many consumers nats-server permits per stream if neither the stream
// nor the account has a limit. The embedded server has none.
const serverLimit = 1000

// A limit is how many consumers the stream may have, 0 for any number, and whose limit
// that is.
type limit struct {
	consumers int
	of        string
}

// tooFew says that partitions need more consumers than are permitted. A server does not
// show its own limit to clients, so that one is a guess.
func (l limit) tooFew(stream string, partitions int) string {
	if l.of == "server" {
		return fmt.Sprintf("neither stream %s nor its account has a limit of consumers, so that of the server counts, %d unless its operator has raised it, and each of %d partitions needs one; set max_consumers of the stream to %d or more",
			stream, l.consumers, partitions, 2*partitions)
	}
	whose := "stream " + stream
	if l.of == "account" {
		whose = "the account of stream " + stream
	}
	return fmt.Sprintf("%s permits %d consumers, and each of %d partitions needs one: %d of them will not be served; raise max_consumers of the %s, or use fewer partitions",
		whose, l.consumers, partitions, partitions-l.consumers, l.of)
}

// warnOfLimit warns before members fail at partitions for which there is no consumer.
func (s *source) warnOfLimit(ctx context.Context, f *facts, partitions int) {
	l := s.limit(ctx, f, partitions)
	if l.consumers == 0 || partitions <= l.consumers {
		return
	}
	if l.of == "server" {
		// More consumers than the guess says prove that it is wrong.
		if now, err := s.readFacts(ctx); err != nil || now.consumers > l.consumers {
			return
		}
	}
	s.warn(l.tooFew(s.set.Stream, partitions))
}

// limit returns the limit that counts: the lower one of stream and account, and that of
// the server if both have none.
func (s *source) limit(ctx context.Context, f *facts, partitions int) limit {
	account := s.accountLimit(ctx, f.replicas, partitions)
	switch {
	case f.limit > 0 && (account <= 0 || f.limit <= account):
		return limit{f.limit, "stream"}
	case account > 0:
		return limit{account, "account"}
	case s.limitless():
		return limit{}
	}
	return limit{serverLimit, "server"}
}

// accountLimit returns how many consumers the account permits per stream, 0 or less for
// any number. It asks once, and again while there are too few. Nothing depends on the
// answer but a warning, so without one there is none.
func (s *source) accountLimit(ctx context.Context, replicas, partitions int) int {
	s.mu.Lock()
	known := s.account
	s.mu.Unlock()
	if known != nil && (*known <= 0 || partitions <= *known) {
		return *known
	}
	var info struct {
		answer
		jetstream.AccountInfo
	}
	brief, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	err := s.ask(brief, "INFO", nil, &info)
	if err != nil && !refusedBy(err) {
		return 0
	}
	n := info.Limits.MaxConsumers
	if tier, ok := info.Tiers[fmt.Sprint("R", max(replicas, 1))]; ok {
		n = tier.Limits.MaxConsumers
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account = &n
	return n
}

// limitless tells whether the server is an embedded one.
func (s *source) limitless() bool {
	if s.set.Folder != "" {
		return true
	}
	nc, _, wait, err := s.link.look()
	return wait == nil && err == nil && nc.ConnectedServerName() == address.ServerName
}

// full explains why the server has refused to make one more consumer.
func (s *source) full(ctx context.Context, err error) error {
	f, ferr := s.readFacts(ctx)
	if ferr != nil {
		return err
	}
	l := s.limit(ctx, f, f.consumers+1)
	return fmt.Errorf("%w: stream %s has %d consumers, and the limit of the %s is %d: raise max_consumers of the %s", err, s.set.Stream, f.consumers, l.of, l.consumers, l.of)
}

// room is the limit of consumers for a stream that we create: enough for several groups
// where the limit of the server would be too low, otherwise none.
func room(partitions int) int {
	if 2*partitions <= serverLimit {
		return -1
	}
	return 10 * partitions
}
