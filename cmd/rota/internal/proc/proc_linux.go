// Package proc reads what Linux tells about processes.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A Stat is what /proc tells about one process.
type Stat struct {
	State  byte   // T is stopped, Z and X are dead
	Parent int    // its parent's id
	Start  uint64 // when it started, in ticks since the machine did
}

// Read reads a process's state; not ok if there is no such process.
func Read(pid int) (s Stat, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, false
	}
	// The command's name, in brackets, may hold anything; fields count from behind it.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return Stat{}, false
	}
	var wrong error
	s.State = f[0][0]
	if s.Parent, err = strconv.Atoi(f[1]); err != nil {
		wrong = err
	}
	if s.Start, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		wrong = err
	}
	return s, wrong == nil
}

// Dead tells whether the process has ended and was not waited for yet.
func (s Stat) Dead() bool { return s.State == 'Z' || s.State == 'X' }
