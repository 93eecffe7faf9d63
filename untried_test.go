package rota_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
)

// TestWhatWasNotTriedIsNoAttempt has no memory for a message for an hour. The message
// is retried with a back-off and a condition for as long, and still has all its
// attempts after that.
func TestWhatWasNotTriedIsNoAttempt(t *testing.T) {
	for _, batch := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 1)
			g.src.Publish("q0", []byte("a"), []byte("b"))
			began, calls := time.Now(), 0
			var tried, told []string
			handle := func(_ context.Context, msg rota.Message) error {
				calls++
				if time.Since(began) < time.Hour {
					return fmt.Errorf("%w: no memory", rota.ErrUntried)
				}
				tried = append(tried, fmt.Sprintf("%s/%d", msg.Value, msg.Attempt))
				if string(msg.Value) == "a" {
					return errors.New("no good")
				}
				return nil
			}
			_, leave := g.start("c1", func(c *rota.Config) {
				c.Attempts, c.Handle = 2, handle
				if batch {
					c.Handle = nil
					c.HandleBatch = func(ctx context.Context, msgs []rota.Message) (int, error) {
						if err := handle(ctx, msgs[0]); err != nil {
							return 0, err
						}
						return 1, nil
					}
				}
				trace := c.Trace
				c.Trace = func(e rota.Event) {
					if e.Kind == rota.EventCondition {
						told = append(told, string(e.Condition)+" "+e.Partition)
					}
					if trace != nil {
						trace(e)
					}
				}
			})
			pass(time.Hour + time.Minute)
			if got := strings.Join(tried, " "); got != "a/1 a/2 b/1" {
				t.Errorf("batch %v: tried %s", batch, got)
			}
			if d := g.src.Dead(); len(d) != 1 || string(d[0].Value) != "a" {
				t.Errorf("batch %v: dead letters: %v", batch, d)
			}
			if calls < 300 || calls > 400 { // every 10 s
				t.Errorf("batch %v: the handler was called %d times", batch, calls)
			}
			if len(told) == 0 || told[0] != "untried q0" {
				t.Errorf("batch %v: told %d times, first %.1q", batch, len(told), told)
			}
			if err := leave(); err != nil {
				t.Error(err)
			}
		})
	}
}
