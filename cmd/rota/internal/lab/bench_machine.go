package lab

import (
	"os"
	"runtime"
	"strings"
	"time"
)

// A machine is what figures are worth nothing without.
type machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Nice   int    `json:"nice"` // the priority it was measured with; 0 is the usual one
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
	m.Nice = niceness()
	return m
}

// usage is how much the cores have done so far: all of it, and this process's.
type usage struct {
	busy, total float64 // ticks, over all cores
	own         time.Duration
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
