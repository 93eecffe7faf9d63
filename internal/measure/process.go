package measure

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Resident is how many megabytes a process has in memory; 0 where the system does not tell.
func Resident(t testing.TB, pid int) (megabytes int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes := 0
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Error(err)
	}
	return kilobytes / 1024
}

// Connections counts those of this machine to a server on it; 0 where the system does not tell.
func Connections(t testing.TB, addr string) (n int) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	end := fmt.Sprintf(":%04X", number)
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[2], end) && f[3] == "01" { // established, seen from the client
				n++
			}
		}
	}
	return n
}
