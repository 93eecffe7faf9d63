//go:build !unix

package rotanats

func ownerOnly(uintptr) {}

func mostFiles() uint64 { return 1024 }
