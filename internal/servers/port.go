package servers

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// A port is one of 127.0.0.1 that stays ours while no server listens on it, so
// that a killed one finds it free again. Two things could take it meanwhile:
//
//   - an outgoing connection. The kernel picks their ports from 32768 up (other
//     systems from 49152); a client that tries again and again to reach a dead
//     server there would sooner or later be given that very port and connect to
//     itself. So ours are all below.
//   - another test, also in another process. So whoever has the TCP port keeps
//     the UDP port of the same number bound: the servers want TCP alone, and the
//     kernel frees it whatever happens to us.
type port struct {
	host   string // its address, if that is another than 127.0.0.1: see Net
	number int
	claim  net.PacketConn
}

const (
	lowestPort  = 20000
	highestPort = 32000
)

func reserve() (port, error) {
	var last error
	for range 1000 {
		p := port{number: lowestPort + rand.IntN(highestPort-lowestPort)}
		claim, err := net.ListenPacket("udp4", p.addr())
		if err != nil {
			last = err
			continue
		}
		tcp, err := net.Listen("tcp4", p.addr())
		if err != nil {
			last = err
			claim.Close()
			continue
		}
		tcp.Close()
		p.claim = claim
		return p, nil
	}
	return port{}, errors.Join(errors.New("no free port"), last)
}

// Reserve keeps an address of 127.0.0.1 free for a server that something else starts, until
// release is called.
func Reserve() (addr string, release func(), err error) {
	p, err := reserve()
	if err != nil {
		return "", nil, err
	}
	return p.addr(), p.release, nil
}

func (p port) String() string { return strconv.Itoa(p.number) }
func (p port) addr() string   { return p.at() + ":" + p.String() }
func (p port) at() string     { return cmp.Or(p.host, "127.0.0.1") }
func (p port) release()       { p.claim.Close() }
