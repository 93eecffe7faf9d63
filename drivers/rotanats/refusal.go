package rotanats

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// A refusal is the server's report that this user lacks a right. The server sends it
// asynchronously and does not answer the request itself; so the link finds the requests
// and subscriptions that it is about, by their subject.
type refusal struct {
	error
	publish bool // to publish to the subject; otherwise to subscribe to it
	subject string
}

func (r *refusal) Unwrap() error { return r.error }

// readRefusal returns nil if an error is not about a missing right.
func readRefusal(err error) *refusal {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	r := &refusal{error: err}
	_, after, _ := strings.Cut(err.Error(), "Permissions Violation for ")
	what, rest, _ := strings.Cut(after, " to ")
	r.publish = what == "Publish"
	if quoted, qerr := strconv.QuotedPrefix(rest); qerr == nil {
		r.subject, _ = strconv.Unquote(quoted)
	}
	return r
}

// advisory tells whether a refusal is about news of the cluster, without which everything
// works.
func (r *refusal) advisory() bool { return strings.HasPrefix(r.subject, "$JS.EVENT.ADVISORY.") }

// denied tells whether a request was refused for lack of a right.
func denied(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// refusedBy tells whether the server has refused a request, by an error code or for lack
// of a right. Otherwise it is unknown what became of the request.
func refusedBy(err error) bool { return code(err) != 0 || denied(err) }

// An interest is something that the server may refuse after the call that asked for it has
// returned or while that call waits.
type interest struct {
	concerns func(*refusal) bool
	end      func(error)
}

// onRefusal calls end for every refusal that concerns the caller, until remove is called.
// Both functions are called without the link's lock and must not block.
func (l *link) onRefusal(concerns func(*refusal) bool, end func(error)) (remove func()) {
	i := &interest{concerns, end}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interests[i] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.interests, i)
	}
}

// concernsRequest tells whether a refusal is about a request: the server does not let us
// publish it, or does not let us hear answers.
func (l *link) concernsRequest(r *refusal, subject string) bool {
	if r.publish {
		return r.subject == subject
	}
	return strings.HasPrefix(r.subject, cmp.Or(l.set.Inbox, "_INBOX")+".")
}
