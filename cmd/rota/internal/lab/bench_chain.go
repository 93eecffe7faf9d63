package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/lab/failover"
	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/line"
)

// A chain is one run: what is done to a fleet, one thing after the other.
type chain struct {
	*fleet
	phase   int
	stderr  io.Writer
	samples []failover.Sample
}

func (c *chain) play(ctx context.Context) ([]failover.Sample, error) {
	if err := c.quiet(ctx, 0); err != nil {
		return nil, err
	}
	for _, event := range failover.Events {
		e := failover.Episode{Event: event, From: int64(clock.Boot()), Lease: c.f.lease, Wait: c.f.wait()}
		if err := c.cause(ctx, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", event, err)
		}
		if err := c.standBack(ctx); err != nil {
			return nil, err
		}
		if err := c.quiet(ctx, e.From); err != nil {
			return nil, fmt.Errorf("%s: %w", event, err)
		}
		e.To = int64(clock.Boot())
		s, err := c.hist.Measure(e)
		if err != nil {
			return nil, err
		}
		s.Phase = c.phase
		c.samples = append(c.samples, s)
		fmt.Fprintln(c.stderr, "  "+sayFailover(s))
		if event == c.f.only {
			break
		}
	}
	return c.samples, nil
}

// standBack lets those who are measured have the machine to themselves: to read
// their lines and to feed them costs a good part of a core. What waits in the
// partitions lasts for several times as long.
func (c *chain) standBack(ctx context.Context) error {
	select {
	case <-time.After(500 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func sayFailover(s failover.Sample) string {
	out := fmt.Sprintf("%-27s %6.3f s", s.Event, s.Seconds)
	if s.Floor != 0 {
		out += fmt.Sprintf(", %+.3f s over the floor of %.3f s", s.Seconds-s.Floor, s.Floor)
	}
	return out + fmt.Sprintf(", %s moved, %s", cli.Count(s.Moved, "partition"), cli.Count(s.Plans, "plan"))
}

// quiet waits until everything is shared evenly and consumed, and nothing has
// changed for half a lease: a second plan would have come by then.
func (c *chain) quiet(ctx context.Context, after int64) error {
	return c.until(ctx, "a quiet group of "+strings.Join(c.live(), ", "), func() bool {
		calm := int64(clock.Boot()) - max(c.hist.Changed(), after)
		return calm > int64(c.f.lease)/2 && c.hist.Shared(c.f.partitions, c.live(), after)
	})
}

// phased waits for the run's phase of a member's heartbeat: groups that hear of a
// change with their next heartbeat would otherwise always be met at the same one.
// Nothing has changed for a lease then, the time that gaps are held against.
func (c *chain) phased(ctx context.Context, member string) error {
	due := int64(0)
	err := c.until(ctx, "a heartbeat of "+member, func() bool {
		l, ok := c.hist.Last("lease", member)
		due = l.Lease - int64(c.f.lease) + int64(c.f.heartbeat)*int64(c.phase)/10
		// A heartbeat is heard of after it was sent, so at once is a little later.
		return ok && due > int64(clock.Boot()-c.f.heartbeat/20) && due > c.hist.Changed()+int64(c.f.lease)
	})
	if err != nil {
		return err
	}
	if err := c.until(ctx, "the instant", func() bool { return due-int64(clock.Boot()) < int64(2*pollEvery) }); err != nil {
		return err
	}
	time.Sleep(time.Duration(due - int64(clock.Boot())))
	return nil
}

// cause does something to the group.
func (c *chain) cause(ctx context.Context, e *failover.Episode) (err error) {
	switch e.Event {
	case "2nd joins":
		e.Joined, err = c.join(ctx, 1, e)
	case "5 join":
		e.Joined, err = c.join(ctx, 5, e)
	case "leave":
		e.Left = []string{c.follower()}
		if err = c.phased(ctx, c.leader()); err != nil {
			return err
		}
		e.From = int64(clock.Boot())
		if err = c.signal(line.Term, syscall.SIGTERM, e.Left...); err == nil {
			err = c.until(ctx, "the end of "+e.Left[0], func() bool { return c.member(e.Left[0]).told })
		}
	case "kill":
		err = c.kill(ctx, e, c.follower())
	case "leader and follower killed":
		err = c.kill(ctx, e, c.leader(), c.follower())
	case "leader killed":
		err = c.kill(ctx, e, c.leader())
	}
	return err
}

// join opens a gate when all who shall join wait at it.
func (c *chain) join(ctx context.Context, n int, e *failover.Episode) ([]string, error) {
	gate := filepath.Join(c.dir, fmt.Sprintf("gate-%d", c.next))
	names, err := c.start(n, gate)
	if err != nil {
		return nil, err
	}
	err = c.until(ctx, "the start of "+strings.Join(names, ", "), func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			_, err := os.Stat(filepath.Join(c.dir, name+".jsonl"))
			return err != nil
		})
	})
	if err != nil {
		return nil, err
	}
	if err := c.phased(ctx, c.leader()); err != nil {
		return nil, err
	}
	e.From = int64(clock.Boot())
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		return nil, err
	}
	return names, c.until(ctx, "the joining of "+strings.Join(names, ", "), func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			_, joined := c.hist.Last("joined", name)
			return !joined
		})
	})
}

// leader is who leads; where nobody does, who is there longest.
func (c *chain) leader() string {
	live := c.live()
	if l := c.hist.Leader(); slices.Contains(live, l) {
		return l
	}
	return live[0]
}

// follower is the youngest that does not lead.
func (c *chain) follower() string {
	live := c.live()
	for _, name := range slices.Backward(live) {
		if name != c.leader() {
			return name
		}
	}
	return live[0]
}

// kill kills at the run's phase of the first victim's heartbeat.
func (c *chain) kill(ctx context.Context, e *failover.Episode, victims ...string) error {
	if err := c.phased(ctx, victims[0]); err != nil {
		return err
	}
	e.From, e.Killed = int64(clock.Boot()), victims
	if err := c.signal(line.Kill, syscall.SIGKILL, victims...); err != nil {
		return err
	}
	return c.until(ctx, "the end of "+strings.Join(victims, " and "), func() bool {
		return !slices.ContainsFunc(victims, func(name string) bool { return !c.member(name).told })
	})
}
