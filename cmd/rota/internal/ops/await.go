package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
)

// lookAgain is how often --wait looks.
const lookAgain = 100 * time.Millisecond

// await waits until the plan obeys the orders of this version, and what they are about
// has happened. It returns why not, when the time is over or the wait is interrupted.
func (r *orderRun) await(ctx context.Context, store rota.Store, ver uint64, args []string) error {
	timed, cancel := context.WithTimeout(ctx, r.time)
	defer cancel()
	missing := "the store has not been read since"
	for {
		if st, err := lookOnce(timed, store, r.target.Group); err != nil {
			if timed.Err() == nil {
				missing = fmt.Sprintf("the store does not answer: %v", err)
			}
		} else if missing = r.stillMissing(st, ver, args); missing == "" {
			return nil
		}
		select {
		case <-timed.Done():
			if ctx.Err() != nil {
				return cli.Coded(fmt.Errorf("interrupted: the order stands, and is not in effect yet: %s", missing), cli.ExitInterrupted)
			}
			return fmt.Errorf("not in effect after %v: %s; the order stands", r.time, missing)
		case <-time.After(lookAgain):
		}
	}
}

func lookOnce(ctx context.Context, store rota.Store, group string) (*rota.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, connect.StoreTime)
	defer cancel()
	st, err := rota.Inspect(ctx, store, group)
	return &st, err
}

// stillMissing says what the order waits for; "" for nothing.
func (r *orderRun) stillMissing(st *rota.Status, ver uint64, args []string) string {
	switch {
	case !anyLive(st):
		return "no member is live"
	case st.Orders.Ver < ver:
		return "the orders in the store are older: somebody has set it back"
	case st.Orders.Obeyed < ver && st.Hold:
		return "the leader has not planned: " + holdWords(st)
	case st.Orders.Obeyed < ver:
		return fmt.Sprintf("the leader, %s, has not planned by it", st.LeaderName)
	case r.missing == nil:
		return ""
	}
	return r.missing(st, args)
}

// each asks the same of every partition that an order names.
func each(st *rota.Status, names []string, ask func(p *rota.PartitionInfo) string) string {
	var out []string
	for _, name := range names {
		i := slices.IndexFunc(st.Partitions, named(name))
		if i < 0 {
			out = append(out, name+" is not among the partitions")
			continue
		}
		if says := ask(&st.Partitions[i]); says != "" {
			out = append(out, name+" "+says)
		}
	}
	if n := len(out); n > 3 {
		out = append(out[:3], fmt.Sprintf("and %d more", n-3))
	}
	return strings.Join(out, ", ")
}

// waiting says what a partition waits for.
func waiting(st *rota.Status, p *rota.PartitionInfo) string {
	if w, ok := waitOf(st, p.Name); ok {
		return fmt.Sprintf("waits for %s (%s)", WaitWords[w.For], st.NameOf(w.Member))
	}
	return "is " + PartitionStates(st)(p)
}

func untilPaused(st *rota.Status, args []string) string {
	return each(st, args, func(p *rota.PartitionInfo) string {
		if p.State == rota.PartitionFree && p.Reason == rota.ReasonPaused {
			return ""
		}
		return waiting(st, p)
	})
}

func untilRemoved(st *rota.Status, args []string) string {
	return each(st, args, func(p *rota.PartitionInfo) string {
		if p.State == rota.PartitionFree && p.Reason == rota.ReasonRemoved {
			return ""
		}
		return waiting(st, p)
	})
}

func untilRuns(st *rota.Status, args []string) string {
	stateOf := PartitionStates(st)
	return each(st, args, func(p *rota.PartitionInfo) string {
		if Runs(stateOf(p)) {
			return ""
		}
		return waiting(st, p)
	})
}

func untilPinned(st *rota.Status, args []string) string {
	return each(st, args[:1], func(p *rota.PartitionInfo) string {
		switch {
		case p.Member == args[1] && Runs(PartitionStates(st)(p)):
			return ""
		case !slices.Contains(memberNames(st), args[1]):
			return "stays where it is, since no member called " + args[1] + " is live"
		case slices.Contains(st.Orders.Drains, args[1]):
			return "stays where it is, since " + args[1] + " is drained"
		}
		return waiting(st, p)
	})
}

// untilElsewhere waits until no member that is banned has the partition.
func untilElsewhere(st *rota.Status, args []string) string {
	return each(st, args[:1], func(p *rota.PartitionInfo) string {
		if !slices.Contains(args[1:], p.Member) {
			return ""
		}
		return waiting(st, p)
	})
}

// untilEmpty waits until members own nothing.
func untilEmpty(st *rota.Status, args []string) string {
	var names []string
	for _, p := range st.Partitions {
		if slices.Contains(args, p.Member) {
			names = append(names, p.Name)
		}
	}
	return each(st, names, func(p *rota.PartitionInfo) string { return waiting(st, p) })
}

// nobodyLeft warns that no member may own anything.
func nobodyLeft(st *rota.Status, args []string) string {
	for _, name := range memberNames(st) {
		if !slices.Contains(args, name) && !slices.Contains(st.Orders.Drains, name) {
			return ""
		}
	}
	return "; every live member is drained now, so nobody runs anything"
}

func pinToDrained(st *rota.Status, args []string) string {
	if slices.Contains(st.Orders.Drains, args[1]) {
		return "; but " + args[1] + " is drained, so the pin is ignored until rota undrain"
	}
	return ""
}
