//go:build linux

package processes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/rule"
)

// These tests notice a rota that lacks a rule: the ones that real faults can
// reach. The others are the explorer's and the simulator's: internal/rule.
func TestDefectsAreNoticedByProcesses(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		rule  rule.Rule
		fault func(c *crew, try int) error
	}{
		{rule.StopAck, joinWhileBusy},
		{rule.AckAfterStop, joinWhileBusy},
		{rule.DeadAfterTheLease, freeze},
		{rule.CheckBeforeEveryEffect, freeze},
	} {
		t.Run(d.rule.String(), func(t *testing.T) {
			t.Parallel()
			const tries = 60 // check-before-every-effect takes a goroutine that is quicker than a timer: one try in three to seven
			for try := range tries {
				var err error
				t.Run(fmt.Sprint(try), func(t *testing.T) {
					c := newCrew(t, serveEmbedded(t), 32)
					c.rota, c.defect = build(t, "mutants"), d.rule.String()
					err = d.fault(c, try)
				})
				if errors.Is(err, errBroken) {
					t.Logf("without %s: %v", d.rule, err)
					return
				}
				if err != nil {
					t.Fatalf("no promise was broken, but: %v", err) // that is not what to look for
				}
			}
			t.Errorf("nobody noticed in %d tries that this rule was missing: %s", tries, d.rule.Entry().Says)
		})
	}
}

// The same with every rule in: what is noticed above is the defect.
func TestFaultsByThemselvesBreakNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*crew, int) error{"join while busy": joinWhileBusy, "freeze": freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, serveEmbedded(t), 32)
			c.rota = build(t, "mutants")
			if err := fault(c, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

func freeze(c *crew, try int) error {
	w := way{backlog: true, heirs: []string{"s"}}
	_, err := w.trial(c, time.Duration(try%10)*heartbeat/10)
	return err
}

// joinWhileBusy lets a second member join while the handlers of the first are in
// the middle of something.
func joinWhileBusy(c *crew, _ int) error {
	c.join(false, "c1")
	c.sink.slow(500 * time.Millisecond)
	m := c.grind(20 * time.Millisecond)
	c.until("every handler to be busy", func() bool { return len(c.newest("c1").busy()) == c.parts })
	c.join(false, "c2")
	c.until("c2 to have its share", func() bool { return len(c.newest("c2").owns) == c.parts/2 })
	c.sink.slow(0)
	if err := m.finish(); err != nil {
		return err
	}
	return c.judge()
}
