package main

import (
	"errors"
	"fmt"

	"github.com/rota-dev/rota"
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

// ended is how a member's end becomes the program's.
func ended(err error) error {
	for _, end := range []struct {
		is   error
		code int
	}{
		{rota.ErrFenced, exitFenced}, {rota.ErrOrphaned, exitOrphaned}, {rota.ErrStoreLost, exitStoreLost},
		{rota.ErrPlanUnwritable, exitUnwritable}, {rota.ErrBug, exitBug},
	} {
		if errors.Is(err, end.is) {
			return codedError{flagWords(err), end.code}
		}
	}
	if err != nil {
		return flagWords(err)
	}
	return nil
}
