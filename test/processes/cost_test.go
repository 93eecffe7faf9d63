//go:build linux

package processes

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/measure"
)

// atRest is how long the requests of members at rest are counted: several heartbeats, and
// some of what happens less often.
const atRest = 20 * time.Second

// cost counts what members at rest ask of a store.
func (c *crew) cost(t *testing.T, f *figure) {
	if c.host.requests == nil {
		return
	}
	f.Connections = measure.Connections(t, c.host.addr)
	before, err := c.host.requests(c.host.addr)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	time.Sleep(atRest)
	after, err := c.host.requests(c.host.addr)
	if err != nil {
		t.Fatal(err)
	}
	f.Requests = (after - before) / time.Since(began).Seconds()
	t.Logf("at rest: %.1f requests a second, %d connections", f.Requests, f.Connections)
}

// ask sends a line to a server and returns what it answers until it closes, or has sent a
// line that begins with end.
func ask(addr, question, end string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, question); err != nil {
		return "", err
	}
	var all strings.Builder
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		if end != "" && strings.HasPrefix(lines.Text(), end) {
			break
		}
	}
	return all.String(), lines.Err()
}

// sum adds up the numbers behind all lines that begin so.
func sum(text, begin string) (n float64, err error) {
	found := false
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), begin); ok {
			fields := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' || r == ':' })
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				return 0, err
			}
			n, found = n+v, true
		}
	}
	if !found {
		return 0, fmt.Errorf("nothing begins with %s in %.200q", begin, text)
	}
	return n, nil
}

// etcdRequests counts all messages that clients have sent.
func etcdRequests(addr string) (float64, error) {
	answer, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	return sum(string(text), "grpc_server_msg_received_total")
}

func zooKeeperRequests(addr string) (float64, error) {
	text, err := ask(addr, "mntr", "")
	if err != nil {
		return 0, err
	}
	return sum(text, "zk_packets_received")
}

// redisRequests counts commands, those of scripts too.
func redisRequests(addr string) (float64, error) {
	text, err := ask(addr, "INFO stats\r\n", "total_commands_processed")
	if err != nil {
		return 0, err
	}
	return sum(text, "total_commands_processed")
}
