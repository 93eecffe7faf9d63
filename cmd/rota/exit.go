package main

import (
	"fmt"
)

// Exit codes. A mistake on the command line has its own (sysexits' EX_USAGE),
// so that scripts can tell it from work that went wrong.
const (
	exitFailed      = 1
	exitFenced      = 3
	exitAborted     = 4
	exitOrphaned    = 5
	exitStoreLost   = 6
	exitUnwritable  = 7
	exitUndone      = 8 // there is something to mend, and it was only shown
	exitUsage       = 64
	exitUnreachable = 69
	exitBug         = 70
	exitInterrupted = 130 // as a shell reports Ctrl-C
)

// A codedError ends the program with a code of its own.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

func unreachable(store string, err error) error {
	return codedError{fmt.Errorf("the store %s cannot be reached: %w", redact(store), bare(err)), exitUnreachable}
}

// A silentExit ends with a code and without a message: what there is to say has
// been said.
type silentExit int

func (e silentExit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// A usageError is the caller's mistake. Commands return one when only they can
// see it; whatever cobra refuses before a command begins counts as one too.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}
