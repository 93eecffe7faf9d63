//go:build linux

package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rota-dev/rota"
)

// listEvery is how often these tests ask a source for its partitions.
const listEvery = 300 * time.Millisecond

// listed is a source whose partitions are the lines of a file. Nothing arrives. Like a
// broker it fails to consume a partition that is not there.
type listed struct{ file string }

func (l *listed) names() (out []string, err error) {
	b, err := os.ReadFile(l.file)
	return strings.Fields(string(b)), err
}

func (l *listed) Partitions(context.Context) (out []rota.Partition, err error) {
	names, err := l.names()
	for _, n := range names {
		out = append(out, rota.Partition{Name: n})
	}
	return out, err
}

// ListsAll says that the file names all there are.
func (l *listed) ListsAll() bool { return true }

func (l *listed) Consume(ctx context.Context, own rota.Ownership, _ rota.Deliver) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := false; ; begun = true {
		names, err := l.names()
		if err != nil {
			return err
		}
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+own.Partition()+" ") {
			return fmt.Errorf("there is no partition %s", own.Partition())
		}
		if !begun {
			own.Started()
		}
		select {
		case <-own.Stop():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// list writes the partitions of a listed source, all at one instant.
func (c *crew) list(file string, names ...string) {
	c.Helper()
	if err := os.WriteFile(file+".new", []byte(strings.Join(names, "\n")), 0o644); err != nil {
		c.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		c.Fatal(err)
	}
}

// joinListed starts members with a listed source. The first leads.
func (c *crew) joinListed(labels ...string) (file string) {
	c.Helper()
	file = filepath.Join(c.dir, "partitions")
	c.list(file)
	for i, l := range labels {
		m := c.enlist(l)
		m.be(task{List: file, Names: []string{m.name()}, Lease: lease, Heartbeat: heartbeat})
		c.until(l+" to be ready", func() bool { return strings.Contains(m.stderr.String(), "ready") || m.over })
		m.open()
		if i == 0 {
			c.until(l+" to lead", func() bool { return m.leads || m.over })
		}
	}
	return file
}

// breaking is a source that fails for as long as a file is there.
type breaking struct {
	rota.Source
	file string
}

var errBreaks = errors.New("the test lets this source fail")

func (b *breaking) breaks() bool {
	_, err := os.Stat(b.file)
	return err == nil
}

// Bind forwards, as a source that wraps another must.
func (b *breaking) Bind(group string) error { return b.Source.(rota.Binder).Bind(group) }

func (b *breaking) ListsAll() bool {
	l, ok := b.Source.(rota.Lister)
	return ok && l.ListsAll()
}

func (b *breaking) Consume(ctx context.Context, own rota.Ownership, deliver rota.Deliver) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if b.breaks() {
		return errBreaks
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for !b.breaks() {
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
		cancel()
	}()
	return b.Source.Consume(ctx, own, deliver)
}
