package rotaetcd_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/drivers/rotaetcd"
)

// TestSecretsStaySecret prints what can be printed of a store with a password, before and
// after its first call, and its log.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(hidden), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, times := range map[os.FileMode]int{0o600: 0, 0o644: 1} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{"etcd://ada@" + f.addr + "?password-file=" + file, "etcd://ada:" + hidden + "@" + f.addr} {
			var said strings.Builder
			s := rotaetcd.Store(url, rotaetcd.Log(slog.New(slog.NewTextHandler(&said, nil))))
			silent(t, s)
			_, err := s.Get(t.Context(), "k") // the fake knows no users
			if err == nil {
				t.Error("the user was not asked for")
			}
			silent(t, s, err, said.String())
			s.Close()
			want := times
			if !strings.Contains(url, "file") {
				want = 0
			}
			if n := strings.Count(said.String(), "other users may read this secret"); n != want {
				t.Errorf("mode %04o: logged %d times:\n%s", mode, n, said.String())
			}
		}
	}
}
