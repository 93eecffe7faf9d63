package rotanats

import (
	"context"

	"github.com/rota-dev/rota"
)

// follow makes a partition that the group has never read begin after what the consumer that
// after= names has acknowledged. Notes keep that from then on, so the consumer may be removed
// when every partition has one.
func (s *source) follow(ctx context.Context, own rota.Ownership, c *claim, f *facts) error {
	name := s.set.After
	if !c.all {
		return foreignf("after=%s: stream %s is a work queue, which has no messages that were acknowledged: remove that consumer and leave after= out", name, s.set.Stream)
	}
	info, err := s.info(ctx, name)
	switch {
	case err != nil:
		return err
	case info == nil:
		return foreignf("after=%s: stream %s has no such consumer: without it, group %s would begin with the first message; leave after= out if it is to do so", name, s.set.Stream, c.reader.group)
	case !info.reads(own.Partition()):
		return foreignf("after=%s: that consumer does not read %s, so it cannot tell where to begin", name, own.Partition())
	case info.NumWaiting > 0 || info.PushBound:
		return foreignf("after=%s: that consumer is in use: stop its clients, and group %s goes on where they have stopped", name, c.reader.group)
	}
	c.Start, c.Stream = info.AckFloor.Stream+1, f.created
	s.set.Log.Info("begins after another consumer", "partition", own.Partition(), "token", own.Token(), "consumer", name, "settled", info.AckFloor.Stream)
	return nil
}
