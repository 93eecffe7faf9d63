package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// A groupInfo is one group of a store.
type groupInfo struct {
	Group      string     `json:"group"`
	Leader     string     `json:"leader_name"`
	Members    int        `json:"members"` // that have not ended
	Partitions int        `json:"partitions"`
	Plan       uint64     `json:"plan"`
	Phase      rota.Phase `json:"phase"`                // empty if it cannot be read
	Problems   int        `json:"problems"`             // rota status has them
	Unreadable string     `json:"unreadable,omitempty"` // why it cannot be read
}

func GroupsCmd() *cobra.Command {
	var t connect.Target
	var output string
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List the groups of a store",
		Long: `Groups lists the groups that have a plan in a store, with what each is doing. It
believes every record, so it does not find out who is silent: rota status does. A store
that cannot list its groups says so: a Redis Cluster, and any for a user whose rights
are those of one group.`,
		Example: `  rota groups
  rota groups -o json --store nats://localhost:4222`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := groupsOf(cmd.Context(), &t)
			if err != nil {
				return err
			}
			if output == "json" {
				return printJSON(cmd.OutOrStdout(), all)
			}
			return printGroups(cmd.OutOrStdout(), t.Store, all)
		},
	}
	t.StoreFlags(cmd)
	outputFlag(cmd, &output)
	return cmd
}

func groupsOf(ctx context.Context, t *connect.Target) ([]groupInfo, error) {
	store, err := t.OpenAll()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	reading, cancel := context.WithTimeout(ctx, connect.StoreTime)
	defer cancel()
	names, err := connect.Groups(reading, store)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, fmt.Errorf("the store %s does not list its groups: name one with rota status --group", cli.Redact(t.Store))
	case errors.Is(err, rota.ErrNotFound): // the bucket is made by the first member
	case err != nil:
		return nil, cli.Unreachable(t.Store, err)
	}
	slices.SortFunc(names, cli.Natural)
	out := []groupInfo{}
	for _, name := range names {
		st, err := lookOnce(ctx, store, name)
		switch {
		case errors.Is(err, rota.ErrNotFound):
		case errors.Is(err, rota.ErrUnreadable):
			out = append(out, groupInfo{Group: name, Unreadable: err.Error()})
		case err != nil:
			return nil, cli.Unreachable(t.Store, err)
		default:
			out = append(out, groupShape(st))
		}
	}
	return out, nil
}

func groupShape(st *rota.Status) groupInfo {
	live, _ := MemberOrder(st)
	partitions := 0
	for _, p := range st.Partitions {
		if p.Reason != rota.ReasonRemoved {
			partitions++
		}
	}
	return groupInfo{Group: st.Group, Leader: st.LeaderName, Members: len(live), Partitions: partitions, Plan: st.Plan, Phase: st.Phase, Problems: len(st.Problems)}
}

func printGroups(w io.Writer, store string, all []groupInfo) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(w, "there is no group %s yet: one begins with its first member\n", inStore(store))
		return err
	}
	tw := cli.Table(w)
	fmt.Fprintln(tw, "GROUP\tLEADER\tMEMBERS\tPARTITIONS\tPLAN\tSTATE")
	for _, g := range plain.Copy(all) {
		state := PhaseWords[g.Phase]
		switch {
		case g.Unreadable != "":
			state = "cannot be read: rota group check --group " + g.Group
		case g.Problems > 0:
			state += fmt.Sprintf(", %s: rota status --group %s", cli.Count(g.Problems, "problem"), g.Group)
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%s\n", g.Group, g.Leader, g.Members, g.Partitions, g.Plan, state)
	}
	return tw.Flush()
}
