package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
)

// A Net has a network of its own for each of several servers, and a bridge between them and the
// network of this process. So one of them can be cut off, in one direction too, and neither side
// is told.
type Net struct {
	name  string   // of the bridge
	sites []string // names of the networks
	base  [4]byte  // of the addresses: the bridge has the next one, and the networks those after it
}

// Refused is the error of a Net that the kernel, or who we are, does not allow.
type Refused struct{ Err error }

func (r *Refused) Error() string { return "a network of its own: " + r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

// mostSites is how many networks fit into the addresses of a Net.
const mostSites = 5

var nets atomic.Int32

// NewNet makes n networks. Close removes them.
func NewNet(n int) (*Net, error) {
	i, pid := int(nets.Add(1)), os.Getpid()
	if n > mostSites {
		return nil, fmt.Errorf("%d networks, and there are addresses for %d", n, mostSites)
	}
	// A guess that others do not use these addresses.
	x := &Net{name: fmt.Sprintf("rb%d-%d", pid, i), base: [4]byte{10, byte(128 + pid%64), byte(pid / 64 % 256), byte(i % 32 * 8)}}
	err := x.ip("link add "+x.name+" address "+device(0)+" type bridge", "addr add "+x.addr(0)+"/29 dev "+x.name, "link set "+x.name+" up")
	for k := range n {
		if err == nil {
			err = x.add(k)
		}
	}
	if err != nil {
		return nil, errors.Join(&Refused{err}, x.Close())
	}
	return x, nil
}

// add makes the kth network. Everybody knows the address of everybody's device beforehand: to
// ask for it takes both directions.
func (x *Net) add(k int) error {
	site := fmt.Sprintf("%s-%d", x.name, k)
	if err := x.ip("netns add " + site); err != nil {
		return err
	}
	x.sites = append(x.sites, site)
	wire := x.wire(k)
	err := x.ip("link add "+wire+" type veth peer name far netns "+site, "link set "+wire+" master "+x.name, "link set "+wire+" up",
		"-n "+site+" link set far address "+device(k+1), "-n "+site+" addr add "+x.addr(k+1)+"/29 dev far", "-n "+site+" link set far up", "-n "+site+" link set lo up",
		"neigh replace "+x.addr(k+1)+" lladdr "+device(k+1)+" dev "+x.name+" nud permanent",
		"-n "+site+" neigh replace "+x.addr(0)+" lladdr "+device(0)+" dev far nud permanent")
	for other := range k {
		for _, pair := range [][2]int{{k, other}, {other, k}} {
			if err == nil {
				err = x.ip("-n " + x.sites[pair[0]] + " neigh replace " + x.addr(pair[1]+1) + " lladdr " + device(pair[1]+1) + " dev far nud permanent")
			}
		}
	}
	return err
}

// device is the hardware address of the kth address.
func device(k int) string { return fmt.Sprintf("02:72:6f:74:61:%02x", k) }

// wire is this end of the wire to the kth network.
func (x *Net) wire(k int) string { return fmt.Sprintf("%sw%d", x.name, k) }

// addr is the kth address.
func (x *Net) addr(k int) string {
	return fmt.Sprintf("%d.%d.%d.%d", x.base[0], x.base[1], x.base[2], int(x.base[3])+1+k)
}

// ip runs some commands of iproute2.
func (x *Net) ip(commands ...string) error {
	for _, c := range commands {
		if err := shell("ip", strings.Fields(c)...); err != nil {
			return err
		}
	}
	return nil
}

// shell runs one command, whose error has what it printed.
func shell(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// Close removes the networks. The servers in them have ended.
func (x *Net) Close() error {
	var errs []error
	for _, site := range x.sites {
		errs = append(errs, x.ip("netns del "+site))
	}
	x.sites = nil
	exec.Command("ip", "link", "del", x.name).Run() // it may never have come to be
	return errors.Join(errs...)
}

// house makes a server live in the kth network, or beside the bridge if k is negative. Its ports
// are chosen and nothing was told of them yet. Without a Net it stays where it is.
func (x *Net) house(s *Server, k int) {
	if x == nil {
		return
	}
	for i := range s.ports {
		s.ports[i].host = x.addr(k + 1)
	}
	s.addr = s.ports[0].addr()
	if k >= 0 {
		s.in, s.site = x, k
	}
}

// command is what to put before a command so that it runs in the kth network.
func (x *Net) command(k int) []string { return []string{"ip", "netns", "exec", x.sites[k]} }

// CutOff cuts a server of a Net off. deaf: nothing arrives at it; mute: nothing of it arrives
// anywhere; neither: the cut is over. Connections stay, as far as both sides can tell, and what
// was sent is sent again after the cut.
func (s *Server) CutOff(deaf, mute bool) error {
	if s.in == nil {
		return s.failed("cut off", errors.New("it has no network of its own"))
	}
	var errs []error
	if deaf != s.deaf {
		s.deaf = deaf
		errs = append(errs, drop(deaf, s.in.wire(s.site)))
	}
	if mute != s.mute {
		s.mute = mute
		errs = append(errs, drop(mute, "far", "-n", s.in.sites[s.site]))
	}
	return errors.Join(errs...)
}

// drop makes a device lose all that it is to send, by a queue without room, or no more of it.
func drop(all bool, device string, where ...string) error {
	args := append(where, "qdisc", "del", "dev", device, "root")
	if all {
		args = append(where, "qdisc", "replace", "dev", device, "root", "pfifo", "limit", "0")
	}
	return shell("tc", args...)
}
