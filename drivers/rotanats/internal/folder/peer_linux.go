package folder

import (
	"net"
	"syscall"
)

// peer returns the user that listens at the other end of a socket.
func peer(conn net.Conn) (uid int, known bool) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *syscall.Ucred
	raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || cred == nil {
		return 0, false
	}
	return int(cred.Uid), true
}
