//go:build linux

package processes

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A netns is a network of a process's own, with one wire to the rest of the
// world. Cut, it carries nothing, and nobody is told.
type netns struct {
	t     *testing.T
	name  string
	wire  string            // this end of it
	doors map[string]string // what is at the other end, by name
}

var wires atomic.Int32

// newNetns makes a network from which the given addresses can be reached, each by
// a door of its own. Where the kernel does not allow that, the test ends.
func newNetns(t *testing.T, to map[string]string) *netns {
	t.Helper()
	i, pid := int(wires.Add(1)), os.Getpid()
	n := &netns{t: t, name: fmt.Sprintf("rota%d-%d", pid, i), wire: fmt.Sprintf("r%dw%d", pid, i), doors: map[string]string{}}
	far := fmt.Sprintf("r%dc%d", pid, i)
	net4 := fmt.Sprintf("10.%d.%d.%%d", 64+pid%64, i%256) // a guess that others do not use it
	here, there := fmt.Sprintf(net4, 1), fmt.Sprintf(net4, 2)
	t.Cleanup(func() {
		exec.Command("ip", "netns", "del", n.name).Run()
		exec.Command("ip", "link", "del", n.wire).Run()
	})
	for _, args := range []string{
		"netns add " + n.name,
		"link add " + n.wire + " type veth peer name " + far,
		"link set " + far + " netns " + n.name,
		"addr add " + here + "/30 dev " + n.wire,
		"link set " + n.wire + " up",
		"-n " + n.name + " addr add " + there + "/30 dev " + far,
		"-n " + n.name + " link set " + far + " up",
		"-n " + n.name + " link set lo up",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Skipf("NOT ALLOWED: a network of its own: ip %s: %v: %s", args, err, out)
		}
	}
	for name, addr := range to {
		n.doors[name] = door(t, here, addr)
	}
	return n
}

// mirror lets processes that live there reach something at the address that it has elsewhere:
// a process of that network carries connections to its door.
func (n *netns) mirror(name, addr string) {
	n.t.Helper()
	argv := append(n.within(), os.Args[0])
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), roleVar+"=door", taskVar+"="+addr+" "+n.doors[name])
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		n.t.Fatalf("there is no door: %q, %v", said, err)
	}
	n.doors[name] = addr
}

// beDoor carries connections from one address to another until it is killed.
func beDoor() error {
	from, to, _ := strings.Cut(os.Getenv(taskVar), " ")
	l, err := net.Listen("tcp", from)
	if err != nil {
		return err
	}
	fmt.Println("open")
	return carryAll(l, to)
}

// within is what to put before a command so that it lives there.
func (n *netns) within() []string { return []string{"ip", "netns", "exec", n.name} }

func (n *netns) cut()  { n.set("down") }
func (n *netns) heal() { n.set("up") }

func (n *netns) set(state string) {
	if out, err := exec.Command("ip", "link", "set", n.wire, state).CombinedOutput(); err != nil {
		n.t.Errorf("the wire of %s: %v: %s", n.name, err, out)
	}
}

// door lets whoever knocks at an address of host through to another address.
func door(t *testing.T, host, to string) string {
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go carryAll(l, to)
	return l.Addr().String()
}

// carryAll carries every connection that comes in, until it is closed.
func carryAll(l net.Listener, to string) error {
	for {
		near, err := l.Accept()
		if err != nil {
			return err
		}
		go carry(near, to)
	}
}

func carry(near net.Conn, to string) {
	far, err := net.Dial("tcp", to)
	if err != nil {
		near.Close()
		return
	}
	var wg sync.WaitGroup
	for _, c := range [][2]net.Conn{{near, far}, {far, near}} {
		wg.Go(func() {
			io.Copy(c[0], c[1])
			c[0].Close()
			c[1].Close()
		})
	}
	wg.Wait()
}
