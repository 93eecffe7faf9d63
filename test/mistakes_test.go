//go:build linux

package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/drivers/rotazk"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

// hidden is a password that nothing may print.
const hidden = "hunter2SECRET"

// TestMistakesWithStores makes mistakes that only a real server shows. Each is one clear
// line and its exit code, to somebody who looks at a group as to a member. The drivers'
// own tests have more of them; cmd/rota has those that need no server.
func TestMistakesWithStores(t *testing.T) {
	t.Parallel()
	rota := filepath.Join(t.TempDir(), "rota")
	if out, err := exec.Command("go", "build", "-o", rota, "github.com/rota-dev/rota/cmd/rota").CombinedOutput(); err != nil {
		t.Fatalf("rota does not build: %v\n%s", err, out)
	}
	for name, serve := range map[string]func(*testing.T) []mistake{"etcd": etcdMistakes, "zookeeper": zooKeeperMistakes, "redis": redisMistakes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, m := range serve(t) {
				t.Run(m.what, func(t *testing.T) {
					t.Parallel()
					m.try(t, rota)
				})
			}
		})
	}
}

// A mistake is in the URL of a store, or on its server.
type mistake struct {
	what string
	url  string
	code int
	says string
	run  bool // only a member notices
	many bool // a member with thousands of partitions: it reports the mistake and goes on
}

func (m mistake) try(t *testing.T, rota string) {
	member := []string{"run", "--new-group", "--own", "exec:sleep 60", "--lease", "2s", "--heartbeat", "600ms", "--orphan", "2s", "--source"}
	if m.many {
		m.goesOn(t, m.command(t.Context(), rota, append(member, "none:?partitions=20000")...))
		return
	}
	commands := map[string][]string{"run": append(member, "none:?partitions=2", "--quiet")}
	if !m.run {
		commands["status"] = []string{"status"}
	}
	for name, words := range commands {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := m.command(ctx, rota, words...)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run()
		cancel()
		line, more, _ := strings.Cut(stderr.String(), "\n")
		if code := cmd.ProcessState.ExitCode(); code != m.code || !strings.Contains(line, m.says) || more != "" || stdout.String() != "" {
			t.Errorf("rota %s: exit %d, want %d and %q:\n%s%s", name, code, m.code, m.says, &stdout, &stderr)
		}
		if strings.Contains(stderr.String(), hidden) {
			t.Errorf("rota %s tells the password: %s", name, &stderr)
		}
	}
}

// command is one of the program. Its URL is in the environment: others could read it among
// the arguments.
func (m mistake) command(ctx context.Context, rota string, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, rota, append(words, "--group", "orders")...)
	cmd.Env = append(os.Environ(), "ROTA_STORE="+m.url)
	return cmd
}

// goesOn waits until a member has reported the mistake, and lets it try a few times more:
// it reports that once, and leaves in good order.
func (m mistake) goesOn(t *testing.T, cmd *exec.Cmd) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	reports := 0
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), m.says) {
			if reports++; reports == 1 {
				time.AfterFunc(2*time.Second, func() { cmd.Process.Signal(syscall.SIGTERM) }) // the time of twenty tries
			}
		}
	}
	if cmd.Wait(); reports != 1 || cmd.ProcessState.ExitCode() != m.code {
		t.Errorf("%d reports and exit %d, want 1 and %d:\n%s", reports, cmd.ProcessState.ExitCode(), m.code, &all)
	}
}

func etcdMistakes(t *testing.T) []mistake {
	ca := certs.New(t)
	cert, key := ca.Issue("server", time.Hour)
	plain := rotatest.StartEtcd(t)
	secure := rotatest.StartEtcd(t, "--cert-file", cert, "--key-file", key)
	guarded := rotatest.StartEtcd(t)
	for _, c := range []struct{ path, body string }{
		{"user/add", `{"name":"root","password":"` + hidden + `"}`},
		{"user/grant", `{"user":"root","role":"root"}`},
		{"user/add", `{"name":"eve","password":"` + hidden + `"}`},
		{"role/add", `{"name":"reader"}`},
		{"role/grant", `{"name":"reader","perm":{"permType":"READ","key":"cm90YS8=","range_end":"cm90YTA="}}`}, // rota/ to rota0
		{"user/grant", `{"user":"eve","role":"reader"}`},
		{"enable", `{}`},
	} {
		answer, err := http.Post("http://"+guarded.Addr()+"/v3/auth/"+c.path, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", c.path, answer.Status)
		}
	}
	small := rotatest.StartEtcd(t, "--max-request-bytes", "10000")
	full := rotatest.StartEtcd(t, "--quota-backend-bytes", "65536")
	filler := rotaetcd.Store("etcd://" + full.Addr() + "/filler")
	defer filler.Close()
	for i := range 1000 {
		if _, err := filler.Put(t.Context(), fmt.Sprint("g/", i), make([]byte, 10_000), 0); err != nil {
			break
		}
	}
	return []mistake{
		{what: "a wrong URL", url: "etcd://" + plain.Addr() + "?nods=3", code: 64, says: "the URL has an unknown parameter nods"},
		{what: "a wrong port", url: "etcd://127.0.0.1:1", code: 69, says: "connection refused"},
		{what: "a wrong password", url: "etcd://eve:x" + hidden + "@" + guarded.Addr(), code: 69, says: "etcd refuses the user eve or the password"},
		{what: "another CA", url: "etcds://" + secure.Addr() + "?ca=" + certs.New(t).File, code: 69, says: "certificate signed by unknown authority"},
		{what: "an expired certificate", url: "etcds://" + ca.Expired() + "?ca=" + ca.File, code: 69, says: "certificate has expired"},
		{what: "a right is missing", url: "etcd://eve:" + hidden + "@" + guarded.Addr(), code: 69, says: "eve has no right to do this: grant it", run: true},
		{what: "no space", url: "etcd://" + full.Addr(), code: 5, says: "etcd has used up its space", run: true},
		{what: "a value over the limit", url: "etcd://" + small.Addr(), says: "the value is larger than etcd allows: raise --max-request-bytes", many: true},
	}
}

