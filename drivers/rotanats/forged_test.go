package rotanats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestForgedNotes changes the note between two owners. Whatever is in it then, the second
// owner handles all messages that were not handled, no consumer of another application is
// touched, and a condition says once what was wrong.
func TestForgedNotes(t *testing.T) {
	type fields map[string]any
	for name, c := range map[string]struct {
		forge func(p fields)
		text  string // instead of forge
		says  string
	}{
		"another's consumer as the former":  {forge: func(p fields) { p["former"] = "billing" }, says: `former "billing" is not a consumer that rota has made`},
		"another's consumer as the coming":  {forge: func(p fields) { p["coming"] = "billing" }, says: `coming "billing" is not`},
		"another's consumer as the stray":   {forge: func(p fields) { p["stray"] = "billing" }, says: `stray "billing" is not`},
		"another's consumer as the present": {forge: func(p fields) { p["consumer"] = "billing"; p["released"] = true; p["next"] = 1 }, says: `consumer "billing" is not`},
		"another's reply subject":           {forge: func(p fields) { p["reply"] = "$JS.ACK.S.billing.1.6.6.1700000000000000000.0"; p["back"] = true }, says: "is not a reply subject of its consumer"},
		"deliveries that were settled":      {forge: func(p fields) { p["back"] = true; p["next"] = 2 }},
		"deliveries that were none":         {forge: func(p fields) { p["back"] = true; p["next"] = 5 }},
		"a start behind the end":            {forge: func(p fields) { p["start"] = 1_000_000_000 }, says: "were settled up to 999999999, but stream"},
		"the highest start":                 {forge: func(p fields) { p["start"] = uint64(1<<64 - 1) }, says: "were settled up to 18446744073709551614, but stream"},
		"the highest token":                 {forge: func(p fields) { p["token"] = uint64(1<<64 - 1) }, says: "no plan has granted token 18446744073709551615 yet"},
		"no JSON":                           {text: "junk", says: "it cannot be read"},
		"a negative token":                  {text: `{"token":-1}`, says: "it cannot be read"},
	} {
		for _, bucket := range []string{"rota-sources", "rota-sources-now"} {
			t.Run(name+" in "+bucket, func(t *testing.T) {
				t.Parallel()
				b := newBroker(t, serve(t).URL())
				b.names = b.names[:1]
				ctx := t.Context()
				billing, err := b.js.CreateConsumer(ctx, b.stream, jetstream.ConsumerConfig{Durable: "billing"})
				if err != nil {
					t.Fatal(err)
				}
				l, mem := newLedger(t), rotatest.NewMemStore()
				var mu sync.Mutex
				reported := map[string]int{}
				heard := func(c *rota.Config) {
					c.Trace = func(e rota.Event) {
						if e.Kind == rota.EventCondition {
							mu.Lock()
							reported[e.Because]++
							mu.Unlock()
						}
					}
				}
				first, leave := context.WithCancel(ctx)
				ended := l.memberUntil(first, "a", mem.Open(), b.Source())
				b.flow(1, 3)
				l.wait("the first messages", 30*time.Second, l.reached(b, 3))
				leave()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				subject := "$KV." + bucket + ".post.>"
				if bucket == "rota-sources" { // without the note in memory, the one on disk counts
					if err := b.js.DeleteStream(ctx, "KV_rota-sources-now"); err != nil {
						t.Fatal(err)
					}
				}
				st, err := b.js.Stream(ctx, "KV_"+bucket)
				if err != nil {
					t.Fatal(err)
				}
				msg, err := st.GetLastMsgForSubject(ctx, subject)
				if err != nil {
					t.Fatal(err)
				}
				text := []byte(c.text)
				if c.forge != nil {
					note := fields{}
					d := json.NewDecoder(strings.NewReader(string(msg.Data)))
					d.UseNumber()
					if err := d.Decode(&note); err != nil {
						t.Fatal(err)
					}
					c.forge(note)
					if text, err = json.Marshal(note); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := b.js.Publish(ctx, msg.Subject, text); err != nil {
					t.Fatal(err)
				}
				l.member("b", mem.Open(), b.Source(), heard)
				b.flow(4, 6)
				l.wait("what came after", 30*time.Second, l.reached(b, 6))
				if _, err := billing.Info(ctx); err != nil {
					t.Errorf("the other application's consumer: %v", err)
				}
				// By the note in memory no consumer is created or removed.
				said := c.says != "" && (bucket == "rota-sources" || !strings.Contains(c.says, "settled up to"))
				mu.Lock()
				defer mu.Unlock()
				n := 0
				for text, times := range reported {
					if c.says != "" && strings.Contains(text, c.says) {
						n += times
					} else {
						t.Errorf("it also tells %q", text)
					}
				}
				if want := map[bool]int{true: 1, false: 0}[said]; n != want {
					t.Errorf("%q was told %d times, want %d; all: %q", c.says, n, want, fmt.Sprint(reported))
				}
			})
		}
	}
}
