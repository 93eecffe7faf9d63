package rotanats

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestTheEndOfASubscriptionWaitsForNoConnection ends a subscription while its connection
// connects again to a server that accepts and says nothing. The client holds its lock for
// as long as it waits for the server's first word.
func TestTheEndOfASubscriptionWaitsForNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	again := make(chan net.Conn, 1)
	go func() {
		first, err := l.Accept()
		if err != nil {
			return
		}
		first.Write([]byte("INFO {\"server_id\":\"s\",\"version\":\"2.10.0\",\"max_payload\":1048576}\r\n"))
		for lines := bufio.NewScanner(first); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "PING") {
				first.Write([]byte("PONG\r\n"))
			}
			if strings.HasPrefix(lines.Text(), "SUB") {
				break
			}
		}
		first.Close()
		if second, err := l.Accept(); err == nil {
			again <- second
		}
	}()
	const wait = 10 * time.Second
	nc, err := nats.Connect("nats://"+l.Addr().String(), nats.Timeout(wait), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	sub, err := nc.ChanSubscribe("a", make(chan *nats.Msg, 1))
	if err != nil {
		t.Fatal(err)
	}
	second := <-again
	for locked := false; !locked; { // the client is past its dial, and waits
		free := make(chan struct{})
		go func() {
			nc.Status()
			close(free)
		}()
		select {
		case <-free:
		case <-time.After(100 * time.Millisecond):
			locked = true
		}
	}
	began := time.Now()
	endSubscription(sub)
	if took := time.Since(began); took > wait/2 {
		t.Errorf("it took %v", took)
	}
	second.Close()
	l.Close()
	nc.Close()
}
