package rotanats_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/internal/certs"
)

// rotated is a server with mTLS, whose certificate authority is replaced.
type rotated struct {
	t    *testing.T
	ca   *certs.Authority
	data string
	*embedded.Server
}

func newRotated(t *testing.T) *rotated {
	t.Helper()
	r := &rotated{t: t, ca: certs.New(t), data: filepath.Join(t.TempDir(), "data")}
	r.renew()
	r.Server = serveTCP(t, r.data, r.url("HOST"))
	t.Cleanup(func() { r.Close() })
	return r
}

// renew replaces all certificates by those of another authority.
func (r *rotated) renew() {
	r.t.Helper()
	r.ca.Renew()
	r.ca.Issue("server", time.Hour)
	r.ca.Issue("client", time.Hour)
}

func (r *rotated) file(name string) string { return filepath.Join(r.ca.Dir, name) }

// url is the server's address.
func (r *rotated) url(host string) string {
	return "nats://" + host + "?cert=" + r.file("server.pem") + "&key=" + r.file("server.key") + "&ca=" + r.file("ca.pem") + "&token=" + hidden
}

func (r *rotated) serve(listen string) {
	r.t.Helper()
	var err error
	r.Server, err = embedded.Serve("embed:"+r.data, r.url(listen))
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rotated) client() rota.Store {
	s := rotanats.Store("tls://" + r.Addr() + "?ca=" + r.file("ca.pem") + "&cert=" + r.file("client.pem") + "&key=" + r.file("client.key") + "&token=" + hidden)
	r.t.Cleanup(func() { s.Close() })
	return s
}

// reads waits until the store answers, and returns the last error if it does not.
func reads(ctx context.Context, s rota.Store) (err error) {
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err = s.Get(once, "k")
		cancel()
		if err == nil || err == rota.ErrNotFound {
			return nil
		}
	}
	return err
}

// TestAClientReadsItsCertificatesAnew replaces all certificates while a client is
// connected: it connects again with the new ones.
func TestAClientReadsItsCertificatesAnew(t *testing.T) {
	t.Parallel()
	r := newRotated(t)
	s := r.client()
	if _, err := s.Put(t.Context(), "k", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	r.renew()
	if _, err := s.Get(t.Context(), "k"); err != nil {
		t.Errorf("a connection that was there: %v", err)
	}
	at := r.Addr()
	r.Close()
	r.serve(at)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := reads(ctx, s); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}

// TestAServerShowsTheNewestCertificate replaces a server's certificates while it runs. It
// uses the new ones, and keeps the last while the files cannot be read.
func TestAServerShowsTheNewestCertificate(t *testing.T) {
	t.Parallel()
	r := newRotated(t)
	former := filepath.Join(t.TempDir(), "former")
	if err := os.CopyFS(former, os.DirFS(r.ca.Dir)); err != nil {
		t.Fatal(err)
	}
	old := &rotated{t: t, ca: &certs.Authority{Dir: former}, Server: r.Server}
	r.renew()
	if err := works(t, r.client()); err != nil {
		t.Errorf("with the new certificates: %v", err)
	}
	if err := works(t, old.client()); err == nil {
		t.Error("with the former ones a client is let in")
	}
	for _, name := range []string{"server.pem", "ca.pem"} {
		if err := os.Rename(r.file(name), r.file(name)+".away"); err != nil {
			t.Fatal(err)
		}
	}
	away := rotanats.Store("tls://" + r.Addr() + "?ca=" + r.file("ca.pem.away") + "&cert=" + r.file("client.pem") + "&key=" + r.file("client.key") + "&token=" + hidden)
	if err := works(t, away); err != nil {
		t.Errorf("while the files are away: %v", err)
	}
}

// TestWhyAConnectionDoesNotComeBackIsTold replaces a client's certificate by a file that is
// none: the errors of calls name the cause.
func TestWhyAConnectionDoesNotComeBackIsTold(t *testing.T) {
	t.Parallel()
	r := newRotated(t)
	s := r.client()
	if err := reads(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.file("client.pem"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := r.Addr()
	r.Close()
	r.serve(at)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err := s.Get(once, "k")
		cancel()
		if err == nil || ctx.Err() != nil {
			t.Fatalf("told: %v", err)
		}
		if strings.Contains(err.Error(), "certificate client.pem with key client.key") {
			return
		}
	}
}
