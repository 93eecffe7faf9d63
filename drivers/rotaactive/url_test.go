package rotaactive

import (
	"fmt"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url, want string // servers and queues, or a part of the error
		ok        bool
	}{
		{"stomp://a?queues=q", "stomp://a:61613 [q] DLQ.q", true},
		{"stomp+ssl://a,b:1?queues=q.{0..2}", "stomp+ssl://a:61614,b:1 [q.0 q.1 q.2] DLQ.q", true},
		{"amqp10://u:p@a?queues=q{9..10}x,r", "amqp10://a:5672 [q9x q10x r] DLQ.rota", true},
		{"amqp10s://u@a?password-file=f&queues=orders.eu,orders.us&prefetch=5&heartbeat=500ms&takeover=old", "amqp10s://a:5671 [orders.eu orders.us] DLQ.orders", true},
		{"stomp://a?queues=a/b:c-d_e&dead=lost", "stomp://a:61613 [a/b:c-d_e] lost", true},
		{"stomp://a", "the URL names no queue: add queues=orders.{0..63}", false},
		{"stomp://a?queues=", "want the name of a queue", false},
		{"stomp://a?queues=q,", "want the name of a queue", false},
		{"stomp://a?queues=q,q", "queue q is there twice", false},
		{"stomp://a?queues=q.{0..2},q.1", "queue q.1 is there twice", false},
		{"stomp://a?queues=q.*", "no wildcard", false},
		{"stomp://a?queues=q%3Fx", "no wildcard", false},
		{"stomp://a?queues=q.{2..1}", "write numbers as {FIRST..LAST}", false},
		{"stomp://a?queues=q.{0..100000}", "write numbers as {FIRST..LAST}", false},
		{"stomp://a?queues=q.{0..99999},r", "more than 100000 queues", false},
		{"stomp://a?queues=q.{a..b}", "write numbers as {FIRST..LAST}", false},
		{"stomp://a?queues=q.{0..1", "write numbers as {FIRST..LAST}", false},
		{"stomp://a?queues=q.{0..1}{0..1}", "no wildcard", false},
		{"stomp://a?queues=ActiveMQ.DLQ", "are not for messages", false},
		{"stomp://a?queues=rota.group.q", "are not for messages", false},
		{"stomp://a?queues=" + strings.Repeat("x", 201), "at most 200 bytes", false},
		{"stomp://a?queues=q,DLQ.q&dead=q", "cannot be a partition and keep the dead letters", false},
		{"stomp://a?queues=q&ca=f", "write stomp+ssl://", false},
		{"amqp10://a?queues=q&ca=f", "write amqp10s://", false},
		{"stomp://a/x?queues=q", "leave the path out", false},
		{"stomp://a?queues=q&prefetch=0", "want a number from 1 to 10000", false},
		{"stomp://a?queues=q&heartbeat=1h", "want a time from 100ms to 1m0s", false},
		{"stomp://a?queue=q", "unknown parameter queue; known are ca, cert, dead, heartbeat, key, password-file, prefetch, queues, takeover", false},
		{"stomp://u@a?queues=q", "a user without a password: write stomp://USER:PASSWORD@HOST", false},
		{"amqp://a?queues=q", "not an address of ActiveMQ", false},
		{"stomp:a?queues=q", "not an address of ActiveMQ", false},
	} {
		s, err := read(c.url, nil)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(s, " ", s.queues, " ", s.deadQueue())
		}
		if (err == nil) != c.ok || c.ok && got != c.want || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.url, got, c.want)
		}
	}
}

const concealed = "hunter2SECRET"

// FuzzURL: no refusal and no print of a URL has its password, and what is read lists each
// queue once.
func FuzzURL(f *testing.F) {
	for _, rest := range []string{"a?queues=q.{0..2}", "[::1]:5,b?queues=a,b&dead=x", "a?queues={0..3}&heartbeat=1s", "@:,@/?=&;"} {
		f.Add(rest)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		for _, url := range []string{"stomp://u:" + concealed + "@" + rest, "amqp10s://:" + concealed + "@" + rest, concealed + "://" + rest} {
			src := Source(url).(*source)
			text := fmt.Sprintf("%v %+v %#v %s %v", src.set, src.set, src.set, src.set, src.Check())
			if strings.Contains(text, concealed) && !strings.Contains(rest, concealed) {
				t.Errorf("%q tells its secret: %s", url, text)
			}
			seen := map[string]bool{}
			for _, q := range src.set.queues {
				if src.bad == nil && (seen[q] || checkQueue(q) != nil) {
					t.Errorf("%q has queue %q", url, q)
				}
				seen[q] = true
			}
		}
	})
}
