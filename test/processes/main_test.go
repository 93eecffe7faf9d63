//go:build linux

package processes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rota-dev/rota/rotatest"
)

var built = struct {
	sync.Mutex
	dir  string
	bins map[string]string // by tags
}{bins: map[string]string{}}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleVar)]; role != nil {
		err := role()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(ending(err))
	}
	dir, err := os.MkdirTemp("", "rota-processes")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir = dir
	code := m.Run()
	for _, s := range []*rotatest.SharedServer{rabbitMQ, activeMQ, kafka, zooKeeper} {
		s.Close()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// program is rota as it is now.
func program(t testing.TB) string { return build(t, "") }

// build makes rota with the given build tags, once.
func build(t testing.TB, tags string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if bin := built.bins[tags]; bin != "" {
		return bin
	}
	bin := filepath.Join(built.dir, "rota"+tags)
	if out, err := exec.Command("go", "build", "-tags", tags, "-o", bin, "github.com/rota-dev/rota/cmd/rota").CombinedOutput(); err != nil {
		t.Fatalf("rota does not build: %v\n%s", err, out)
	}
	built.bins[tags] = bin
	return bin
}
