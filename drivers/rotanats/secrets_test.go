package rotanats_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// TestASecretThatIsSoonGuessedIsRefused checks short secrets of servers that other hosts can
// reach.
func TestASecretThatIsSoonGuessedIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listen string
		says   string
	}{
		"a token of one letter": {"nats://0.0.0.0:1?token=x", "its token has 1 bytes"},
		"a short password":      {"nats://ada:1234567@[::]:1", "its password has 7 bytes"},
	} {
		s, err := embedded.Serve("embed:"+filepath.Join(t.TempDir(), "data"), c.listen)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := serveBy(t, "nats://HOST?token=x"); works(t, rotanats.Store(s.URL()+"?token=x")) != nil {
		t.Error("on loopback a short token does not do")
	}
}

// TestAnExposedSecretIsLogged checks that each store logs an exposed secret once.
func TestAnExposedSecretIsLogged(t *testing.T) {
	t.Parallel()
	s := serveBy(t, "nats://HOST?token="+hidden)
	file := filepath.Join(t.TempDir(), "token")
	for mode, times := range map[os.FileMode]int{0o600: 0, 0o644: 1} {
		if err := os.WriteFile(file, []byte(hidden), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		if err := works(t, rotanats.Store(s.URL()+"?token-file="+file, rotanats.Log(slog.New(slog.NewTextHandler(&said, nil))))); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(said.String(), "other users may read this secret"); n != times || times > 0 && !strings.Contains(said.String(), "0644") {
			t.Errorf("mode %04o: logged %d times:\n%s", mode, n, said.String())
		}
		silent(t, "the log", said.String())
	}
}
