//go:build linux

package processes

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
)

// A partition that is owned and not consumed is named by its owner, with the reason: the
// handler hangs, the sink refuses, or the broker delivers nothing although messages wait.
// It ends with the next progress, and nothing is lost.
func TestB_Stuck_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		c := newCrew(t, h, 3)
		c.tune = []string{"--stall-time", "3s"}
		c.join(false, "c1", "c2")
		m := c.grind(50 * time.Millisecond)
		c.until("everything to run", func() bool { return c.running() == 3 && len(c.sink.counts("")) == 3 })

		hung := c.partition(0)
		c.sink.hang(hung)
		c.named(rota.ConditionHandlerBusy, hung, "its handler has been busy since ", "its messages wait until its handler returns")
		c.sink.hang("")
		c.over(rota.ConditionHandlerBusy, hung)

		failing := c.partition(1)
		c.sink.fail(failing)
		c.named(rota.ConditionHandlerFails, failing, "500 Internal Server Error", "they are tried again until the first of them is handled")
		c.sink.fail("")
		c.over(rota.ConditionHandlerFails, failing)

		if h.broker.stream != nil { // no other broker can be told to keep messages from a consumer that it has
			c.silence(h.broker.stream(t), c.partition(2))
		}
		if err := m.finish(); err != nil {
			t.Error(err)
		}
		if err := c.judge(); err != nil {
			t.Error(err)
		}
	})
}

// silence lets NATS deliver nothing of a partition although messages wait.
func (c *crew) silence(js jetstream.JetStream, partition string) {
	c.Helper()
	c.untilShown("a silent source", func(st *rota.Status) bool { // an owner that replaces its consumer has one that is not paused
		c.pauseConsumers(js, partition, time.Now().Add(time.Hour))
		return problem(st, rota.ConditionSourceSilent, partition) != nil
	})
	c.named(rota.ConditionSourceSilent, partition, "and the source has delivered none since ", "its messages wait for the source to deliver them")
	c.pauseConsumers(js, partition, time.Time{})
	c.over(rota.ConditionSourceSilent, partition)
}

// problem finds a problem of a partition.
func problem(st *rota.Status, code rota.Condition, partition string) *rota.Problem {
	i := slices.IndexFunc(st.Problems, func(p rota.Problem) bool { return p.Code == code && slices.Contains(p.Partitions, partition) })
	if i < 0 {
		return nil
	}
	return &st.Problems[i]
}

// named waits until a condition of a partition is a problem of the group, and looks for it
// in the event lines, in rota status and in rota explain.
func (c *crew) named(code rota.Condition, partition, says, explains string) {
	c.Helper()
	c.untilShown(string(code)+" of "+partition, func(st *rota.Status) bool {
		p := problem(st, code, partition)
		return p != nil && strings.Contains(p.Text, says)
	})
	if code != rota.ConditionHandlerFails { // which tells each failed attempt as an error
		c.until("an event line with "+string(code), func() bool {
			return slices.ContainsFunc(c.members, func(m *member) bool {
				for _, e := range m.events {
					if e.Condition == string(code) && e.Partition == partition {
						return true
					}
				}
				return false
			})
		})
	}
	show := func(words ...string) (string, int) {
		cmd := exec.Command(c.rota, append(words, "--group", c.group, "--store", c.storeURL())...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, exit := show("status"); exit != 8 || !strings.Contains(out, "problem: ") || !strings.Contains(out, says) {
		c.Errorf("rota status ends with %d and says:\n%s", exit, out)
	}
	if out, exit := show("explain", partition); exit != 0 || !strings.Contains(out, explains) || !strings.Contains(out, says) {
		c.Errorf("rota explain ends with %d and says:\n%s", exit, out)
	}
}

// over waits until a condition has ended.
func (c *crew) over(code rota.Condition, partition string) {
	c.Helper()
	c.untilShown("the end of "+string(code), func(st *rota.Status) bool { return problem(st, code, partition) == nil })
}

// pauseConsumers makes JetStream deliver nothing of a partition until then; the zero time
// ends that.
func (c *crew) pauseConsumers(js jetstream.JetStream, partition string, until time.Time) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	stream, err := js.Stream(ctx, c.stream())
	if err != nil {
		c.Fatal(err)
	}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		switch {
		case info.Config.FilterSubject != partition:
		case until.IsZero():
			_, err = stream.ResumeConsumer(ctx, info.Name)
		case !info.Paused:
			_, err = stream.PauseConsumer(ctx, info.Name, until)
		}
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			c.Fatal(err)
		}
	}
	if list.Err() != nil {
		c.Fatal(list.Err())
	}
}
