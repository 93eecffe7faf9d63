//go:build !linux

package folder

import "net"

// peer is unknown here: the check of the socket file's owner has to suffice.
func peer(net.Conn) (uid int, known bool) { return 0, false }
