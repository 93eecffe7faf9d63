package rotarabbit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

// list lists the partitions of a source.
func list(t testing.TB, url string) error {
	src := rotarabbit.Source(url)
	defer src.(io.Closer).Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := src.Partitions(ctx)
	if text := fmt.Sprintf("%v %+v %#v", src, src, err); strings.Contains(text, hidden) {
		t.Errorf("it tells the secret: %s", text)
	}
	return err
}

const hidden = "hunter2SECRET"

// TestTLS connects with certificates, good ones and others, and signs in with a password, a
// password file and a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := certs.New(t), certs.New(t)
	cert, key := ca.Issue("server", time.Hour)
	ca.Issue("guest", time.Hour)
	s := rotatest.StartRabbitMQWith(t, rotatest.RabbitSetup{CA: ca.File, Cert: cert, Key: key})
	plain := rabbit.Server(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("guest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := "amqps://" + s.Addr() + "?queues=secure.{0..1}&declare=classic"
	for _, c := range []struct {
		name, url, says string
		ends            bool
	}{
		{"a password", at + "&ca=" + ca.File, "", false},
		{"a password file", "amqps://guest@" + s.Addr() + "?queues=q&ca=" + ca.File + "&password-file=" + file, "", false},
		{"a certificate", at + "&" + ca.Parameters("guest"), "", false},
		{"an unknown authority", at + "&ca=" + other.File, "certificate signed by unknown authority", false},
		{"the system's authorities", at, "certificate signed by unknown authority", false},
		{"an expired certificate", "amqps://" + other.Expired() + "?queues=q&ca=" + other.File, "expired", false},
		{"no such file", at + "&ca=" + ca.File + ".not", "the file of trusted certificates", true},
		{"a wrong password", "amqps://guest:" + hidden + "@" + s.Addr() + "?queues=q&ca=" + ca.File, "refuses user guest or its password", false},
		{"a server without TLS", "amqps://" + plain.Addr() + "?queues=q&ca=" + ca.File, "first record does not look like a TLS handshake", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := list(t, c.url)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) || c.ends != errors.Is(err, rota.ErrPermanent) {
				t.Errorf("%v, want %q, permanent: %v", err, c.says, c.ends)
			}
		})
	}
	t.Run("a member", func(t *testing.T) {
		src := rotarabbit.Source(strings.Replace(at, "&declare=classic", "", 1) + "&ca=" + ca.File + "&management=" + neturl.QueryEscape("https://"+s.Admin()))
		pub := rotarabbit.Source(at + "&ca=" + ca.File)
		t.Cleanup(func() { src.(io.Closer).Close(); pub.(io.Closer).Close() })
		if err := pub.(interface {
			Publish(context.Context, string, ...[]byte) error
		}).Publish(t.Context(), "secure.0", []byte("1")); err != nil {
			t.Fatal(err)
		}
		newMember(t, src).handles("secure.0", 1)
	})
}

// TestServerAway names two servers of which one is away.
func TestServerAway(t *testing.T) {
	t.Parallel()
	s := rabbit.Server(t)
	for _, servers := range []string{"127.0.0.1:1," + s.Addr(), s.Addr() + ",127.0.0.1:1"} {
		if err := list(t, "amqp://"+servers+"?queues=q"); err != nil {
			t.Errorf("%s: %v", servers, err)
		}
	}
	err := list(t, "amqp://127.0.0.1:1,127.0.0.1:2?queues=q")
	if err == nil || strings.Count(err.Error(), "connection refused") != 2 || strings.Count(err.Error(), "rotarabbit:") != 1 {
		t.Errorf("no server is there: %v", err)
	}
}
