package rota

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/rota-dev/rota/internal/core"
)

// bootClock reads CLOCK_BOOTTIME, which runs on while the machine is suspended;
// Go's own monotonic clock stands still then. It also returns the machine's wall
// clock as the kernel tells it.
func bootClock() (now func() core.Time, wall time.Time, ok bool) {
	const realtime, boottime = 0, 7
	sec, nsec, ok := kernelClock(realtime)
	if !ok {
		return nil, time.Time{}, false
	}
	if _, _, ok := kernelClock(boottime); !ok {
		return nil, time.Time{}, false
	}
	return func() core.Time {
		sec, nsec, _ := kernelClock(boottime)
		return core.Time(sec*int64(time.Second) + nsec)
	}, time.Unix(sec, nsec), true
}

func kernelClock(id uintptr) (sec, nsec int64, ok bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return int64(ts.Sec), int64(ts.Nsec), errno == 0
}
