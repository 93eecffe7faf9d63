package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
)

// DeadCmd lists, shows, replays and drops dead letters.
func DeadCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List, show, replay and drop dead letters",
		Long: `A message whose handler said that it is bad, or that failed --attempts times, becomes
a dead letter: the source stores it with its headers and the reason, and the messages
behind it go on.`,
		Example: `  rota dead list
  rota dead show 17
  rota dead replay 17 18
  rota dead replay --partition orders.3
  rota dead drop 17`,
	}
	cmd.AddCommand(deadListCmd(), deadShowCmd(), deadReplayCmd(), deadDropCmd())
	return cmd
}

// A letterBox is where a command finds dead letters.
type letterBox struct {
	connect.Target
	source, partition string
	output            string
}

func (b *letterBox) flags(cmd *cobra.Command, partition string) {
	b.Target.Flags(cmd)
	b.output = "table"
	fl := cmd.Flags()
	fl.StringVar(&b.source, "source", "", "whose dead letters: "+connect.SourceExamples()+" (default: that of the rota up of this folder)")
	fl.VarP(cli.OneWord(&b.output, "table", "json"), "output", "o", "how to print it")
	if partition != "" {
		fl.StringVar(&b.partition, "partition", "", partition)
	}
}

// open finds the source's dead letters. close ends the connection.
func (b *letterBox) open() (letters rota.DeadLetters, close func(), err error) {
	if b.source == "" {
		if b.source, err = b.Fill(); err != nil {
			return nil, nil, err
		}
	}
	if b.source == "" {
		return nil, nil, cli.Usagef("--source is missing: say whose dead letters, such as %s", connect.SourceExamples())
	}
	src, err := connect.OpenSource(b.source)
	if err != nil {
		return nil, nil, err
	}
	letters, ok := src.Source.(rota.DeadLetters)
	if !ok {
		return nil, nil, cli.Usagef("--source %s keeps no dead letters that can be read", cli.Redact(b.source))
	}
	return letters, func() {
		if c, ok := src.Source.(io.Closer); ok {
			c.Close()
		}
	}, nil
}

// read reads the letters of the partition and the group that were named, or all.
func (b *letterBox) read(ctx context.Context, from rota.DeadLetters) (out []rota.Letter, err error) {
	for l, err := range from.Letters(ctx, b.partition) {
		if err != nil {
			return nil, cli.Coded(fmt.Errorf("the dead letters of %s cannot be read: %w", cli.Redact(b.source), cli.Bare(err)), cli.ExitUnreachable)
		}
		if b.Group == "" || l.Group == "" || l.Group == b.Group {
			out = append(out, l)
		}
	}
	return out, nil
}

