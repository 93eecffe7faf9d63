package ops

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/rota-dev/rota/internal/record"
	"github.com/spf13/cobra"
)

// An assent is how a command that mends something gets leave to: it shows what it
// will do, and does it with --yes or the word of whoever sits at the terminal.
type assent struct {
	yes         bool
	output, why string
}

func (a *assent) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.yes, "yes", false, "do it without asking")
	cmd.Flags().StringVar(&a.why, "why", "", "why, for the log of orders")
	outputFlag(cmd, &a.output)
}

// A step is one thing to be done to one record.
type step struct {
	Key     string `json:"key"`
	Rev     uint64 `json:"rev"`
	Stands  string `json:"stands"`  // what is there now
	Does    string `json:"does"`    // what will be done
	Follows string `json:"follows"` // what comes of it

	do    func(ctx context.Context) error
	alone bool // no other step rests on it
}

// A draft is what a command is about to do.
type draft struct {
	what  string // as the log of orders has it
	notes []string
	wait  time.Duration // before the first step
	from  time.Time     // the wait counts from then
	steps []step
	done  int // steps that were done
}

// errChanged: what was shown is not what stands there any more.
var errChanged = errors.New("it has changed since it was shown: nothing was done to it; look again")

// carryOut shows a draft, asks, does it and writes it into the log of orders.
func (a *assent) carryOut(cmd *cobra.Command, store rota.Store, group string, d *draft) error {
	w := cmd.OutOrStdout()
	if a.output == "table" {
		showDraft(w, d)
	}
	if len(d.steps) == 0 { // the notes say what is left to others
		if a.output == "json" {
			if err := printDraft(w, d, false); err != nil {
				return err
			}
		}
		return cli.Quietly(cli.ExitUndone)
	}
	yes := a.yes
	if !yes && a.output == "table" && cli.Columns(cmd.InOrStdin()) > 0 {
		var err error
		if yes, err = ask(cmd.InOrStdin(), w); err != nil {
			return err
		}
	}
	if !yes {
		if a.output == "json" {
			if err := printDraft(w, d, false); err != nil {
				return err
			}
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "rota: nothing was done; --yes does it")
		return cli.Quietly(cli.ExitUndone)
	}
	failed := d.carryOut(cmd.Context(), func(text string) {
		if a.output == "table" {
			fmt.Fprintln(w, text)
		}
	})
	if d.done == 0 {
		return failed
	}
	if err := note(cmd.Context(), store, group, record.Order{At: time.Now().UnixMilli(), Who: operator(), What: d.what, Why: a.why}); err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "rota: warning: something was done, but the log of orders does not tell it: %s\n", plain.Lines(err.Error()))
	}
	if a.output == "json" && failed == nil {
		return printDraft(w, d, true)
	}
	return failed
}

func showDraft(w io.Writer, d *draft) {
	for i, s := range plain.Copy(d.steps) {
		where := ""
		if s.Rev != 0 {
			where = fmt.Sprintf(" (revision %d)", s.Rev)
		}
		fmt.Fprintf(w, "%d. %s%s\n   stands   %s\n   to do    %s\n   follows  %s\n", i+1, s.Key, where, s.Stands, s.Does, s.Follows)
	}
	for _, n := range d.notes {
		fmt.Fprintf(w, "\n%s\n", plain.Text(n))
	}
	fmt.Fprintln(w)
}

// A shownDraft is what repair, reset and declare-dead print as JSON.
type shownDraft struct {
	Done  bool     `json:"done"`   // false: it was only shown
	Wait  float64  `json:"wait_s"` // before the first step, in seconds
	Steps []step   `json:"steps"`
	Notes []string `json:"notes"` // for people
}

func printDraft(w io.Writer, d *draft, done bool) error {
	return printJSON(w, shownDraft{done, d.wait.Seconds(), append([]step{}, d.steps...), append([]string{}, d.notes...)})
}

// ask wants the whole word: what follows cannot be taken back.
func ask(in io.Reader, out io.Writer) (bool, error) {
	fmt.Fprint(out, "Do this? Type yes: ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, err
	}
	return strings.EqualFold(strings.TrimSpace(line), "yes"), nil
}

func (d *draft) carryOut(ctx context.Context, say func(string)) error {
	if left := time.Until(d.from.Add(d.wait)); d.wait > 0 && left > 0 {
		say(fmt.Sprintf("waiting %s", cli.Roughly(left.Round(time.Second))))
		select {
		case <-ctx.Done():
			return errors.New("ended before anything was done")
		case <-time.After(left):
		}
	}
	var undone []string
	for i := range d.steps {
		s := &d.steps[i]
		err := s.carryOut(ctx)
		switch {
		case err == nil:
			d.done++
			say("done: " + plain.Text(s.Key))
			continue
		case s.alone && ctx.Err() == nil: // somebody who writes one of them all the time keeps nobody from the others
			say(fmt.Sprintf("not done: %s: %s", plain.Text(s.Key), plain.Text(err.Error())))
			undone = append(undone, s.Key)
			continue
		}
		rest := ""
		if n := len(d.steps) - i - 1; n > 0 {
			rest = fmt.Sprintf("; nor was anything done about the other %d", n)
		}
		return fmt.Errorf("%s: %w%s", s.Key, err, rest)
	}
	if len(undone) > 0 {
		return fmt.Errorf("%s: %w", some(undone), errChanged)
	}
	return nil
}

func (s *step) carryOut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connect.StoreTime)
	defer cancel()
	err := s.do(ctx)
	if errors.Is(err, rota.ErrConflict) {
		return errChanged
	}
	return err
}

// mostNotes is how many entries the log of orders keeps, as rota.Give does.
const mostNotes = 100

// note writes into the log of orders what an operator did that is no order. It was
// done, so the log shall tell it also when somebody ends the command now.
func note(ctx context.Context, store rota.Store, group string, log record.Order) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connect.StoreTime)
	defer cancel()
	key := group + "/orders"
	for {
		e, err := store.Get(ctx, key)
		o := &record.Orders{}
		switch {
		case errors.Is(err, rota.ErrNotFound):
		case err != nil:
			return err
		default:
			if o, err = record.DecodeOrders(e.Value); err != nil {
				return fmt.Errorf("the orders in the store: %w: %w; rota group repair mends it", rota.ErrUnreadable, err)
			}
		}
		o.Ver++
		o.Log = append(o.Log, log)
		o.Log = o.Log[max(0, len(o.Log)-mostNotes):]
		b, err := record.Encode(o)
		if err != nil {
			return err
		}
		if _, err = store.Put(ctx, key, b, e.Rev); !errors.Is(err, rota.ErrConflict) {
			return err
		}
	}
}
