package rotaactive

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

// usersAndRights lets app do all that docs/sources/activemq.md lists, on queues that begin
// with t, and the others a part of it.
const usersAndRights = `<simpleAuthenticationPlugin><users>
	<authenticationUser username="app" password="secret" groups="apps"/>
	<authenticationUser username="reader" password="secret" groups="readers"/>
	<authenticationUser username="stranger" password="secret" groups="strangers"/>
</users></simpleAuthenticationPlugin>
<authorizationPlugin><map><authorizationMap><authorizationEntries>
	<authorizationEntry queue="&gt;" read="admins" write="admins" admin="admins"/>
	<authorizationEntry queue="*.>" read="apps,readers" write="apps" admin="apps,readers"/>
	<authorizationEntry queue="rota.group.>" read="apps,readers" write="apps,readers" admin="apps,readers"/>
	<authorizationEntry queue="DLQ.>" read="apps,readers" write="apps" admin="apps"/>
	<authorizationEntry queue="ActiveMQ.Statistics.>" read="apps" write="apps" admin="apps"/>
	<authorizationEntry topic="ActiveMQ.Advisory.>" read="apps,readers,strangers" write="apps,readers,strangers" admin="apps,readers,strangers"/>
</authorizationEntries><tempDestinationAuthorizationEntry><tempDestinationAuthorizationEntry read="apps" write="apps" admin="apps"/></tempDestinationAuthorizationEntry></authorizationMap></map></authorizationPlugin>`

// TestSecured runs a broker with users, rights and TLS that asks for certificates.
func TestSecured(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	ca.Issue("client", time.Hour)
	s := rotatest.StartActiveMQ6(t, rotatest.ActiveMQSetup{Plugins: rotatest.ActiveMQStatistics + usersAndRights, TLS: true, Authority: ca.File})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mutual := "&ca=" + s.ActiveMQCertificate() + "&cert=" + filepath.Join(ca.Dir, "client.pem") + "&key=" + filepath.Join(ca.Dir, "client.key")
	open := func(t *testing.T, scheme string) *broker {
		return newBroker(t, scheme, "app@"+s.At(protocols[scheme]), mutual+"&password-file="+password)
	}
	t.Run("stomp+ssl", func(t *testing.T) {
		rotatest.Source(t, func(t *testing.T) rotatest.Broker { return unmetered{open(t, "stomp+ssl")} })
	})
	t.Run("amqp10s", func(t *testing.T) {
		t.Parallel()
		b := open(t, "amqp10s")
		sameMessages(t, b)
		if _, err := b.pub.Read(t.Context(), b.names); err != nil {
			t.Error(err)
		}
	})
	for _, scheme := range []string{"stomp", "amqp10"} {
		t.Run(scheme, func(t *testing.T) { refusals(t, s, scheme, ca, mutual) })
	}
}

// A refusal is a mistake and what is said about it.
type refusal struct {
	url    string // without parameters
	params string
	says   []string // all are in one error
	lasts  bool     // it wraps rota.ErrPermanent
}

func refusals(t *testing.T, s *rotatest.RealServer, scheme string, ca *certs.Authority, mutual string) {
	secure := securely(scheme)
	plain, tls := s.At(protocols[scheme]), s.At(protocols[secure])
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	for name, c := range map[string]refusal{
		"wrong password":        {scheme + "://app:wrong@" + plain, "", []string{"the broker refuses this user or password ("}, true},
		"unknown user":          {scheme + "://nobody:secret@" + plain, "", []string{"the broker refuses this user or password ("}, true},
		"no user":               {scheme + "://" + plain, "", []string{"the broker wants a user"}, true},
		"no password file":      {scheme + "://app@" + plain, "&password-file=missing", []string{"the password file: open missing"}, true},
		"unknown authority":     {secure + "://app:secret@" + tls, "", []string{"the broker's certificate is of another authority: name it with ca=FILE ("}, true},
		"no certificate":        {secure + "://app:secret@" + tls, "&ca=" + s.ActiveMQCertificate(), []string{"certificate"}, true},
		"expired":               {secure + "://app:secret@" + ca.Expired(), "&ca=" + ca.File, []string{"the broker's certificate has expired ("}, false},
		"TLS on a port without": {secure + "://app:secret@" + plain, mutual, []string{"does this port speak TLS?"}, false},
		"no TLS on a port with": {scheme + "://app:secret@" + tls, "", []string{"connect to " + scheme + "://" + tls}, false},
		"nobody listens":        {scheme + "://app:secret@" + nobody.Addr().String(), "", []string{"connection refused"}, false},
		"two, none good":        {scheme + "://app:wrong@" + nobody.Addr().String() + "," + plain, "", []string{"connection refused", "refuses this user or password"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := Source(c.url + "?queues=orders.{0..1}" + c.params).(*source)
			defer src.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := src.Partitions(ctx)
			if err == nil || errors.Is(err, rota.ErrPermanent) != c.lasts {
				t.Fatalf("the error is %v; it is to be permanent: %v", err, c.lasts)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %q, want %q in it", err, part)
				}
			}
			if strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
	for name, c := range map[string]refusal{
		"no right to read":         {"stranger", "", []string{"this user lacks the right to", "is not authorized to"}, false},
		"no right to dead letters": {"reader", "", []string{"cannot dead-letter", "this user lacks the right to write", "is not authorized to write to"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, scheme, "app:secret@"+plain)
			if err := b.Publish(b.names[0], []byte("bad")); err != nil {
				t.Fatal(err)
			}
			reported := make(chan string, 1000)
			b.user = c.url + ":secret@"
			end := b.member(t, b.Source(), nil, func(cfg *rota.Config) {
				cfg.Handle = func(context.Context, rota.Message) error { return rota.ErrBad }
				cfg.Trace = func(e rota.Event) {
					if e.Kind == rota.EventCondition && e.Condition == rota.ConditionSourceFailed {
						reported <- e.Because
					}
				}
			})
			select {
			case text := <-reported:
				for _, part := range c.says {
					if !strings.Contains(text, part) {
						t.Errorf("reported is %q, want %q in it", text, part)
					}
				}
			case <-time.After(time.Minute):
				t.Fatal("nobody reports it")
			}
			end()
		})
	}
}
