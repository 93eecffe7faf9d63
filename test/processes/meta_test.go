//go:build linux

package processes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
)

// trials is how often a test tries what must succeed each time: a few times in make test,
// ROTA_TRIALS times for a figure.
func trials(t *testing.T, few int) int {
	text := os.Getenv("ROTA_TRIALS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ROTA_TRIALS is %q: want a number of trials", text)
	}
	return n
}

// Metadata of a topic and of a partition is changed under three running handlers: one gets
// it by HTTP, one is a command, one uses the library. Each sees it within a second, under
// the token it had. What the partition has wins; what does not fit is refused when it is
// ordered.
func TestS1_Meta_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		t.Run("handlers", func(t *testing.T) { metaOfHandlers(newCrew(t, h, 3), trials(t, 4)) })
		t.Run("own", func(t *testing.T) { metaOfCommand(newCrew(t, h, 1)) })
	})
}

func metaOfHandlers(c *crew, times int) {
	c.start("http", false)
	c.start("exec", false, "--handle", "exec:"+roleVar+"=effect "+taskVar+"="+c.sink.addr+" "+os.Args[0])
	c.library = true
	c.start("library", false)
	for _, m := range c.members {
		c.until(m.label+" to be ready", func() bool { return strings.Contains(m.stderr.String(), "ready") || m.over })
		m.open()
	}
	m := c.grind(50 * time.Millisecond)
	all := []string{"http", "exec", "library"}
	c.until("one partition each", func() bool {
		return len(c.newest("http").owns) == 1 && len(c.newest("exec").owns) == 1 && len(c.newest("library").owns) == 1
	})
	c.mu.Lock()
	tokens := c.tokens(all)
	c.mu.Unlock()

	parts := []string{c.partition(0), c.partition(1), c.partition(2)}
	topic := "" // of all of them
	if c.host.broker.topics {
		topic = c.stream()
	}
	want := map[string]map[string]string{parts[0]: {}, parts[1]: {}, parts[2]: {"t": "own"}}
	c.give("set", parts[2], "t=own") // wins over all that the topic is given
	late := 0
	for i := range times {
		value := strconv.Itoa(i)
		began := time.Now()
		if p := parts[i/2%3]; i%2 == 0 {
			if topic != "" {
				c.give("set-topic", topic, "t="+value)
			} else {
				c.give("set", parts[0], "t="+value)
				c.give("set", parts[1], "t="+value)
			}
			want[parts[0]]["t"], want[parts[1]]["t"] = value, value
		} else {
			c.give("set", p, "p="+value)
			want[p]["p"] = value
		}
		c.until(fmt.Sprintf("change %d to be seen", i), func() bool {
			for _, p := range parts {
				b, err := json.Marshal(want[p])
				if err != nil || c.sink.said(p) != topic+" "+string(b) {
					return false
				}
			}
			return true
		})
		if took := time.Since(began); took > time.Second {
			late++
			c.Logf("change %d was seen after %v", i, took)
		}
	}
	c.Logf("%d of %d changes were seen within a second", times-late, times)
	if counted := os.Getenv("ROTA_TRIALS") != ""; counted && late > 0 || late == times {
		c.Errorf("%d of %d changes were seen after more than a second", late, times)
	}

	c.mu.Lock()
	for p, token := range c.tokens(all) {
		if token != tokens[p] {
			c.Errorf("%s was restarted", p)
		}
	}
	for _, l := range all {
		if c.newest(l).tally["meta"] == 0 {
			c.Errorf("%s tells of no metadata in its event lines", l)
		}
	}
	c.mu.Unlock()
	if topic != "" {
		c.mustOrder("topics", "set", topic, "note="+strings.Repeat("x", 3000))
	} else {
		c.mustOrder("partitions", "set", parts[0], "note="+strings.Repeat("x", 3000))
	}
	err := c.order("partitions", "set", parts[0], "memo="+strings.Repeat("y", 3000))
	if err == nil || !strings.Contains(err.Error(), "bytes of keys and values, more than 4096") {
		c.Errorf("more than fits was ordered: %v", err)
	}
	c.untilShown("the metadata", func(st *rota.Status) bool {
		q := c.seen(st, "q0")
		return q.Topic == topic && len(q.Meta["note"]) == 3000 && q.Meta["memo"] == ""
	})
	if err := m.finish(); err != nil {
		c.Error(err)
	}
	if err := c.judge(); err != nil {
		c.Error(err)
	}
}

// A command that runs for as long as its partition is owned finds its metadata in a file.
func metaOfCommand(c *crew) {
	m, out := c.enlist("c1"), filepath.Join(c.dir, "seen")
	m.run([]string{c.rota, "run", "--group", c.group, "--name", "c1", "--new-group", "--store", c.storeURL(), "--source", "none:?names=a", "--events", "-",
		"--own", "exec:while sleep 0.05; do cat $ROTA_META_FILE > " + out + ".new && mv " + out + ".new " + out + "; done"})
	shows := func(want string) func() bool {
		return func() bool {
			b, err := os.ReadFile(out)
			return err == nil && strings.TrimSpace(string(b)) == want
		}
	}
	c.until("a file without metadata", shows("{}"))
	for i := range 3 {
		c.give("set", "a", fmt.Sprintf("win=%d", i))
		c.until("the new metadata", shows(fmt.Sprintf(`{"win":"%d"}`, i)))
	}
	c.mu.Lock()
	starts := m.tally["start"]
	c.mu.Unlock()
	if starts != 1 {
		c.Errorf("the command was started %d times", starts)
	}
}

// give writes an order from within this process, which takes no time to start.
func (c *crew) give(verb string, args ...string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	for {
		o := &record.Orders{}
		e, err := c.store.Get(ctx, c.group+"/orders")
		if err == nil {
			o, err = record.DecodeOrders(e.Value)
		}
		if err != nil && !errors.Is(err, rota.ErrNotFound) {
			c.Fatal(err)
		}
		if _, err := o.Give(verb, args...); err != nil {
			c.Fatal(err)
		}
		o.Ver++
		b, err := record.Encode(o)
		if err != nil {
			c.Fatal(err)
		}
		if _, err = c.store.Put(ctx, c.group+"/orders", b, e.Rev); err == nil {
			return
		}
		if !errors.Is(err, rota.ErrConflict) {
			c.Fatal(err)
		}
	}
}
