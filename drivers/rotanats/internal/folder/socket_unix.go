//go:build unix

package rotanats

import "syscall"

// ownerOnly sets the mode that a socket is made with. Linux does that; elsewhere it
// is set when the socket is there.
func ownerOnly(fd uintptr) { syscall.Fchmod(int(fd), 0o600) }

// mostFiles is how many files this process may have open.
func mostFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return uint64(limit.Cur)
}
