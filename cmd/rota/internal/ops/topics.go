package ops

import (
	"fmt"
	"io"
	"slices"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// A topicInfo is one topic of a group.
type topicInfo struct {
	Name       string    `json:"name"`
	Partitions int       `json:"partitions"`
	Meta       rota.Meta `json:"meta"` // ordered for it
}

// topicsOf lists the topics that partitions belong to or that have metadata by order.
func topicsOf(st *rota.Status) []topicInfo {
	count := map[string]int{}
	for name := range st.Orders.Topics {
		count[name] = 0
	}
	for _, p := range st.Partitions {
		if p.Topic != "" && p.Reason != rota.ReasonRemoved {
			count[p.Topic]++
		}
	}
	out := []topicInfo{}
	for name, n := range count {
		meta := st.Orders.Topics[name]
		if meta == nil {
			meta = rota.Meta{}
		}
		out = append(out, topicInfo{name, n, meta})
	}
	slices.SortFunc(out, func(a, b topicInfo) int { return cli.Natural(a.Name, b.Name) })
	return out
}

func topicNames(st *rota.Status) (out []string) {
	for _, t := range topicsOf(st) {
		out = append(out, t.Name)
	}
	return out
}

func knownTopic(st *rota.Status, args []string) error {
	return cli.Known("topic", topicNames(st), args...)
}

func TopicsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "List topics and set metadata of all their partitions",
		Long: `A source may say which topic a partition belongs to: the stream, on JetStream. What is
set for a topic reaches the owners of all its partitions, those to come included.`,
		Example: `  rota topics list
  rota topics set ORDERS region=eu limit=`,
	}
	cmd.AddCommand(
		topicsListCmd(),
		orderCmd(order{use: "set TOPIC KEY=VALUE...", verb: "set-topic", short: "Set metadata of all partitions of a topic; KEY= takes a key away", args: cobra.MinimumNArgs(2), complete: topicNames,
			long:    "Set changes the metadata of all partitions of a topic. Their owners see it at once,\nwithout a restart; it wins over what the source says, and what is set for a partition\nwins over it. All together have 4096 bytes at most.",
			example: "  rota topics set ORDERS region=eu limit=",
			check:   settable(knownTopic), done: saidOf("%s: set %s")}),
	)
	return cmd
}

func topicsListCmd() *cobra.Command {
	var t connect.Target
	var v view
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the topics with their partitions' number and the metadata ordered for them",
		Example: "  rota topics list\n  rota topics list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.show(cmd, &t, printTopics, func(st *rota.Status) (any, error) { return topicsOf(st), nil })
		},
	}
	t.Flags(cmd)
	v.flags(cmd, true)
	return cmd
}

func printTopics(w io.Writer, st *rota.Status) error {
	tw := cli.Table(w)
	fmt.Fprintln(tw, "TOPIC\tPARTITIONS\tMETA")
	for _, t := range topicsOf(plain.Copy(st)) {
		fmt.Fprintf(tw, "%s\t%d\t%s\n", t.Name, t.Partitions, labels(t.Meta))
	}
	return tw.Flush()
}
