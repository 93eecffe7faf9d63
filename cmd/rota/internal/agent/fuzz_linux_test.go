package agent

import (
	"errors"
	"math"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/clock"
)

// packetPair is the socket between rota and its watchdog.
func packetPair(t *testing.T) (ours, theirs *net.UnixConn) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, conn := range []**net.UnixConn{&ours, &theirs} {
		if *conn, err = packets(os.NewFile(uintptr(fds[i]), "pair")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*conn).Close() })
	}
	return ours, theirs
}

// FuzzWatchdogPacket sends a watchdog anything: it obeys what it understands, of the
// commands it has, and starts nothing without the three files of a command. A packet
// that it cannot read is rota's end. The same packets as answers do no harm to rota.
func FuzzWatchdogPacket(f *testing.F) {
	for _, s := range []string{`{"do":"start","id":7,"until":9223372036854775807,"argv":["/bin/false"]}`, `{"do":"start","id":1}`, `{"do":"lease","id":7,"until":9223372036854775807}`,
		`{"do":"lease","id":7,"until":-9223372036854775808}`, `{"do":"kill","id":7}`, `{"do":"term","id":7}`, `{"do":"term","id":-7}`, `{"id":7}`, `{}`, `null`, `[]`, `{"do":"kill","id":1e99}`, "\x00",
		`{"is":"started","id":7,"pid":-1}`, `{"is":"gone","id":7,"code":-1}`, `{"is":"escaped","pid":1,"text":"\u001b[2J"}`, `{"is":"ready"}`} {
		f.Add([]byte(s), []byte(`{"do":"kill","id":7}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if len(first) == 0 || len(first) > maxPacket || len(second) == 0 || len(second) > maxPacket {
			return // an empty packet is the end of the socket
		}
		ours, theirs := packetPair(t)
		w := &watchdog{conn: theirs, in: make(chan packet), out: make(chan reply, 16), cmds: map[int]*kept{}, mark: newMark(), escaped: map[int]bool{}}
		const nobody = math.MaxInt32 // no process has that id
		held := &kept{id: 7, pid: nobody, until: int64(clock.Boot() + time.Hour)}
		w.cmds[7] = held
		w.below = func() (map[int][]int, bool) { return nil, false }
		w.kill = func(pid int) error { t.Errorf("it ends process %d", pid); return nil }
		go w.read()
		for _, b := range [][]byte{first, second} {
			if _, err := ours.Write(b); err != nil && !errors.Is(err, syscall.EPIPE) {
				t.Fatal(err)
			}
		}
		ours.CloseWrite()
		for p := range w.in {
			until := held.until
			w.obey(p)
			if p.Do == "start" {
				if r := <-w.out; r.Is != "failed" || r.ID != p.ID {
					t.Errorf("it answers %+v", r)
				}
			}
			if until == 0 && held.until != 0 {
				t.Error("what is being ended was given time again")
			}
			w.look()
		}
		if len(w.cmds) > 1 {
			t.Errorf("it has started something: %v", w.cmds)
		}
		answers(t, first, second)
	})
}

// answers gives packets to rota, as if its watchdog had sent them.
func answers(t *testing.T, packets ...[]byte) {
	ours, theirs := packetPair(t)
	lost := make(chan error, 1)
	k := &keeper{conn: ours, mark: newMark(), cmds: map[int]*running{}, lost: func(err error) { lost <- err }, done: make(chan struct{})}
	k.tell = func(string, int, string) {}
	r := &running{replies: make(chan reply, 2)}
	k.cmds[7] = r
	for _, b := range packets {
		if _, err := theirs.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	theirs.Close()
	k.listen()
	if <-lost == nil {
		t.Error("the watchdog is gone, and rota goes on")
	}
	if r.fd != noPidfd {
		t.Error("it still holds a process")
	}
}
