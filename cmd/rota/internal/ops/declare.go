package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/record"
	"github.com/spf13/cobra"
)

func DeclareDeadCmd() *cobra.Command {
	var t connect.Target
	var a assent
	var session string
	cmd := &cobra.Command{
		Use:   "declare-dead MEMBER",
		Short: "Say that a member's process is gone for good, so that nobody waits for its lease",
		Long: `Declare-dead writes into a member's record that its process is gone for good: its
host is switched off, or somebody saw it end. Its partitions get other owners at
once, instead of when its lease is over.

It is your word, and nobody can check it. IF THE PROCESS STILL RUNS, TWO MAY ACT ON A
PARTITION until its lease ends or its next heartbeat tells it; then only a sink that
checks tokens stays exclusive. So it is refused if the member beats while the command
looks, if its process runs on this machine, and if its record is not the one that was
shown any more.

It shows first what it will do and asks; with --yes it does not ask, and without a
terminal it only shows.

Exit codes: 0 it is done or the member had ended, 1 it lives, 8 it was only shown.`,
		Example: `  rota declare-dead c3 --why 'host burnt down'
  rota declare-dead c3 --session 00c0ffee00c0ffee --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, store, err := surveyAll(cmd.Context(), &t)
			if err != nil {
				return err
			}
			defer store.Close()
			m, err := s.choose(args[0], session)
			if err != nil {
				return err
			}
			if m.State.Ended() {
				return nothingToDo(cmd, &a, fmt.Sprintf("%s (session %v) has ended already: its record says %v", m.Name, m.Session, m.State))
			}
			if runsHere(m.Host) {
				return fmt.Errorf("%s lives: its process runs on this machine (pid %d); end it first", m.Name, m.Host.PID)
			}
			x := s.record(m.Session)
			if err := watchBeat(cmd.Context(), store, m, x); err != nil {
				return err
			}
			return a.carryOut(cmd, store, s.group, s.declareDead(store, m, x))
		},
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFrom(cmd.Context(), t, memberNames, args, typed)
	}
	t.Flags(cmd)
	a.flags(cmd)
	cmd.Flags().StringVar(&session, "session", "", "which session, where several have the name")
	return cmd
}

// choose finds the member meant: of several with the name the one that has not
// ended, or that of the session.
func (s *survey) choose(name, session string) (*record.Member, error) {
	var have, is []string
	var named, alive []*record.Member
	for _, m := range s.members {
		have = append(have, m.Name)
		if m.Name != name || session != "" && m.Session.String() != session {
			continue
		}
		named = append(named, m)
		if !m.State.Ended() {
			alive = append(alive, m)
			is = append(is, fmt.Sprintf("%v (%v, pid %d, %s)", m.Session, m.State, m.Host.PID, heard(m, time.Now())))
		}
	}
	slices.Sort(have)
	switch {
	case len(named) == 0 && session != "" && slices.Contains(have, name):
		return nil, fmt.Errorf("no session %q is called %q", session, name)
	case len(named) == 0:
		return nil, cli.Known("member", slices.Compact(have), name)
	case len(alive) > 1:
		return nil, cli.Usagef("%d members are called %q: say which with --session: %s", len(alive), name, strings.Join(is, "; "))
	case len(alive) == 1:
		return alive[0], nil
	}
	return named[len(named)-1], nil
}

func heard(m *record.Member, now time.Time) string {
	return "last heartbeat " + cli.Ago(now.Sub(time.UnixMilli(m.Sent))) + " by its clock"
}

// watchBeat looks at the record for as long as a healthy member may be silent, but
// not for hours if it says so.
func watchBeat(ctx context.Context, store rota.Store, m *record.Member, x *standing) error {
	look := min(m.Beat*13/10, time.Minute)
	ctx, cancel := context.WithTimeout(ctx, look+connect.StoreTime)
	defer cancel()
	over := time.After(look)
	for {
		e, err := store.Get(ctx, x.key)
		switch {
		case errors.Is(err, rota.ErrNotFound):
			return fmt.Errorf("the record of %s is gone: it has ended", m.Name)
		case err != nil:
			return err
		case e.Rev != x.rev:
			return fmt.Errorf("%s lives: its record (session %v) has changed while this command looked at it; nothing was done", m.Name, m.Session)
		}
		select {
		case <-over:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *survey) declareDead(store rota.Store, m *record.Member, x *standing) *draft {
	d := &draft{what: fmt.Sprintf("declare-dead %s (session %v)", m.Name, m.Session), from: s.at}
	is := fmt.Sprintf("%s, %v, session %v, pid %d", m.Name, m.State, m.Session, m.Host.PID)
	if m.Host.Boot != "" {
		is += ", boot id " + m.Host.Boot
	}
	for _, l := range m.Labels {
		is += fmt.Sprintf(", %s=%s", l.Key, l.Value)
	}
	is += fmt.Sprintf("; %s; it did not beat while this command looked", heard(m, time.Now()))
	follows := "it owns nothing"
	if s.plan == nil {
		follows = "what it owns nobody can tell without the plan, which rota group repair mends"
	}
	if owned := s.ownedBy(m.Session); len(owned) > 0 {
		follows = fmt.Sprintf("%s get other owners at once: %s. Otherwise they would when its lease of %v is over: %s after its last heartbeat",
			cli.Count(len(owned), "partition"), some(owned), m.Lease, cli.Roughly(DeadAfter(m.Lease)))
	}
	d.add(x, is, "write that it is dead", follows, func(ctx context.Context) error {
		dead := *m
		dead.State, dead.Proof = record.Dead, true
		b, err := record.Encode(&dead)
		if err != nil {
			return err
		}
		if _, err = store.Put(ctx, x.key, b, x.rev); errors.Is(err, rota.ErrConflict) {
			return fmt.Errorf("%s lives: its record has changed since it was shown; nothing was done", m.Name)
		}
		return err
	})
	d.notes = []string{"If its process still runs, two may act on a partition until it notices: only a sink that checks tokens stays exclusive then. Go on only if you know that it is gone for good."}
	return d
}
