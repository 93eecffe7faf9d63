//go:build unix

package embedded

import "syscall"

// maxFiles returns how many files this process may have open.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return uint64(limit.Cur)
}
