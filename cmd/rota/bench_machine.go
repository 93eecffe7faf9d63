package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A machine is what figures are worth nothing without.
type machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

func thisMachine() machine {
	m := machine{Cores: runtime.NumCPU(), CPU: "unknown", Kernel: runtime.GOOS, Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				m.CPU = strings.TrimSpace(v)
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = "Linux " + strings.TrimSpace(string(b))
	}
	return m
}

// usage is how much the cores have done so far: all of it, and this process's.
type usage struct {
	busy, total float64 // ticks, over all cores
	own         time.Duration
}

func readUsage() (u usage) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	first, _, _ := strings.Cut(string(b), "\n")
	for i, field := range strings.Fields(first) {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil || i > 8 { // cpu; guests count as users already
			continue
		}
		u.total += n
		if i != 4 && i != 5 { // idle, iowait
			u.busy += n
		}
	}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.own = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u
}

// since tells which part of all cores was busy, and with us: with this process
// and children that took so much.
func (u usage) since(now usage, children time.Duration) (busy, own float64) {
	total := now.total - u.total
	if total <= 0 {
		return 0, 0
	}
	const hz = 100 // of /proc/stat, on every Linux that Go knows
	return (now.busy - u.busy) / total, (now.own - u.own + children).Seconds() * hz / total
}
