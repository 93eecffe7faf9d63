package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/rota-dev/rota/internal/record"
)

// runsHere tells whether the process runs on this machine, also when it is frozen.
// That it is not found says nothing.
func runsHere(h record.Host) bool {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var ns syscall.Stat_t
	if err != nil || strings.TrimSpace(string(boot)) != h.Boot || syscall.Stat("/proc/self/ns/pid", &ns) != nil || ns.Ino != h.Namespace {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.PID))
	i := bytes.LastIndexByte(b, ')') // the command's name may hold anything
	if err != nil || i < 0 {
		return false
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return false
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	return err == nil && start == h.Start && f[0] != "Z" && f[0] != "X"
}
