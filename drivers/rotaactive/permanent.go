package rotaactive

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rota-dev/rota"
)

// A permanent error wraps rota.ErrPermanent and keeps its own words.
type permanent struct{ error }

func (p permanent) Unwrap() []error { return []error{p.error, rota.ErrPermanent} }

const wantsUser = "the broker wants a user: write USER:PASSWORD@HOST, or USER@HOST?password-file=FILE"

// answers are what brokers say, in our words and with what to do. Each is found by a part
// of the broker's text.
var answers = []struct {
	part, says string
	permanent  bool
}{
	{"User name [null] or password is invalid", wantsUser, true},
	{"password is invalid", "the broker refuses this user or password", true},
	{"SASL PLAIN auth failed", "the broker refuses this user or password", true},
	{"is not authorized to read from", "this user lacks the right to read the queue: docs/sources/activemq.md has the rights", true},
	{"is not authorized to write to", "this user lacks the right to write to the queue: docs/sources/activemq.md has the rights", true},
	{"is not authorized to create", "this user lacks the right to create the queue: docs/sources/activemq.md has the rights", true},
	{"is not authorized", "this user lacks a right: docs/sources/activemq.md has the rights", true},
	{"maximum frame size", "the message is larger than the broker accepts: raise wireFormat.maxFrameSize of its connector", false},
	{"Usage Manager", "the broker has no memory or disk left and accepts no messages", false},
	{"certificate signed by unknown authority", "the broker's certificate is of another authority: name it with ca=FILE", true},
	{"certificate has expired", "the broker's certificate has expired", false},
	{"certificate is valid for", "the broker's certificate is for another host", true},
	{"certificate required", "the broker wants a certificate of its clients: add cert=FILE&key=FILE", true},
	{"bad certificate", "the broker refuses our certificate", true},
}

// inWords adds our words to what a broker said, with its own in brackets.
func inWords(err error) error {
	if err == nil || errors.Is(err, rota.ErrPermanent) {
		return err
	}
	text := err.Error()
	for _, a := range answers {
		if !strings.Contains(text, a.part) {
			continue
		}
		worded := fmt.Errorf("%s (%w)", a.says, err)
		if a.permanent {
			return permanent{worded}
		}
		return worded
	}
	return err
}

// together makes one line of the errors of several servers. It is permanent only if each
// of them is.
func together(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	var lines []string
	lasts := true
	for _, err := range errs {
		lines = append(lines, err.Error())
		lasts = lasts && errors.Is(err, rota.ErrPermanent)
	}
	all := errors.New(strings.Join(lines, "; "))
	if lasts {
		return permanent{all}
	}
	return all
}
