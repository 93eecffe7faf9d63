package ops

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
	"github.com/spf13/cobra"
)

// A view is how a command shows what it read: once, or again and again.
type view struct {
	output string
	watch  bool
	all    bool
	every  time.Duration
	health bool // the exit code says whether the group is well

	// inspects says that every record is believed: it does not matter who is silent.
	inspects bool

	// frame is what fits on a terminal, of a command that has more to show.
	frame func(st *rota.Status, width, height int) []screen.Line
}

// verdict is the end of a command that has shown the group.
func (v *view) verdict(st *rota.Status) error {
	if v.health && len(st.Problems) > 0 {
		return cli.Quietly(cli.ExitUndone)
	}
	return nil
}

func (v *view) flags(cmd *cobra.Command, watch bool) {
	v.output, v.every = "table", time.Second
	cmd.Flags().VarP(cli.OneWord(&v.output, "table", "json"), "output", "o", "how to print it")
	if watch {
		cmd.Flags().BoolVar(&v.watch, "watch", false, "again and again, until Ctrl-C")
		cmd.Flags().Var(cli.Span(&v.every), "every", "how often, with --watch")
	}
}

// show prints what the group looks like, by table or as JSON.
func (v *view) show(cmd *cobra.Command, t *connect.Target, table func(io.Writer, *rota.Status) error, shape func(*rota.Status) (any, error)) error {
	ctx, w := cmd.Context(), cmd.OutOrStdout()
	store, err := t.Open()
	if err != nil {
		return err
	}
	defer store.Close()
	read := rota.Observe
	if v.inspects {
		read = rota.Inspect
	}
	st, err := inspectIn(ctx, t, store, read)
	if err != nil {
		return err
	}
	for {
		text, err := v.text(st, cli.Columns(w), cli.Rows(w), table, shape)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		if !v.watch {
			return v.verdict(st)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(v.every):
		}
		if st, err = inspectIn(ctx, t, store, read); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// text is what is printed of one look, on a terminal of this size; 0 is none.
func (v *view) text(st *rota.Status, width, height int, table func(io.Writer, *rota.Status) error, shape func(*rota.Status) (any, error)) (string, error) {
	var b strings.Builder
	if v.output == "json" {
		x, err := shape(st)
		if err != nil {
			return "", err
		}
		if v.watch { // a line each
			err = json.NewEncoder(&b).Encode(x)
		} else {
			err = printJSON(&b, x)
		}
		return b.String(), err
	}
	fits := width > 0 && !v.all
	if fits && v.frame != nil && !v.watch {
		for _, l := range v.frame(st, width, height-1) { // and the prompt
			b.WriteString(l.Coloured(cli.Colour()) + "\n")
		}
		return b.String(), nil
	}
	if fits && v.frame != nil {
		return screen.Redraw(v.frame(st, width, height-1), cli.Colour()), nil
	}
	if err := table(&b, st); err != nil {
		return "", err
	}
	if fits && v.watch {
		return screen.Redraw(clipped(b.String(), width, height-1), cli.Colour()), nil
	}
	if v.watch {
		b.WriteString("\n")
	}
	return b.String(), nil
}

// clipped is as much of a text as fits.
func clipped(text string, width, height int) []screen.Line {
	var lines []screen.Line
	for l := range strings.Lines(text) {
		for _, part := range screen.Wrap(strings.TrimRight(l, "\n"), width, 3) {
			lines = append(lines, screen.Line{Text: part})
		}
	}
	return screen.Fit(width, height, []screen.Section{{Lines: lines, More: func(n int) string {
		return fmt.Sprintf("… and %s more; without --watch all are shown", cli.Count(n, "line"))
	}}})
}

// printJSON writes one value, over several lines.
func printJSON(w io.Writer, x any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(x)
}
