//go:build unix

package folder

import "syscall"

// ownerOnly sets the mode that a socket is made with. Linux does that; elsewhere it
// is set when the socket is there.
func ownerOnly(fd uintptr) { syscall.Fchmod(int(fd), 0o600) }
