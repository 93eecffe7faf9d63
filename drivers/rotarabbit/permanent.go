package rotarabbit

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
)

// A permanent error wraps rota.ErrPermanent and keeps its own words.
type permanent struct{ error }

func (p permanent) Unwrap() []error { return []error{p.error, rota.ErrPermanent} }

// A reply is an error that the broker sent, or that the client found, without the client's
// words around it.
type reply struct{ err *amqp.Error }

func (r reply) Error() string { return r.err.Reason }

func (r reply) Unwrap() error { return r.err }

// code returns the code of an error that the broker sent, or 0.
func code(err error) int {
	var e *amqp.Error
	if errors.As(err, &e) && e.Server {
		return e.Code
	}
	return 0
}

// refused tells whether the broker has answered with an error. Otherwise it is unknown what
// became of the request.
func refused(err error) bool { return code(err) != 0 && code(err) != amqp.ConnectionForced }

// plain takes the client's words off an error.
func plain(err error) error {
	var e *amqp.Error
	if errors.As(err, &e) {
		return reply{e}
	}
	return err
}

// said puts the broker's own words in brackets behind ours.
func said(err error, format string, args ...any) error {
	return fmt.Errorf("%s (%w)", fmt.Sprintf(format, args...), plain(err))
}

// dialError puts an error of a dial into words, with what to do. A broker that closes the
// connection during the sign-in has refused the password, or died: only if it does so again
// is the error permanent.
func (s *settings) dialError(err error, again bool) error {
	user := s.User
	if user == "" {
		user = "guest"
	}
	switch {
	case errors.Is(err, amqp.ErrCredentials):
		err = said(err, "the broker refuses user %s or its password", user)
		if again {
			return permanent{err}
		}
		return err
	case errors.Is(err, amqp.ErrSASL):
		return permanent{said(err, "the broker accepts neither a password nor a certificate from this client")}
	case code(err) == amqp.NotAllowed && strings.Contains(err.Error(), "limit"):
		return said(err, "the broker has too many connections")
	case code(err) == amqp.NotAllowed:
		return permanent{said(err, "there is no virtual host %s, or user %s may not use it", s.vhost, user)}
	case code(err) == amqp.AccessRefused:
		return permanent{said(err, "the broker refuses user %s or its password", user)}
	}
	return plain(err)
}

// queueError puts the broker's refusal of something about a queue into words.
func queueError(err error, queue, what string) error {
	switch code(err) {
	case amqp.NotFound:
		return said(err, "there is no queue %s: create it, or add declare=classic or declare=quorum to the URL", queue)
	case amqp.AccessRefused:
		return said(err, "the broker does not let this user %s: give it that right", what)
	case amqp.ResourceLocked:
		return said(err, "queue %s belongs to another connection", queue)
	}
	return plain(err)
}

// together makes one error of those of several servers. It is permanent only if each of them
// is.
func together(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	lines, all := []string{}, true
	for _, err := range errs {
		lines = append(lines, err.Error())
		all = all && errors.Is(err, rota.ErrPermanent)
	}
	err := errors.New(strings.Join(lines, "; "))
	if all {
		return permanent{err}
	}
	return err
}

// Check implements rota.Checker: it returns what is wrong with the URL or the options.
func (l *link) Check() error { return l.bad }
