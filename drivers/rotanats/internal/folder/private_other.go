//go:build !unix

package folder

import "io/fs"

const (
	noFollow = 0
	NonBlock = 0
)

func isLink(error) bool { return false }

// strange: owners and modes are not what they are on unix. No folder is served here,
// see flock.
func untrusted(fs.FileInfo) string { return "" }