func zooKeeperMistakes(t *testing.T) []mistake {
	ca := certs.New(t)
	plain, secure := rotatest.StartZooKeeper(t), rotatest.StartZooKeeperTLS(t, ca.Pair("server", time.Hour), ca.File)
	ada := rotazk.Store("zk://ada:" + hidden + "@" + plain.Addr() + "/locked")
	defer ada.Close()
	if _, err := ada.Put(t.Context(), "orders/plan", nil, 0); err != nil {
		t.Fatal(err)
	}
	readable := rotazk.Store("zk://ada:" + hidden + "@" + plain.Addr() + "/readable?acl=auth::cdrwa,world:anyone:r")
	defer readable.Close()
	if _, err := readable.Put(t.Context(), "orders/other", nil, 0); err != nil {
		t.Fatal(err)
	}
	small := rotatest.StartZooKeeper(t, "-Djute.maxbuffer=20000")
	return []mistake{
		{what: "a wrong URL", url: "zk://" + plain.Addr() + "?chroot=x", code: 64, says: "the URL has an unknown parameter chroot"},
		{what: "a wrong port", url: "zk://127.0.0.1:1", code: 69, says: "connection refused"},
		{what: "a wrong password", url: "zk://ada:x" + hidden + "@" + plain.Addr() + "/locked", code: 69, says: "the user ada with this password may not get /locked/orders/plan"},
		{what: "another CA", url: "zks://" + secure.Addr() + "?ca=" + certs.New(t).File, code: 69, says: "certificate signed by unknown authority"},
		{what: "an expired certificate", url: "zks://" + ca.Expired() + "?ca=" + ca.File, code: 69, says: "certificate has expired"},
		{what: "a right is missing", url: "zk://" + plain.Addr() + "/readable", code: 69, says: "may not create /readable/orders/", run: true},
		{what: "a full disk", url: "zk://" + fullZooKeeper(t).Addr(), code: 69, says: "cannot be reached"}, // the server ends itself, and cannot say why
		{what: "a value over the limit", url: "zk://" + small.Addr(), says: "a server whose jute.maxbuffer is less than the ", many: true},
	}
}

// fullZooKeeper runs a server whose disk has no space left. It ends itself at its next
// write, of a session at the latest.
func fullZooKeeper(t *testing.T) *rotatest.RealServer {
	disk, fill := rotatest.SmallDisk(t)
	s := rotatest.StartZooKeeper(t)
	t.Cleanup(func() { s.Kill() }) // it may have ended itself, which is no failure here
	data := filepath.Join(s.Dir, "data")
	err := errors.Join(s.Stop(t.Context()), os.CopyFS(filepath.Join(disk, "data"), os.DirFS(data)), os.RemoveAll(data),
		os.Symlink(filepath.Join(disk, "data"), data), s.Start(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	fill()
	return s
}

func redisMistakes(t *testing.T) []mistake {
	ca := certs.New(t)
	cert, key := ca.Issue("server", time.Hour)
	plain := rotatest.StartRedis(t)
	secure := rotatest.StartRedisWith(t, rotatest.RedisSetup{CA: ca.File, Cert: cert, Key: key})
	nodes, sentinels := rotatest.StartRedisSentinel(t, rotatest.RedisSetup{})
	tell(t, plain.Addr(), "ACL SETUSER eve on >"+hidden+" ~* &* +@all -eval -evalsha")
	full := rotatest.StartRedis(t)
	tell(t, full.Addr(), "CONFIG SET maxmemory 1")
	mine := "&cert=" + cert + "&key=" + key
	return []mistake{
		{what: "a wrong URL", url: "redis://" + plain.Addr() + "/orders", code: 64, says: "the path of the URL is the number of a database"},
		{what: "a wrong port", url: "redis://127.0.0.1:1", code: 69, says: "connection refused"},
		{what: "a wrong password", url: "redis://eve:x" + hidden + "@" + plain.Addr(), code: 69, says: "the server refuses this user or password"},
		{what: "another CA", url: "rediss://" + secure.Addr() + "?ca=" + certs.New(t).File + mine, code: 69, says: "certificate signed by unknown authority"},
		{what: "an expired certificate", url: "rediss://" + ca.Expired() + "?ca=" + ca.File + mine, code: 69, says: "certificate has expired"},
		{what: "an unknown master", url: "redis+sentinel://" + sentinels[0].Addr() + "/nobody", code: 69, says: "knows no master nobody"},
		{what: "a replica", url: nodes[1].URL(), code: 69, says: "is a read-only replica of 127.0.0.1:"},
		{what: "a right is missing", url: "redis://eve:" + hidden + "@" + plain.Addr(), code: 69, says: "eval", run: true},
		{what: "no memory", url: full.URL(), code: 5, says: "maxmemory", run: true},
	}
}

// tell gives Redis a command that it answers with OK.
func tell(t *testing.T, addr, command string) {
	t.Helper()
	if line := answer(t, addr, command); line != "+OK" {
		t.Fatalf("%s: %q", command, line)
	}
}

// answer gives Redis a command and returns the first line of its answer.
func answer(t *testing.T, addr, command string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "%s\r\n", command)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %q, %v", command, line, err)
	}
	return strings.TrimSpace(line)
}
