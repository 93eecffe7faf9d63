//go:build !unix

package folder

func ownerOnly(uintptr) {}
