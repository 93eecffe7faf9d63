package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/proc"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// In a pid namespace of its own a test can give a stranger any process id, which
// elsewhere takes as long as it takes for all ids to be used up.

const pidNamespaceArg = "in-a-pid-namespace"

func init() {
	if len(os.Args) == 4 && os.Args[1] == pidNamespaceArg {
		if err := frozenForAWholeRoundOfIDs(os.Args[2], os.Args[3] == "watchdog dies"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// frozenForAWholeRoundOfIDs freezes a rota until its commands have ended and
// strangers have their ids, and lets it go on: no stranger may die. If the watchdog
// dies meanwhile, rota has to end by itself what it believes to be its commands.
func frozenForAWholeRoundOfIDs(dir string, watchdogDies bool) error {
	syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf(trial.NotAllowed+"mount /proc: %w", err)
	}
	const partitions = 16
	rota := exec.Command("/proc/self/exe", "run", "--group", "g", "--store", "mem:", "--source", "none:?partitions="+strconv.Itoa(partitions), "--new-group",
		"--lease", "1s", "--heartbeat", "300ms", "--quiet", "--own", "exec:echo $$ >> "+dir+"/$ROTA_PARTITION; exec sleep 1000")
	rota.Env = append(os.Environ(), "ROTA_TEST_AS=rota")
	rota.Stderr = os.Stdout
	if err := rota.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { rota.Wait(); close(ended) }()
	commands := func() (all []int) {
		for i := range partitions {
			b, _ := os.ReadFile(fmt.Sprintf("%s/p%d", dir, i))
			all = append(all, trial.PIDs(string(b))...)
		}
		return all
	}
	wait := func(what string, done func() bool) error {
		for end := time.Now().Add(trial.Patience); !done(); time.Sleep(2 * time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("waited %v for %s", trial.Patience, what)
			}
		}
		return nil
	}
	there := func(pid int) bool {
		syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // we are this namespace's init: orphans are ours
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return err == nil
	}
	if err := wait("the commands", func() bool { return len(commands()) == partitions }); err != nil {
		return err
	}
	first := commands()
	rota.Process.Signal(syscall.SIGSTOP)
	if watchdogDies {
		if err := wait("rota to be frozen", func() bool { return isStopped(rota.Process.Pid) }); err != nil {
			return err
		}
		command, _ := proc.Read(first[0])
		syscall.Kill(command.Parent, syscall.SIGKILL)
	}
	if err := wait("the end of the commands", func() bool { return !slices.ContainsFunc(first, there) }); err != nil {
		return err
	}
	gone := map[int]chan struct{}{}
	for _, pid := range first {
		stranger, err := withID(pid)
		if err != nil {
			return err
		}
		if stranger == nil { // somebody else was given it meanwhile
			continue
		}
		gone[pid] = make(chan struct{})
		go func() { stranger.Wait(); close(gone[pid]) }()
	}
	rota.Process.Signal(syscall.SIGCONT)
	over := func() bool {
		select {
		case <-ended:
			return true
		default:
			return len(commands()) >= 2*partitions
		}
	}
	if err := wait("commands of a new lease, or the end of rota", over); err != nil {
		return err
	}
	rota.Process.Kill()
	<-ended
	killed := 0
	for _, c := range gone {
		select {
		case <-c:
			killed++
		default:
		}
	}
	if killed > 0 || len(gone) == 0 {
		return fmt.Errorf("%d of %d strangers were killed", killed, len(gone))
	}
	fmt.Printf("%d of %d strangers were killed\n", killed, len(gone))
	return nil
}

// withID starts a process, in a process group of its own, that has this id.
func withID(pid int) (*exec.Cmd, error) {
	for range 20 {
		c := exec.Command("sleep", "1000")
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			return nil, fmt.Errorf(trial.NotAllowed+"%w", err)
		}
		if err := c.Start(); err != nil {
			return nil, err
		}
		if c.Process.Pid == pid {
			return c, nil
		}
		c.Process.Kill()
		c.Wait()
	}
	return nil, nil
}

func TestARotaThatWakesKillsNoStranger(t *testing.T) {
	for _, what := range []string{"lease ends", "watchdog dies"} {
		t.Run(what, func(t *testing.T) { inPidNamespace(t, t.TempDir(), what) })
	}
}

func inPidNamespace(t *testing.T, dir, what string) {
	var out []byte
	var err error
	for _, flags := range []uintptr{syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER} {
		c := exec.Command("/proc/self/exe", pidNamespaceArg, dir, what)
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if flags&syscall.CLONE_NEWUSER != 0 {
			c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		out, err = c.CombinedOutput()
		if c.Process != nil && !strings.Contains(string(out), trial.NotAllowed) {
			break
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "p*")); len(left) > 0 {
			for _, f := range left {
				os.Remove(f)
			}
		}
		if c.Process == nil {
			out = fmt.Appendf(nil, "%sa pid namespace: %v", trial.NotAllowed, err)
		}
	}
	if _, why, ok := strings.Cut(string(out), trial.NotAllowed); ok {
		t.Skip(trial.NotAllowed + strings.TrimSpace(why))
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("%s", out)
}

func isStopped(pid int) bool {
	s, ok := proc.Read(pid)
	return ok && s.State == 'T'
}
