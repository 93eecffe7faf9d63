package rotakafka_test

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// resident is how many megabytes this process has.
func resident(t testing.TB) (mb int) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Log(err)
		return 0
	}
	var size, pages int
	fmt.Sscan(string(text), &size, &pages)
	return pages * os.Getpagesize() >> 20
}

// connections counts those of this machine to an address that are established.
func connections(t testing.TB, addr string) (n int) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(port)
	text, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Log(err)
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 3 && strings.HasSuffix(words[2], fmt.Sprintf(":%04X", number)) && words[3] == "01" {
			n++
		}
	}
	return n
}
