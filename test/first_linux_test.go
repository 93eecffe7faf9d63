package test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/servers"
)

// TestMembersOfYourOwn runs what the README says under that heading beside a rota up: each
// command is a member that handles messages, and all of them leave in good order.
func TestMembersOfYourOwn(t *testing.T) {
	t.Parallel()
	for _, find := range []func() (string, error){servers.FindPython, servers.FindNode} {
		if _, err := find(); err != nil && os.Getenv("ROTA_REQUIRE_REAL") == "1" {
			t.Fatalf("MISSING %v", err)
		} else if err != nil {
			t.Skipf("SKIP %v", err)
		}
	}
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## A member of your own\n")
	_, text, _ = strings.Cut(text, "```sh\n")
	text, _, _ = strings.Cut(text, "```")

	f := &folder{t: t, dir: t.TempDir(), bin: t.TempDir()}
	examples, err := filepath.Abs("../examples")
	if err == nil {
		err = os.Symlink(examples, filepath.Join(f.dir, "examples"))
	}
	if err != nil {
		t.Fatal(err)
	}
	f.build("cmd/rota")
	f.build("examples/first")
	f.start("go run ./cmd/rota up")
	f.until("rota up to have members", func() bool { return len(f.members()) == 3 })
	var said []*bytes.Buffer
	for line := range strings.Lines(text) {
		said = append(said, f.start(line))
	}
	if len(said) != 4 {
		t.Fatalf("the README has %d commands, want 4:\n%s", len(said), text)
	}
	f.until("seven members that own partitions", func() bool {
		m := f.members()
		return len(m) == 7 && !slices.Contains(slices.Collect(maps.Values(m)), 0)
	})
	for _, name := range []string{"py.txt", "js.txt"} {
		f.until(name+" to have lines", func() bool {
			b, err := os.ReadFile(filepath.Join(f.dir, name))
			return err == nil && bytes.Count(b, []byte("\n")) > 10
		})
	}
	f.end()
	if n := strings.Count(said[0].String(), ", under token "); n < 10 {
		t.Errorf("the program in Go has handled %d messages: %s", n, said[0])
	}
	if b := said[3].String(); !strings.Contains(b, "message ") {
		t.Errorf("the command has printed no message: %s", b)
	}
}

// A folder is one in which somebody tries rota.
type folder struct {
	t        *testing.T
	dir, bin string
	cmds     []*exec.Cmd
	said     []*bytes.Buffer
}

func (f *folder) build(pkg string) {
	f.t.Helper()
	if out, err := exec.Command("go", "build", "-o", f.bin+"/", "github.com/rota-dev/rota/"+pkg).CombinedOutput(); err != nil {
		f.t.Fatalf("%s does not build: %v\n%s", pkg, err, out)
	}
}

// start runs a line of a page, with the programs that were built in place of go run. What the
// process prints may be read when it has ended.
func (f *folder) start(line string) *bytes.Buffer {
	f.t.Helper()
	for _, from := range []string{"cmd/", "examples/"} {
		line = strings.ReplaceAll(line, "go run ./"+from, "exec "+f.bin+"/")
	}
	out := &bytes.Buffer{}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, out, out
	cmd.Env = append(os.Environ(), "ROTA_LEASE=10s")
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.cmds, f.said = append(f.cmds, cmd), append(f.said, out)
	f.t.Cleanup(func() { cmd.Process.Kill() })
	return out
}

// members are those that live, with the number of partitions that each runs.
func (f *folder) members() map[string]int {
	cmd := exec.Command(filepath.Join(f.bin, "rota"), "status", "-o", "json")
	cmd.Dir = f.dir
	out, _ := cmd.Output() // the exit status says that something is not at rest
	var st rota.Status
	if json.Unmarshal(out, &st) != nil {
		return nil
	}
	all := map[string]int{}
	for _, m := range st.Members {
		if m.State == rota.MemberLive {
			all[m.Name] = m.Partitions
		}
	}
	return all
}

func (f *folder) until(what string, is func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("after two minutes still not: %s", what)
		}
	}
}

// end lets everybody leave, rota up last.
func (f *folder) end() {
	f.t.Helper()
	for i, cmd := range slices.Backward(f.cmds) {
		cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			f.t.Errorf("%s: %v\n%s", cmd.Args[2], err, f.said[i])
		}
	}
}
