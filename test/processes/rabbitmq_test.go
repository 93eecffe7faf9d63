//go:build linux

package processes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/rota-dev/rota/rotatest"
)

var rabbitMQ = rotatest.Share(rotatest.StartRabbitMQ)

// rabbitBroker is a RabbitMQ in which every test has a virtual host.
func rabbitBroker(kind string) func(*testing.T) *broker {
	return func(t *testing.T) *broker {
		api := rabbitAPI{"http://" + rabbitMQ.Server(t).Admin()}
		b := &broker{server: rabbitMQ.Server(t), addr: rabbitMQ.Server(t).Addr(), like: ".%d", beat: time.Second, window: 64, begin: api.begin}
		b.source = func(c *crew, addr string) string {
			return fmt.Sprintf("amqp://guest:guest@%s/%s?heartbeat=1&queues=%s&declare=%s", addr, c.stream(), c.numbered(), kind)
		}
		lists := *b
		lists.source = func(c *crew, addr string) string {
			return fmt.Sprintf("amqp://guest:guest@%s/%s?heartbeat=1&queues=%[2]s.*&management=%s&list-every=%v", addr, c.stream(), url.QueryEscape(api.base), listEvery)
		}
		lists.create = func(c *crew, from, to int) {
			for n := from; n < to; n++ {
				api.do(c, "PUT", "/api/queues/"+c.stream()+"/"+c.partition(n), map[string]any{"durable": true, "arguments": rabbitArguments[kind]})
			}
		}
		lists.remove = func(c *crew, n int) { api.do(c, "DELETE", "/api/queues/"+c.stream()+"/"+c.partition(n), nil) }
		b.lists = &lists
		return b
	}
}

// rabbitArguments are those of queues that keep order when they change hands.
var rabbitArguments = map[string]map[string]any{
	"classic": {"x-queue-type": "classic"},
	"quorum":  {"x-queue-type": "quorum", "x-single-active-consumer": true},
}

// A rabbitAPI is the management API.
type rabbitAPI struct{ base string }

// begin makes the virtual host of a test.
func (a rabbitAPI) begin(c *crew) {
	c.Helper()
	a.do(c, "PUT", "/api/vhosts/"+c.stream(), map[string]any{})
	a.do(c, "PUT", "/api/permissions/"+c.stream()+"/guest", map[string]string{"configure": ".*", "write": ".*", "read": ".*"})
	c.Cleanup(func() { a.do(c, "DELETE", "/api/vhosts/"+c.stream(), nil) })
}

// do makes a request, as often as it needs: the API may just be starting.
func (a rabbitAPI) do(c *crew, method, path string, body any) {
	c.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := a.try(method, path, body)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s %s: %v", method, path, err)
		}
	}
}

func (a rabbitAPI) try(method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, a.base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.SetBasicAuth("guest", "guest")
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		says, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, says)
	}
	return nil
}