// find reads the letters with these IDs, in this order.
func (b *letterBox) find(ctx context.Context, from rota.DeadLetters, ids []string) (out []rota.Letter, err error) {
	all, err := b.read(ctx, from)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		i := slices.IndexFunc(all, func(l rota.Letter) bool { return l.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("there is no dead letter %q: rota dead list shows what there is", plain.Text(id))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// with does something with the letters that have these IDs.
func (b *letterBox) with(ctx context.Context, ids []string, do func(from rota.DeadLetters, found []rota.Letter) error) error {
	from, close, err := b.open()
	if err != nil {
		return err
	}
	defer close()
	found, err := b.find(ctx, from, ids)
	if err != nil {
		return err
	}
	return do(from, found)
}

func (b *letterBox) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmp.Or(cmd.Context(), context.Background()), time.Second)
	defer cancel()
	of := *b
	of.Dir = cmp.Or(of.Dir, connect.DefaultDir)
	var out []string
	if from, close, err := of.open(); err == nil {
		defer close()
		all, _ := of.read(ctx, from)
		for _, l := range all {
			if strings.HasPrefix(l.ID, typed) && l.ID == plain.Text(l.ID) && !slices.Contains(args, l.ID) {
				out = append(out, l.ID)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// A letterShape is a dead letter as -o json shows it.
type letterShape struct {
	ID        string        `json:"id"`
	Partition string        `json:"partition"`
	Group     string        `json:"group"`
	Reason    string        `json:"reason"`
	Attempts  int           `json:"attempts"`
	Time      time.Time     `json:"time"`              // when it became a dead letter
	Message   string        `json:"message"`           // ID of the message
	Position  uint64        `json:"position,string"`   // of the message in its partition
	Sent      time.Time     `json:"sent,omitzero"`     // when it was published
	Former    string        `json:"former,omitempty"`  // ID of the letter that it replaces
	Headers   []headerShape `json:"headers,omitempty"` // of the message
	Bytes     int           `json:"bytes"`
	Value     []byte        `json:"value,omitempty"` // of show only, in base64
}

type headerShape struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func shapeOf(l *rota.Letter, whole bool) letterShape {
	m := &l.Message
	s := letterShape{ID: l.ID, Partition: m.Partition, Group: l.Group, Reason: l.Reason, Attempts: m.Attempt, Time: l.Time, Message: m.ID,
		Position: m.Position, Sent: m.Time, Former: l.Former, Bytes: len(m.Value)}
	for _, h := range m.Headers {
		s.Headers = append(s.Headers, headerShape{h.Key, string(h.Value)})
	}
	slices.SortFunc(s.Headers, func(a, b headerShape) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
	})
	if whole {
		s.Value = m.Value
	}
	return s
}

func deadListCmd() *cobra.Command {
	var b letterBox
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List dead letters, oldest first",
		Example: "  rota dead list\n  rota dead list --partition orders.3 -o json\n  rota dead list --source 'nats://localhost:4222?stream=ORDERS&subject=orders.*'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, close, err := b.open()
			if err != nil {
				return err
			}
			defer close()
			all, err := b.read(cmd.Context(), from)
			if err != nil {
				return err
			}
			return printLetters(cmd.OutOrStdout(), all, b.output, time.Now())
		},
	}
	b.flags(cmd, "those of one partition only")
	return cmd
}

func printLetters(w io.Writer, all []rota.Letter, output string, now time.Time) error {
	if output == "json" {
		out := []letterShape{}
		for i := range all {
			out = append(out, shapeOf(&all[i], false))
		}
		return printJSON(w, out)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there are no dead letters")
		return err
	}
	tw := cli.Table(w)
	fmt.Fprintln(tw, "ID\tPARTITION\tDEAD\tATTEMPTS\tBYTES\tGROUP\tREASON")
	for _, l := range all {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", plain.Text(l.ID), plain.Text(l.Message.Partition), cli.Ago(now.Sub(l.Time)), l.Message.Attempt,
			len(l.Message.Value), plain.Text(l.Group), plain.Text(l.Reason))
	}
	return tw.Flush()
}

func deadShowCmd() *cobra.Command {
	var b letterBox
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter: why it is one, its headers and its value",
		Long: `Show prints what is known about a dead letter to standard error, and the value of its
message to standard output: byte by byte to a file or a pipe, and harmless on a
terminal. -o json has both; the value is in base64.`,
		Example: "  rota dead show 17\n  rota dead show 17 >message\n  rota dead show 17 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.with(cmd.Context(), args, func(_ rota.DeadLetters, found []rota.Letter) error {
				return showLetter(cmd.OutOrStdout(), cmd.ErrOrStderr(), &found[0], b.output)
			})
		},
	}
	b.flags(cmd, "")
	cmd.ValidArgsFunction = b.complete
	return cmd
}

func showLetter(stdout, stderr io.Writer, l *rota.Letter, output string) error {
	s := shapeOf(l, true)
	if output == "json" {
		return printJSON(stdout, s)
	}
	value := s.Value
	s = plain.Copy(s)
	fmt.Fprintf(stderr, "letter %s: message %s of %s, group %s\n", s.ID, s.Message, s.Partition, cmp.Or(s.Group, "not known"))
	fmt.Fprintf(stderr, "dead since %s after %s: %s\n", s.Time.Format(time.DateTime), cli.Count(s.Attempts, "attempt"), s.Reason)
	if s.Former != "" {
		fmt.Fprintf(stderr, "it was replayed as letter %s and failed again\n", s.Former)
	}
	for _, h := range s.Headers {
		fmt.Fprintf(stderr, "%s: %s\n", h.Key, h.Value)
	}
	fmt.Fprintf(stderr, "%s:\n", cli.Count(len(value), "byte"))
	if cli.Columns(stdout) > 0 {
		_, err := fmt.Fprintln(stdout, plain.Lines(string(value)))
		return err
	}
	_, err := stdout.Write(value)
	return err
}

func deadDropCmd() *cobra.Command {
	var b letterBox
	cmd := &cobra.Command{
		Use:     "drop ID...",
		Short:   "Remove dead letters for good",
		Example: "  rota dead drop 17",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.with(cmd.Context(), args, func(from rota.DeadLetters, found []rota.Letter) error {
				for _, l := range found {
					if err := from.DropLetter(cmd.Context(), l.ID); err != nil && !errors.Is(err, rota.ErrNotFound) {
						return fmt.Errorf("letter %s was not dropped: %w", l.ID, cli.Bare(err))
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s: dropped, message %s of %s\n", plain.Text(l.ID), plain.Text(l.Message.ID), plain.Text(l.Message.Partition))
				}
				return nil
			})
		},
	}
	b.flags(cmd, "")
	cmd.ValidArgsFunction = b.complete
	return cmd
}
