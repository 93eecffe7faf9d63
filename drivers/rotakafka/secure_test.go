package rotakafka_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

func serverTLS(t testing.TB, cert, key string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// TestKafkaSecure runs the suite over TLS with SCRAM, and a member with each other way to
// sign in. It has the machine for itself: a sign-in costs Kafka much.
func TestKafkaSecure(t *testing.T) {
	ca := certs.New(t)
	s := rotatest.StartKafkaWith(t, rotatest.KafkaSetup{Pair: ca.Pair("broker", time.Hour), Authority: ca.File, Users: map[string]string{"orders": "p-" + concealed}})
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("p-"+concealed+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := ca.Issue("client", time.Hour)
	open := func(t testing.TB, url, query string) *broker {
		b := newBroker(t, s.Addr())
		b.url = url
		return b.with("ca=" + ca.File + query)
	}
	signed, mutual := "kafka+ssl://orders@"+rotatest.KafkaSigned(s), "kafka+ssl://"+rotatest.KafkaMutual(s)
	t.Run("tests", func(t *testing.T) {
		t.Run("suite", func(t *testing.T) {
			t.Parallel()
			rotatest.Source(t, func(t *testing.T) rotatest.Broker {
				return unwired{open(t, signed, "&sasl=scram-sha-512&password-file="+file)}
			})
		})
		t.Run("mistakes", func(t *testing.T) {
			t.Parallel()
			foreign := certs.New(t)
			wrong, its := foreign.Issue("stranger", time.Hour)
			for name, c := range map[string]struct {
				url, query, says string
				permanent        bool
			}{
				"wrong password by PLAIN": {"kafka+ssl://orders:wrong@" + rotatest.KafkaSigned(s), "&sasl=plain", "the broker refuses this user or password", true},
				"wrong password by SCRAM": {"kafka+ssl://orders:wrong@" + rotatest.KafkaSigned(s), "&sasl=scram-sha-256", "the broker refuses this user or password", true},
				"no sign-in":              {"kafka+ssl://" + rotatest.KafkaSigned(s), "", "the broker closed the connection at once", false},
				"no certificate":          {mutual, "", "certificate", false},
				"a stranger's":            {mutual, "&cert=" + wrong + "&key=" + its, "certificate", false},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				_, err := open(t, c.url, c.query).open().Partitions(ctx)
				cancel()
				if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, rota.ErrPermanent) != c.permanent {
					t.Errorf("%s: %v; want %s, permanent %v", name, err, c.says, c.permanent)
				}
			}
		})
		for name, b := range map[string][2]string{
			"PLAIN":         {signed, "&sasl=plain&password-file=" + file},
			"SCRAM-SHA-256": {signed, "&sasl=scram-sha-256&password-file=" + file},
			"mTLS":          {mutual, "&cert=" + cert + "&key=" + key},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b, l := open(t, b[0], b[1]), newLedger(t)
				b.publish(b.names[0], 1, 3)
				l.member(b.open())
				l.handled(b.names[0], 3)
			})
		}
	})
}

// unwired hides that the broker has a wire: one without TLS, or to one of several brokers.
type unwired struct{ b *broker }

func (s unwired) Source() rota.Source  { return s.b.Source() }
func (s unwired) Partitions() []string { return s.b.Partitions() }
func (s unwired) Publish(partition string, values ...[]byte) error {
	return s.b.Publish(partition, values...)
}
func (s unwired) Dead() ([][]byte, error) { return s.b.Dead() }
