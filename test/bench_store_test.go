//go:build linux

package test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/rotatest"
)

// TestBenchStore measures each store and then asks its server, by means that are not
// rota's, whether anything is there.
func TestBenchStore(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "rota")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/rota-dev/rota/cmd/rota").CombinedOutput(); err != nil {
		t.Fatalf("rota does not build: %v\n%s", err, out)
	}
	for name, start := range map[string]func(*testing.T) (url string, rest func(t *testing.T) string){
		"etcd":      emptyEtcd,
		"zookeeper": emptyZooKeeper,
		"redis":     emptyRedis,
		"nats": func(t *testing.T) (string, func(*testing.T) string) { // its deletion marks stay for an hour
			return "nats://" + rotatest.StartNATS(t).Addr() + "?sync=always", func(*testing.T) string { return "" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, rest := start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, "bench", "store", "--members", "20", "--each", "500ms", "-o", "json")
			cmd.Env = append(os.Environ(), "ROTA_STORE="+url)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, &stderr)
			}
			var r struct {
				Class       string
				CAS         struct{ Calls int } `json:"compare_and_set"`
				FanOut      []any               `json:"fan_out"`
				PerSecond   float64             `json:"heartbeats_per_second"`
				Recommended struct {
					Lease float64 `json:"lease_s"`
				}
			}
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatal(err)
			}
			if r.Class != "B" || r.CAS.Calls == 0 || len(r.FanOut) != 3 || r.PerSecond <= 0 || r.Recommended.Lease < 5 {
				t.Errorf("%s", out)
			}
			if left := rest(t); left != "" {
				t.Errorf("it leaves behind: %s", left)
			}
		})
	}
}

func emptyEtcd(t *testing.T) (string, func(*testing.T) string) {
	s := rotatest.StartEtcd(t)
	return "etcd://" + s.Addr(), func(t *testing.T) string {
		answer, err := http.Post("http://"+s.Addr()+"/v3/kv/range", "application/json", strings.NewReader(`{"key":"AA==","range_end":"AA==","keys_only":true}`)) // all keys
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || !strings.Contains(string(text), `"header"`) {
			t.Fatalf("%s, %v", text, err)
		}
		if strings.Contains(string(text), `"kvs"`) {
			return string(text)
		}
		return ""
	}
}

func emptyZooKeeper(t *testing.T) (string, func(*testing.T) string) {
	s := rotatest.StartZooKeeper(t)
	return "zk://" + s.Addr() + "/rota", func(t *testing.T) string {
		z, _, err := zk.Connect([]string{s.Addr()}, 10*time.Second, zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		nodes, _, err := z.Children("/rota") // which the first member would have made, too
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(nodes, " ")
	}
}

func emptyRedis(t *testing.T) (string, func(*testing.T) string) {
	s := rotatest.StartRedis(t)
	return s.URL(), func(t *testing.T) string {
		if n := redisSize(t, s.Addr()); n != ":0" {
			return n + " keys"
		}
		return ""
	}
}

// redisSize is the number of keys in a Redis, as it answers.
func redisSize(t *testing.T, addr string) string { return answer(t, addr, "DBSIZE") }

// TestRemoveSparesWhatIsThere asks stores to remove a group that has a record.
func TestRemoveSparesWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]rota.Store{
		"zookeeper": rotazk.Store("zk://" + rotatest.StartZooKeeper(t).Addr()),
		"redis":     rotaredis.Store(rotatest.StartRedis(t).URL()),
	} {
		defer s.Close()
		remove := s.(interface {
			Remove(ctx context.Context, group string) error
		}).Remove
		if err := remove(t.Context(), "never"); err != nil {
			t.Errorf("%s: a group that never was: %v", name, err)
		}
		rev, err := s.Put(t.Context(), "g/k", []byte("kept"), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := remove(t.Context(), "g"); err == nil {
			t.Errorf("%s: a group with a record was removed", name)
		}
		if e, err := s.Get(t.Context(), "g/k"); err != nil || e.Rev != rev || string(e.Value) != "kept" {
			t.Errorf("%s: %v, %v", name, e, err)
		}
		if err := s.Delete(t.Context(), "g/k", rev); err != nil {
			t.Fatal(err)
		}
		if err := remove(t.Context(), "g"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if next, err := s.Put(t.Context(), "g/k", nil, 0); err != nil || next == rev {
			t.Errorf("%s: after it was removed: revision %d, %v", name, next, err)
		}
	}
}
