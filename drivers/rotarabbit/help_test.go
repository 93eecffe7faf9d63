package rotarabbit_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/rotatest"
)

// rabbit is the broker of all tests that do not hurt it.
var rabbit = rotatest.Share(rotatest.StartRabbitMQ)

func TestMain(m *testing.M) {
	code := m.Run()
	rabbit.Close()
	os.Exit(code)
}

// patience is the bound of every wait: servers and tests share a busy machine.
const patience = 60 * time.Second

// eventually waits until cond returns nil.
func eventually(t testing.TB, what string, cond func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		err := cond()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("after %v still not: %s: %v", patience, what, err)
		}
	}
}

// An admin is an operator at the management API.
type admin struct {
	t      testing.TB
	base   string
	client *http.Client
}

func newAdmin(t testing.TB, s *rotatest.RealServer) admin {
	return admin{t, "http://" + s.Admin(), http.DefaultClient}
}

// newSecureAdmin is newAdmin for a server with TLS.
func newSecureAdmin(t testing.TB, s *rotatest.RealServer, ca string) admin {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	return admin{t, "https://" + s.Admin(), &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}}
}

// do makes a request, as often as it takes: the API may just be starting.
func (a admin) do(method, path string, body any) []byte {
	a.t.Helper()
	var out []byte
	eventually(a.t, method+" "+path, func() (err error) {
		out, err = a.try(method, path, body)
		return err
	})
	return out
}

func (a admin) try(method, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, a.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("guest", "guest")
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, out)
	}
	return out, err
}

// user makes a user of the virtual host / with the password of its name.
func (a admin) user(name string) {
	a.t.Helper()
	a.do("PUT", "/api/users/"+name, map[string]string{"password": name, "tags": "management"})
	a.rights(name, ".*", ".*", ".*")
	a.t.Cleanup(func() { a.try("DELETE", "/api/users/"+name, nil) })
}

func (a admin) rights(user, configure, write, read string) {
	a.t.Helper()
	a.do("PUT", "/api/permissions/%2F/"+user, map[string]string{"configure": configure, "write": write, "read": read})
}

// A broker has three queues of a server, and a user of its own.
type broker struct {
	t     testing.TB
	s     *rotatest.RealServer
	admin admin
	kind  string // of the queues
	user  string
	names []string
	finds bool   // sources find the queues by a pattern
	query string // more parameters of the source's URL

	mu   sync.Mutex
	conn *amqp.Connection
}

func newBroker(t testing.TB, s *rotatest.RealServer, kind string) *broker {
	t.Helper()
	b := &broker{t: t, s: s, admin: newAdmin(t, s), kind: kind, user: "u" + rand.Text()[:8]}
	b.admin.user(b.user)
	for i := range 3 {
		b.names = append(b.names, fmt.Sprintf("%s.%d", b.user, i))
		if err := b.Create(b.names[i]); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		b.with(func(ch *amqp.Channel) error {
			for _, name := range append(b.names, b.user+".dead") {
				ch.QueueDelete(name, false, false, false)
				ch.ExchangeDelete("rota.reads."+name, false, false)
			}
			return nil
		})
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.conn != nil {
			b.conn.Close()
		}
	})
	return b
}

func (b *broker) url(addr string) string {
	queues := strings.Join(b.names, ",")
	if b.finds {
		queues = b.user + ".*&list-every=100ms"
	}
	return fmt.Sprintf("amqp://%s:%[1]s@%s?queues=%s&heartbeat=1&management=%s&dead=%[1]s.dead%[5]s", b.user, addr, queues, neturl.QueryEscape("http://"+b.s.Admin()), b.query)
}

func (b *broker) Source() rota.Source { return b.SourceAt(b.s.Addr()) }

func (b *broker) SourceAt(addr string) rota.Source {
	s := rotarabbit.Source(b.url(addr))
	b.t.Cleanup(func() { s.(io.Closer).Close() })
	return s
}

func (b *broker) Addr() string { return b.s.Addr() }

