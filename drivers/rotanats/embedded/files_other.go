//go:build !unix

package embedded

func mostFiles() uint64 { return 1024 }
