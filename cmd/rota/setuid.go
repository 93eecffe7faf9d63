package main

import (
	"fmt"
	"os"
)

// notSetuid refuses to run with other rights than those of whoever called: the
// command line says what to run, and the watchdog is told so on a file descriptor.
func notSetuid() error {
	switch uid, euid, gid, egid := os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid(); {
	case uid != euid:
		return usagef("called by user %d, but runs as user %d: rota must not be setuid; take the mode away with chmod u-s", uid, euid)
	case gid != egid:
		return usagef("called by group %d, but runs as group %d: rota must not be setgid; take the mode away with chmod g-s", gid, egid)
	}
	return nil
}

// refuse ends the process before it has begun.
func refuse(err error) {
	fmt.Fprintf(os.Stderr, "rota: %v\n", err)
	os.Exit(exitUsage)
}
