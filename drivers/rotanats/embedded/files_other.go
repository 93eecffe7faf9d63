//go:build !unix

package embedded

func maxFiles() uint64 { return 1024 }
