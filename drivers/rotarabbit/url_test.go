package rotarabbit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url  string
		want string // String and queues, or a part of the error
		ok   bool
	}{
		{"amqp://a?queues=q", "amqp://a:5672 [q] []", true},
		{"amqps://a,b:1/?queues=q,r", "amqps://a:5671,b:1 [q r] []", true},
		{"amqp://a/%2F?queues=q", "amqp://a:5672 [q] []", true},
		{"amqp://a/orders%2Fnew?queues=q", "amqp://a:5672/orders%2Fnew [q] []", true},
		{"amqp://u:p%40ss@a/v?queues=q.{9..11}", "amqp://a:5672/v [q.9 q.10 q.11] []", true},
		{"amqp://a?queues=q.{0..1}.x,z", "amqp://a:5672 [q.0.x q.1.x z] []", true},
		{"amqp://a?queues=orders.*,z", "amqp://a:5672 [z] [orders.*]", true},
		{"amqp://a?queues=q&ca=x.pem", "amqps://a:5672 [q] []", true},
		{"amqp://a?queues=q&declare=quorum&delivery-limit=100&prefetch=8&heartbeat=1&dead=d&name=n&takeover=old", "amqp://a:5672 [q] []", true},
		{"amqp://a?queues=q&unfenced=true&management=http://m:15672/", "amqp://a:5672 [q] []", true},
		{"amqp://a?queues=q.*&list-every=100ms", "amqp://a:5672 [] [q.*]", true},
		{"amqp://a?queues=q.*&list-every=1ms", `list-every: want a time from 100ms to 1h0m0s, such as 1m, not "1ms"`, false},
		{"amqp://a?queues=q.*&list-every=60", `list-every: want a time from 100ms to 1h0m0s, such as 1m, not "60"`, false},
		{"amqp://a?queues=q&declare=classic&list-every=1m", "list-every: with declare the management API is not asked", false},
		{"amqps://a?queues=q&cert=c&key=k", "amqps://a:5671 [q] []", true},
		{"", "not an address of RabbitMQ", false},
		{"amqp:a", "write amqp://HOST:PORT/VHOST", false},
		{"nats://a", "not an address of RabbitMQ", false},
		{"amqp://?queues=q", "server 1 of the URL is not a HOST:PORT", false},
		{"amqp://a/x/y?queues=q", "the path of the URL is not the name of a virtual host", false},
		{"amqp://a/%zz?queues=q", "the path of the URL is not the name of a virtual host", false},
		{"amqp://a", "a source needs queues", false},
		{"amqp://a?queues=", "\"\" is not the name of a queue", false},
		{"amqp://a?queues=q,q", `"q" is there twice`, false},
		{"amqp://a?queues=q.{0..1},q.1", `"q.1" is there twice`, false},
		{"amqp://a?queues=q.{1..0}", "a range is written {0..63}", false},
		{"amqp://a?queues=q.{0..x}", "a range is written {0..63}", false},
		{"amqp://a?queues=q}", "a range is written {0..63}", false},
		{"amqp://a?queues=q.{0..1}{0..1}", "a range is written {0..63}", false},
		{"amqp://a?queues=q.{0..99999}", "more than 32768 queues", false},
		{"amqp://a?queues=q.*&declare=quorum", "queues with a star and declare", false},
		{"amqp://a?queues=q&declare=mirrored", `declare: want classic or quorum, not "mirrored"`, false},
		{"amqp://a?queues=q&declare=quorum&unfenced=true", "declare and unfenced", false},
		{"amqp://a?queues=q&declare=classic&delivery-limit=3", "delivery-limit: it is for declare=quorum", false},
		{"amqp://a?queues=q&declare=classic&management=http://m", "management: with declare it is not asked", false},
		{"amqp://a?queues=q&unfenced=yes", `unfenced: want "true", not "yes"`, false},
		{"amqp://a?queues=q&prefetch=0", "prefetch: want a number from 1 to 65535", false},
		{"amqp://a?queues=q&heartbeat=90", "heartbeat: want a number from 1 to 60", false},
		{"amqp://a?queues=q&management=m:15672", "management: want http://HOST:PORT", false},
		{"amqp://a?queues=q&management=http://u:p@m", "without a user", false},
		{"amqp://a?queue=q", "an unknown parameter queue; known are ca, cert, dead, declare,", false},
		{"amqp://u@a?queues=q", "a user without a password", false},
		{"amqp://u:p@a?queues=q&password-file=f", "a password and a password-file", false},
		{"amqp://a?queues=q&cert=c", "cert and key: give both", false},
	} {
		s, err := read(c.url, nil)
		got := fmt.Sprint(s.String(), " ", s.queues.names, " ", s.queues.patterns)
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != c.ok || c.ok && got != c.want || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.url, got, c.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"orders.*", "orders.1", true}, {"orders.*", "orders.", true}, {"orders.*", "order.1", false}, {"*", "x", true},
		{"*.in", "a.in", true}, {"*.in", "a.inn", false}, {"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "a-b-c", true},
		{"a*b*c", "a-c-b", false}, {"a*b*c", "abbc", true}, {"q", "q", true}, {"q", "qq", false},
	} {
		if like(c.pattern, c.name) != c.want {
			t.Errorf("%q is like %q: want %v", c.name, c.pattern, c.want)
		}
	}
}

const concealed = "hunter2SECRET"

func FuzzURL(f *testing.F) {
	for _, a := range []string{"amqp://a?queues=q", "amqps://u:p@a:1,b:2/v?queues=orders.{0..3}&declare=quorum", "amqp://a?queues=a.*&management=http://m", "amqp://@:,@?=&;", "amqp://a/%2F%2F?queues={,}*"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, url string) {
		s, err := read(url, nil)
		if err == nil {
			again, err := read(s.String()+"?queues=q", nil)
			if err != nil || !slices.Equal(again.Servers, s.Servers) || again.vhost != s.vhost || again.Secure != s.Secure {
				t.Errorf("%q is %v, and that is %v, %v", url, s, again, err)
			}
			for _, name := range s.queues.names {
				if !s.queues.matches(name) || !validQueue(name) {
					t.Errorf("%q has queue %q", url, name)
				}
			}
		}
		_, rest, _ := strings.Cut(url, "://")
		for _, secretive := range []string{"amqp://u:" + concealed + "@" + rest, "amqps://:" + concealed + "@" + rest, rest + "//u:" + concealed + "@a", "amqp://a?queues=q&management=http://u:" + concealed + "@" + rest} {
			s, err := read(secretive, nil)
			src := Source(secretive)
			if text := fmt.Sprintf("%v %+v %#v %s %q %x %v %v %+v %#v", s, s, s, s, s, s, err, src, src, src); strings.Contains(text, concealed) {
				t.Errorf("%q tells its secret: %s", secretive, text)
			}
		}
	})
}
