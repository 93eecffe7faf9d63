package main

import (
	"errors"
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

// coded is an error that ends the program with a code of its own.
func coded(err error, code int) error { return codedError{err, code} }

type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

func unreachable(store string, err error) error {
	return coded(fmt.Errorf("the store %s cannot be reached: %w", redact(store), bare(err)), exitUnreachable)
}

// quietly ends with a code and without a message: what there is to say has been
// said.
func quietly(code int) error { return silentExit(code) }

type silentExit int

func (e silentExit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// badUsage is the caller's mistake. Commands return one when only they can see it;
// whatever cobra refuses before a command begins counts as one too.
func badUsage(err error) error { return usageError{err} }

func usagef(format string, args ...any) error { return badUsage(fmt.Errorf(format, args...)) }

type usageError struct{ error }

// exitCode is what the program ends with after an error; silent if it is not to be
// printed. began tells whether a command's own work had begun.
func exitCode(err error, began bool) (code int, silent bool) {
	if err == nil {
		return 0, true
	}
	if code, ok := errors.AsType[silentExit](err); ok {
		return int(code), true
	}
	if coded, ok := errors.AsType[codedError](err); ok {
		return coded.code, false
	}
	if _, usage := errors.AsType[usageError](err); usage || !began {
		return exitUsage, false
	}
	return exitFailed, false
}

// isUsage tells whether an error is the caller's mistake.
func isUsage(err error) bool {
	_, ok := errors.AsType[usageError](err)
	return ok
}
