//go:build unix

package folder

import "syscall"

// ownerOnly sets the mode with which a socket is created. That works on Linux; elsewhere
// the mode is set after the socket exists.
func ownerOnly(fd uintptr) { syscall.Fchmod(int(fd), 0o600) }