func (b *broker) Partitions() []string { return b.names }

func (b *broker) Largest() int { return 10 << 20 }

// with does something with a channel of an operator, as often as it takes: the broker may be
// away.
func (b *broker) with(f func(ch *amqp.Channel) error) error {
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		var ch *amqp.Channel
		if ch, err = b.channel(); err != nil {
			continue
		}
		err = f(ch)
		ch.Close()
		var refused *amqp.Error
		if err == nil || errors.As(err, &refused) && refused.Server && refused.Code != amqp.ConnectionForced {
			return err
		}
	}
	return err
}

func (b *broker) channel() (*amqp.Channel, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil || b.conn.IsClosed() {
		c, err := amqp.DialConfig("amqp://guest:guest@"+b.s.Addr(), amqp.Config{Heartbeat: 10 * time.Second, Dial: amqp.DefaultDial(5 * time.Second)})
		if err != nil {
			return nil, err
		}
		b.conn = c
	}
	return b.conn.Channel()
}

// Publish publishes one message after another. A message whose confirmation was lost may be
// there twice.
func (b *broker) Publish(partition string, values ...[]byte) error {
	for len(values) > 0 {
		err := b.with(func(ch *amqp.Channel) error {
			if err := ch.Confirm(false); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			for len(values) > 0 {
				c, err := ch.PublishWithDeferredConfirm("", partition, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: values[0]})
				if err != nil {
					return err
				}
				if stored, err := c.WaitContext(ctx); err != nil || !stored {
					return fmt.Errorf("stored: %v, %w", stored, errors.Join(err))
				}
				values = values[1:]
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Dead fetches the dead letters, and gives them back.
func (b *broker) Dead() (out [][]byte, err error) {
	err = b.with(func(ch *amqp.Channel) error {
		out = nil
		for {
			d, ok, err := ch.Get(b.user+".dead", false)
			var refused *amqp.Error
			if errors.As(err, &refused) && refused.Code == amqp.NotFound {
				return nil
			}
			if err != nil || !ok {
				return err
			}
			out = append(out, d.Body)
		}
	})
	return out, err
}

// Tidy checks that each queue has one consumer.
func (b *broker) Tidy() error {
	return b.with(func(ch *amqp.Channel) error {
		for _, name := range b.names {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				return err
			}
			if q.Consumers != 1 {
				return &amqp.Error{Server: true, Reason: fmt.Sprintf("queue %s has %d consumers", name, q.Consumers)}
			}
		}
		return nil
	})
}

func (b *broker) Create(partition string) error {
	return b.with(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(partition, true, false, false, false, b.arguments())
		return err
	})
}

func (b *broker) arguments() amqp.Table {
	switch b.kind {
	case "quorum":
		return amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true}
	case "single": // a classic queue with a single active consumer
		return amqp.Table{"x-single-active-consumer": true}
	}
	return nil
}

func (b *broker) Delete(partition string) error {
	return b.with(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(partition, false, false, false)
		return err
	})
}

// A findingBroker has sources that find the queues by a pattern, so that they can come and go.
type findingBroker struct{ *broker }

func newFinding(t testing.TB, s *rotatest.RealServer, kind string) findingBroker {
	b := newBroker(t, s, kind)
	b.finds = true
	return findingBroker{b}
}

// Remove and Restore make it a rotatest.ChangingBroker.
func (b findingBroker) Remove(partition string) error  { return b.Delete(partition) }
func (b findingBroker) Restore(partition string) error { return b.Create(partition) }

// Foreign consumes a queue as an application would that knows nothing of rota.
func (b *broker) Foreign(partition string) (leave func(), err error) {
	ch, err := b.channel()
	if err != nil {
		return nil, err
	}
	in, err := ch.Consume(partition, "", false, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	go func() {
		for range in {
		}
	}()
	return func() { ch.Close() }, nil
}

func (b *broker) Withdraw() (restore func()) {
	b.admin.rights(b.user, "", "", "")
	return func() { b.admin.rights(b.user, ".*", ".*", ".*") }
}
