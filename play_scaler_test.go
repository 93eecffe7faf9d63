package rota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/check"
)

// playScaler is the platform of a play: it answers, and the play does the rest. The play's
// mutex guards it.
type playScaler struct {
	fails bool
	works chan struct{} // closed when it answers again; nil if it does
	said  string        // by the newest call
}

// setScaler makes the platform work, fail or hang.
func (w *play) setScaler(how string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &w.scaler
	switch how {
	case "works":
		if x.works != nil {
			close(x.works)
		}
		x.works, x.fails = nil, false
	case "fails":
		x.fails = true
	case "hangs":
		x.works = make(chan struct{})
	default:
		return fmt.Errorf("wants works, fails or hangs, not %q", how)
	}
	return nil
}

// Scale implements rota.Scaler.
func (p *proc) Scale(ctx context.Context, want int, remove []rota.MemberInfo) error {
	w := p.w
	line := "asks for " + playMembers(want)
	var names []string
	for _, m := range remove {
		names = append(names, w.byText(m.Session))
	}
	slices.Sort(names)
	if len(names) > 0 {
		line += " without " + strings.Join(names, ", ")
	}
	w.mu.Lock()
	fails, works, told := w.scaler.fails, w.scaler.works, w.scaler.said == line
	w.scaler.said = line
	w.mu.Unlock()
	if !told {
		w.say("%s %s", p.label, line)
	}
	time.Sleep(10 * latency) // platforms are slow
	if works != nil {
		select {
		case <-works:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fails {
		return errors.New("the platform refuses")
	}
	return nil
}

// sized takes a leader's word that it wants another number of members.
func (p *proc) sized(e rota.Event) {
	p.w.observe(check.Event{Kind: check.Change}) // a reason for a plan
	line := fmt.Sprintf("wants %s, has %d", playMembers(e.Want), e.Have)
	if len(e.Going) > 0 {
		going := slices.Clone(e.Going)
		slices.Sort(going)
		line += "; to go: " + strings.Join(going, ", ")
	}
	p.w.say("%s %s", p.label, line)
}

func playMembers(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}
