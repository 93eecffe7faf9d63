package rotarabbit_test

import (
	"errors"
	"io"
	"net"
	neturl "net/url"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotarabbit"
)

// A refusal is something that is wrong with a broker of one queue.
type refusal struct {
	name   string
	spoil  func(b *broker) (fix func()) // fix ends the cause; nil if the test cannot
	url    func(url string) string
	says   string
	ends   bool // Run returns the error
	serves bool // messages are handled all the same
}

// queue replaces the queue of a broker by another one.
func queue(args amqp.Table, autoDelete bool) func(*broker) func() {
	return func(b *broker) func() {
		name := b.names[0]
		err := errors.Join(b.Delete(name), b.with(func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(name, true, autoDelete, false, false, args)
			return err
		}))
		if err != nil {
			b.t.Fatal(err)
		}
		return func() {
			if err := errors.Join(b.Delete(name), b.Create(name)); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

func rights(configure, write, read string) func(*broker) func() {
	return func(b *broker) func() {
		b.admin.rights(b.user, configure, write, read)
		return func() { b.admin.rights(b.user, ".*", ".*", ".*") }
	}
}

// replaced changes a part of a URL.
func replaced(from, to string) func(string) string {
	return func(url string) string { return strings.Replace(url, from, to, 1) }
}

// TestRefusals shows that everything that can be wrong is one clear condition, and that its
// end is noticed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	quorum := amqp.Table{"x-queue-type": "quorum"}
	for _, r := range []refusal{
		{name: "a wrong password", url: func(url string) string {
			user, _, _ := strings.Cut(strings.TrimPrefix(url, "amqp://"), ":")
			return strings.Replace(url, ":"+user+"@", ":x@", 1)
		}, says: "refuses user", ends: true},
		{name: "a wrong virtual host", url: replaced("?queues", "/nowhere?queues"), says: "there is no virtual host nowhere, or user", ends: true},
		{name: "no server", url: func(url string) string {
			_, host, _ := strings.Cut(url, "@")
			host, _, _ = strings.Cut(host, "?")
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			return strings.Replace(url, host, l.Addr().String(), 1)
		}, says: "connection refused"},
		{name: "no queue", spoil: func(b *broker) func() {
			b.Delete(b.names[0])
			return func() { b.Create(b.names[0]) }
		}, says: "there is no queue"},
		{name: "no right to read", spoil: rights(".*", ".*", "^(rota\\..*)?$"), says: "the broker does not let this user consume queue"},
		{name: "no right to note the group", spoil: rights("^$", ".*", ".*"), says: "may not note which group reads queue"},
		{name: "no right to declare", spoil: rights("^rota\\.reads", ".*", ".*"), url: func(url string) string { return undeclared(url) + "&declare=classic" }, says: "the broker does not let this user declare queue"},
		{name: "a quorum queue without a fence", spoil: queue(quorum, false), says: "is a quorum queue without x-single-active-consumer"},
		{name: "a stream", spoil: queue(amqp.Table{"x-queue-type": "stream"}, false), says: "is a stream"},
		{name: "auto-delete", spoil: queue(nil, true), says: "is deleted with its last consumer"},
		{name: "another queue than declared", spoil: func(b *broker) func() {
			queue(quorum, false)(b)
			return func() { b.Delete(b.names[0]) }
		}, url: func(url string) string { return undeclared(url) + "&declare=classic" }, says: "exists and is not as declare=classic makes it"},
		{name: "no management API", url: func(url string) string {
			return undeclared(url) + "&management=" + neturl.QueryEscape("http://127.0.0.1:1")
		}, says: "is not known, and with it what keeps order"},
		{name: "no right to the management API", spoil: func(b *broker) func() {
			b.admin.do("PUT", "/api/users/"+b.user, map[string]string{"password": b.user, "tags": ""})
			return func() {
				b.admin.do("PUT", "/api/users/"+b.user, map[string]string{"password": b.user, "tags": "management"})
			}
		}, says: "give it the tag management"},
		{name: "unfenced", spoil: queue(quorum, false), url: func(url string) string { return url + "&unfenced=true" }, says: "unfenced: nothing at the broker keeps the order", serves: true},
		{name: "unfenced and not known", url: func(url string) string {
			return undeclared(url) + "&unfenced=true&management=" + neturl.QueryEscape("http://127.0.0.1:1")
		}, says: "unfenced: nothing at the broker keeps the order", serves: true},
		{name: "a delivery limit", spoil: queue(amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true, "x-delivery-limit": int64(3)}, false),
			says: "messages of this queue that were returned 3 times", serves: true},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, rabbit.Server(t), "classic")
			b.names = b.names[:1]
			fix := (func())(nil)
			if r.spoil != nil {
				fix = r.spoil(b)
			}
			url := b.url(b.s.Addr())
			if r.url != nil {
				url = r.url(url)
			}
			src := rotarabbit.Source(url)
			t.Cleanup(func() { src.(io.Closer).Close() })
			m := newMember(t, src)
			if r.ends {
				<-m.ended
				if !errors.Is(m.err, rota.ErrPermanent) || !strings.Contains(m.err.Error(), r.says) {
					t.Errorf("Run returned %v, want a permanent error that says %q", m.err, r.says)
				}
				return
			}
			m.reports(r.says)
			if fix != nil && !r.serves {
				fix()
			}
			if fix == nil && !r.serves {
				return
			}
			eventually(t, "there is a queue", func() error {
				return b.with(func(ch *amqp.Channel) error {
					_, err := ch.QueueDeclarePassive(b.names[0], true, false, false, false, nil)
					return err
				})
			})
			if err := b.Publish(b.names[0], []byte("1")); err != nil {
				t.Fatal(err)
			}
			m.handles(b.names[0], 1)
		})
	}
}

// undeclared takes the management API out of a URL.
func undeclared(url string) string {
	before, rest, _ := strings.Cut(url, "&management=")
	_, after, _ := strings.Cut(rest, "&")
	return before + "&" + after
}

// TestRights uses the rights of the page and no others.
func TestRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sources/rabbitmq.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut(string(page), "rabbitmqctl set_permissions -p VHOST USER ")
	line, _, _ = strings.Cut(line, "\n")
	patterns := strings.Split(strings.Trim(line, "'"), "' '")
	if !ok || len(patterns) != 3 {
		t.Fatalf("the page has the rights %q", line)
	}
	for _, kind := range []string{"classic", "quorum"} {
		b := newBroker(t, rabbit.Server(t), kind)
		for i := range patterns {
			patterns[i] = strings.ReplaceAll(patterns[i], "orders", b.user)
		}
		b.admin.rights(b.user, patterns[0], patterns[1], patterns[2])
		src := rotarabbit.Source(strings.Replace(b.url(b.s.Addr()), "&dead="+b.user+".dead", "&dead=rota.dead."+b.user, 1))
		t.Cleanup(func() { src.(io.Closer).Close() })
		if err := b.Publish(b.names[0], []byte("1"), []byte("bad")); err != nil {
			t.Fatal(err)
		}
		m := newMember(t, src)
		m.handles(b.names[0], 2)
		box, dropped := src.(rota.DeadLetters), 0
		eventually(t, "the letter is dropped", func() error {
			for l, err := range box.Letters(t.Context(), b.names[0]) {
				if err == nil {
					err = box.DropLetter(t.Context(), l.ID)
				}
				if err != nil {
					return err
				}
				dropped++
			}
			if dropped == 0 {
				return errors.New("there is none")
			}
			return nil
		})
		for i := range patterns {
			patterns[i] = strings.ReplaceAll(patterns[i], b.user, "orders")
		}
	}
}
