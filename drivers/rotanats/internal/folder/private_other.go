//go:build !unix

package folder

import "io/fs"

const (
	noFollow = 0
	NonBlock = 0
)

func isLink(error) bool { return false }

// untrusted refuses nothing here: owners and modes mean something else than on Unix, and
// no folder is served, see flock.
func untrusted(fs.FileInfo) string { return "" }
