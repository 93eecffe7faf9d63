package cli

import (
	"errors"
	"fmt"
)

// Exit codes. A mistake on the command line has its own (sysexits' EX_USAGE),
// so that scripts can tell it from work that went wrong.
const (
	ExitFailed      = 1
	ExitFenced      = 3
	ExitAborted     = 4
	ExitOrphaned    = 5
	ExitStoreLost   = 6
	ExitUnwritable  = 7
	ExitUndone      = 8 // there is something to mend, and it was only shown
	ExitUsage       = 64
	ExitUnreachable = 69
	ExitBug         = 70
	ExitInterrupted = 130 // as a shell reports Ctrl-C
)

// Coded is an error that ends the program with a code of its own.
func Coded(err error, code int) error { return codedError{err, code} }

type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

func Unreachable(store string, err error) error {
	return Coded(fmt.Errorf("the store %s cannot be reached: %w", Redact(store), Bare(err)), ExitUnreachable)
}

// Quietly ends with a code and without a message: what there is to say has been
// said.
func Quietly(code int) error { return silentExit(code) }

type silentExit int

func (e silentExit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// BadUsage is the caller's mistake. Commands return one when only they can see it;
// whatever cobra refuses before a command begins counts as one too.
func BadUsage(err error) error { return usageError{err} }

func Usagef(format string, args ...any) error { return BadUsage(fmt.Errorf(format, args...)) }

type usageError struct{ error }

// ExitCode is what the program ends with after an error; silent if it is not to be
// printed. began tells whether a command's own work had begun.
func ExitCode(err error, began bool) (code int, silent bool) {
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
		return ExitUsage, false
	}
	return ExitFailed, false
}

// IsUsage tells whether an error is the caller's mistake.
func IsUsage(err error) bool {
	_, ok := errors.AsType[usageError](err)
	return ok
}
