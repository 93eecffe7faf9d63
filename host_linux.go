package rota

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/record"
)

// thisHost identifies this process precisely enough for a guard on the same host to
// recognise it. A value that cannot be read stays zero: the guard then proves
// nothing.
func thisHost() record.Host {
	h := record.Host{PID: uint32(os.Getpid()), Boot: clock.BootID()}
	if b, err := os.ReadFile("/proc/self/stat"); err == nil {
		// The command's name may contain spaces and brackets: count the fields after
		// its last bracket.
		if i := bytes.LastIndexByte(b, ')'); i >= 0 {
			if f := strings.Fields(string(b[i+1:])); len(f) > 19 {
				h.Start, _ = strconv.ParseUint(f[19], 10, 64)
			}
		}
	}
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/ns/pid", &st) == nil {
		h.Namespace = st.Ino
	}
	return h
}
