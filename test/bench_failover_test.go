package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rota-dev/rota/rotatest"
)

// BenchmarkFailoverOnStores measures joining, leaving and dying on each store, in turn, and
// prints the table that docs/stores/README.md has. ROTA_BENCH_ROUNDS is how often, each at
// another phase of the heartbeat; ROTA_BENCH_FOLDER keeps the figures.
func BenchmarkFailoverOnStores(b *testing.B) {
	rounds, err := strconv.Atoi(os.Getenv("ROTA_BENCH_ROUNDS"))
	if err != nil {
		rounds = 1
	}
	dir := os.Getenv("ROTA_BENCH_FOLDER")
	if dir == "" {
		dir = b.TempDir()
	}
	bin := b.TempDir()
	for name, pkg := range map[string]string{"rota": "cmd/rota", "dev": "cmd/rota/internal/dev"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, name), "github.com/rota-dev/rota/"+pkg).CombinedOutput(); err != nil {
			b.Fatalf("%s does not build: %v\n%s", pkg, err, out)
		}
	}
	stores := []struct{ name, url string }{
		{"rota", ""},
		{"rota nats", "nats://" + rotatest.StartNATS(b).Addr() + "?sync=always"},
		{"rota etcd", "etcd://" + rotatest.StartEtcd(b).Addr()},
		{"rota zookeeper", "zk://" + rotatest.StartZooKeeper(b).Addr()},
		{"rota redis", rotatest.StartRedis(b).URL()},
	}
	for b.Loop() {
		for round := range rounds {
			for _, s := range stores {
				cmd := exec.Command(filepath.Join(bin, "dev"), "bench", "failover", "--runs", "1", "--first", strconv.Itoa(round*3%10), "--report", dir,
					"--rota", filepath.Join(bin, "rota"), "--system", s.name, "--store", s.url)
				cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
				if err := cmd.Run(); err != nil {
					b.Errorf("%s: %v", s.name, err)
				}
			}
		}
	}
	table, err := exec.Command(filepath.Join(bin, "dev"), "bench", "page", dir).CombinedOutput()
	if err != nil {
		b.Errorf("%v", err)
	}
	b.Logf("\n%s", table)
}
