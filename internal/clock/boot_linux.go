package clock

import (
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Boot reads CLOCK_BOOTTIME: the time since the machine started, which runs on
// while it is suspended; Go's own monotonic clock stands still then. Readings of
// all processes of one machine can be compared, until it is restarted.
func Boot() time.Duration {
	const boottime = 7
	sec, nsec, _ := kernelClock(boottime)
	return time.Duration(sec*int64(time.Second) + nsec)
}

// BootID names this start of this machine; "" where there is no such name.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// kernelTime is the machine's wall clock as the kernel tells it; not ok where the
// kernel has no CLOCK_BOOTTIME.
func kernelTime() (wall time.Time, ok bool) {
	const realtime, boottime = 0, 7
	sec, nsec, ok := kernelClock(realtime)
	if !ok {
		return time.Time{}, false
	}
	if _, _, ok := kernelClock(boottime); !ok {
		return time.Time{}, false
	}
	return time.Unix(sec, nsec), true
}

func kernelClock(id uintptr) (sec, nsec int64, ok bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return int64(ts.Sec), int64(ts.Nsec), errno == 0
}
