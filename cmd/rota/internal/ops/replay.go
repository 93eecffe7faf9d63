package ops

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// mostAtOnce is how many letters of a partition one order names.
const mostAtOnce = 30

func deadReplayCmd() *cobra.Command {
	var b letterBox
	r := replay{limit: time.Minute}
	wait, all := true, false
	cmd := &cobra.Command{
		Use:   "replay [ID]...",
		Short: "Let the owners of their partitions handle dead letters again",
		Long: `Replay orders that the owner of a letter's partition hands its message to the handler
again, between two others and under its token. A letter goes when its message was
handled. One that fails again stays, with the new reason and under a new ID.

It waits until each letter was handled or has failed again, says which, and takes its
order back. With --wait=false the order stands: whoever owns the partition next carries
it out, once.

Exit codes: 0 all were handled (or ordered, with --wait=false), 1 some were not.`,
		Example: "  rota dead replay 17 18\n  rota dead replay --partition orders.3\n  rota dead replay --all --limit 10m",
		RunE: func(cmd *cobra.Command, args []string) error {
			if named := len(args) > 0; named && (all || b.partition != "") || !named && !all && b.partition == "" {
				return cli.Usagef("say which letters: IDs, or --partition, or --all")
			}
			from, close, err := b.open()
			if err != nil {
				return err
			}
			defer close()
			st, store, err := inspect(cmd.Context(), &b.Target)
			if err != nil {
				return err
			}
			defer store.Close()
			letters, err := b.read(cmd.Context(), from)
			if len(args) > 0 && err == nil {
				letters, err = b.find(cmd.Context(), from, args)
			}
			if err != nil {
				return err
			}
			if err := knownPartitions(st, partitionsOf(letters)); err != nil {
				return err
			}
			r.from, r.store, r.group, r.out = from, store, b.Group, cmd.OutOrStdout()
			if !wait {
				return r.order(cmd.Context(), letters)
			}
			return r.carryOut(cmd.Context(), letters)
		},
	}
	b.flags(cmd, "all letters of one partition")
	cmd.Flags().MarkHidden("output") // it reports as it goes
	cmd.Flags().BoolVar(&all, "all", false, "all letters of the group")
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until they are handled or have failed again")
	cmd.Flags().Var(cli.Span(&r.limit), "limit", "how long to wait for some news of any letter")
	cmd.ValidArgsFunction = b.complete
	return cmd
}

func partitionsOf(letters []rota.Letter) (out []string) {
	for _, l := range letters {
		if !slices.Contains(out, l.Message.Partition) {
			out = append(out, l.Message.Partition)
		}
	}
	return out
}

// A replay is under way.
type replay struct {
	from  rota.DeadLetters
	store rota.Store
	group string
	out   io.Writer
	limit time.Duration
}

// order gives the orders and does not wait.
func (r *replay) order(ctx context.Context, letters []rota.Letter) error {
	for _, p := range partitionsOf(letters) {
		ids := idsOf(letters, p)
		if len(ids) > mostAtOnce {
			return cli.Usagef("%s has %d letters, and one order names %d at most: leave out --wait=false, or name some", plain.Text(p), len(ids), mostAtOnce)
		}
		if err := r.give(ctx, p, ids); err != nil {
			return err
		}
		fmt.Fprintf(r.out, "%s: ordered, %s\n", plain.Text(p), cli.Count(len(ids), "letter"))
	}
	return nil
}

func (r *replay) give(ctx context.Context, partition string, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, connect.StoreTime)
	defer cancel()
	return rota.Replay(ctx, r.store, r.group, partition, ids...)
}

func idsOf(letters []rota.Letter, partition string) (ids []string) {
	for _, l := range letters {
		if l.Message.Partition == partition {
			ids = append(ids, l.ID)
		}
	}
	return ids
}

// carryOut replays the letters, some of each partition at a time, and waits for them.
func (r *replay) carryOut(ctx context.Context, letters []rota.Letter) error {
	bad, left := 0, slices.Clone(letters)
	for len(left) > 0 {
		var now, later []rota.Letter
		count := map[string]int{}
		for _, l := range left {
			if p := l.Message.Partition; count[p] < mostAtOnce {
				count[p]++
				now = append(now, l)
			} else {
				later = append(later, l)
			}
		}
		n, err := r.round(ctx, now)
		if err != nil {
			return err
		}
		bad, left = bad+n, later
	}
	if bad > 0 {
		return cli.Coded(fmt.Errorf("%s of %d failed again", cli.Count(bad, "letter"), len(letters)), cli.ExitFailed)
	}
	return nil
}

// round replays letters that fit into one order per partition. The orders are taken back
// at the end, also of a round that was interrupted.
func (r *replay) round(ctx context.Context, letters []rota.Letter) (bad int, err error) {
	open := map[string]rota.Letter{}
	for _, l := range letters {
		open[l.ID] = l
	}
	for _, p := range partitionsOf(letters) {
		defer func() {
			if gone := r.give(context.WithoutCancel(ctx), p, nil); gone != nil && err == nil {
				err = fmt.Errorf("the order about %s was not taken back: %w", plain.Text(p), gone)
			}
		}()
		if err := r.give(ctx, p, idsOf(letters, p)); err != nil {
			return bad, cli.Bare(err)
		}
	}
	news := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		was := len(open)
		for _, p := range partitionsOf(letters) {
			n, err := r.look(ctx, p, open)
			if err != nil {
				return bad, cli.Bare(err)
			}
			bad += n
		}
		if len(open) == 0 {
			return bad, nil
		}
		if len(open) < was {
			news = time.Now()
		}
		if time.Since(news) > r.limit {
			l := open[cli.SortedKeys(open)[0]]
			return bad, fmt.Errorf("%s not handled after %v without news, such as %s of %s; rota explain %s may say why", cli.Count(len(open), "letter"), r.limit,
				plain.Text(l.ID), plain.Text(l.Message.Partition), plain.Text(l.Message.Partition))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return bad, ctx.Err()
		}
	}
}

// look finds out which of the open letters of a partition are handled or have failed
// again, and says so.
func (r *replay) look(ctx context.Context, partition string, open map[string]rota.Letter) (bad int, err error) {
	there, again := map[string]bool{}, map[string]rota.Letter{}
	for l, err := range r.from.Letters(ctx, partition) {
		if err != nil {
			return 0, err
		}
		there[l.ID] = true
		if l.Former != "" {
			again[l.Former] = l
		}
	}
	for _, id := range cli.SortedKeys(open) {
		l := open[id]
		if l.Message.Partition != partition || there[id] {
			continue
		}
		delete(open, id)
		if anew, failed := again[id]; failed {
			bad++
			fmt.Fprintf(r.out, "%s: failed again, and is letter %s now: %s\n", plain.Text(id), plain.Text(anew.ID), plain.Text(anew.Reason))
		} else {
			fmt.Fprintf(r.out, "%s: handled, message %s of %s\n", plain.Text(id), plain.Text(l.Message.ID), plain.Text(partition))
		}
	}
	return bad, nil
}
