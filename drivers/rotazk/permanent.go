package rotazk

import "github.com/rota-dev/rota"

// A permanent error wraps rota.ErrPermanent and keeps its own words.
type permanent struct{ error }

func (p permanent) Unwrap() []error { return []error{p.error, rota.ErrPermanent} }

// Check implements rota.Checker: it returns what is wrong with the URL or the options.
func (l *link) Check() error { return l.bad }
