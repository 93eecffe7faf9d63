//go:build unix

package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// noFollow makes opening a symbolic link an error.
const noFollow = syscall.O_NOFOLLOW

// NonBlock keeps opening a pipe from waiting for its other end.
const NonBlock = syscall.O_NONBLOCK

// isLink tells whether opening a file failed because of noFollow.
func isLink(err error) bool { return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EMLINK) }

// untrusted returns why another user can have written to a file or folder, "" if only this
// user and root can have.
func untrusted(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch me := os.Geteuid(); {
	case !ok:
		return ""
	case st.Uid != uint32(me) && st.Uid != 0:
		return fmt.Sprintf("belongs to user %d, and this process runs as user %d", st.Uid, me)
	case info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("may be written by other users (mode %04o)", info.Mode().Perm())
	}
	return ""
}
