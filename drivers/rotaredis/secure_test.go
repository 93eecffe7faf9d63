package rotaredis_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

// TestSecureFleets connects to Sentinels and to a Cluster by TLS, with certificates on both
// sides and a password.
func TestSecureFleets(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	cert, key := ca.Issue("both", time.Hour)
	set := rotatest.RedisSetup{Password: hidden, CA: ca.File, Cert: cert, Key: key}
	query := "?ca=" + ca.File + "&cert=" + cert + "&key=" + key
	for name, start := range map[string]func(t *testing.T) (scheme, rest string){
		"Sentinels": func(t *testing.T) (string, string) {
			f, _, _ := startSentinel(t, set)
			return "rediss+sentinel://", f.hosts() + f.path
		},
		"Cluster": func(t *testing.T) (string, string) {
			return "rediss+cluster://", startCluster(t, set, 0).hosts()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme, rest := start(t)
			if err := works(t, rotaredis.Store(scheme+":"+hidden+"@"+rest+query)); err != nil {
				t.Error(err)
			}
			s := rotaredis.Store(scheme + ":x" + hidden + "@" + rest + query)
			err := works(t, s)
			if err == nil || !strings.Contains(err.Error(), "refuses this user or password") {
				t.Errorf("with a wrong password: %v", err)
			}
			silent(t, name, err, s)
		})
	}
}

// TestFilesAreReadAnew replaces all certificates of a server and its
// client while the client is connected. When the server comes back, so does the client.
func TestFilesAreReadAnew(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	cert, key := ca.Issue("server", time.Hour)
	mine, myKey := ca.Issue("client", time.Hour)
	r := rotatest.StartRedisWith(t, rotatest.RedisSetup{CA: ca.File, Cert: cert, Key: key})
	s := rotaredis.Store("rediss://" + r.Addr() + "?ca=" + ca.File + "&cert=" + mine + "&key=" + myKey)
	defer s.Close()
	put(t, s, "g/k", "before")
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	ca.Renew() // the same files
	ca.Issue("server", time.Hour)
	ca.Issue("client", time.Hour)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, s, "g/k", "after")
	if e, err := s.Get(t.Context(), "g/k"); err != nil || string(e.Value) != "after" {
		t.Errorf("%s, %v", e.Value, err)
	}
}

// TestAPasswordFileIsReadAnew changes the password of a server.
func TestAPasswordFileIsReadAnew(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedis(t)
	do := admin(t, r)
	do("ACL", "SETUSER", "ada", "on", ">"+hidden, "~*", "&*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(hidden)
	s := rotaredis.Store("redis://ada@" + r.Addr() + "?password-file=" + file)
	defer s.Close()
	put(t, s, "g/k", "before")
	do("ACL", "SETUSER", "ada", "resetpass", ">"+hidden+"2")
	do("CLIENT", "KILL", "USER", "ada")
	eventually(t, "the old password is refused", func(ctx context.Context) error {
		if _, err := s.Get(ctx, "g/k"); err == nil || !strings.Contains(err.Error(), "refuses this user or password") {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
	write(hidden + "2\n")
	put(t, s, "g/k", "after")
}

// TestAnExposedSecretIsLogged checks that each store logs an exposed secret once, and no
// secret.
func TestAnExposedSecretIsLogged(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedisWith(t, rotatest.RedisSetup{Password: hidden})
	file := filepath.Join(t.TempDir(), "password")
	for mode, times := range map[os.FileMode]int{0o600: 0, 0o644: 1} {
		if err := os.WriteFile(file, []byte(hidden), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		var said lockedText
		s := rotaredis.Store("redis://"+r.Addr()+"?password-file="+file, rotaredis.Log(slog.New(slog.NewTextHandler(&said, nil))))
		if err := works(t, s); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(said.String(), "other users may read this secret"); n != times || times > 0 && !strings.Contains(said.String(), "0644") {
			t.Errorf("mode %04o: logged %d times:\n%s", mode, n, said.String())
		}
		silent(t, "the log", said.String(), s)
	}
}

// A lockedText is a log that several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestNewRefusesWhatCannotWork checks that a mistake in a URL is found before anything is
// dialled.
func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"redis//h":                        "Config.Store: rotaredis: not an address of Redis",
		"redis://h?prefx=b":               "Config.Store: rotaredis: the URL has an unknown parameter prefx",
		"redis+cluster://h?sync=always":   "sync: a failover may lose acknowledged writes",
		"redis://u:" + hidden + "@h/none": "the path of the URL is the number of a database",
	} {
		_, err := rota.New(rota.Config{Group: "g", Store: rotaredis.Store(url), Source: rotatest.NewMemSource(1, "q"),
			Handle: func(context.Context, rota.Message) error { return nil }})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("New returned %v, want %q", err, says)
		}
		silent(t, url[:5], err)
		if rotaredis.Check(url) == nil {
			t.Errorf("Check accepts %.5s", url)
		}
	}
}
