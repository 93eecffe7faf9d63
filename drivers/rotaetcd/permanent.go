package rotaetcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rota-dev/rota"
)

// A permanent error wraps rota.ErrPermanent and keeps its own words.
type permanent struct{ error }

func (p permanent) Unwrap() []error { return []error{p.error, rota.ErrPermanent} }

// Check implements rota.Checker: it returns what is wrong with the URL or the options.
func (l *link) Check() error { return l.bad }

// errDoubt is the error of a write that one node did not answer, while another says
// that the key has changed: perhaps by this very write.
var errDoubt = errors.New("rotaetcd: the key has changed, perhaps by this write: a node that was asked first has not answered")

// notSent marks an error of a request that no server has got.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// A verdict says what the error of one node means for a question.
type verdict byte

const (
	done    verdict = iota
	refused         // nothing was done, and every node would say the same
	undone          // nothing was done; another node may do it
	unclear         // it may have been done
)

// A known answer of a server, and what it means.
type known struct {
	err       error
	permanent bool
	denied    bool // for want of a right
	says      string
}

// refusals are the answers of servers that other nodes would give as well, in rota's words.
// All of them say that nothing was done.
var refusals = []known{
	{err: rpctypes.ErrGRPCAuthFailed, permanent: true, says: "etcd refuses the user %[1]s or the password: correct the URL"},
	{err: rpctypes.ErrGRPCUserEmpty, permanent: true, says: "etcd asks for a user: write etcd://USER:PASSWORD@HOST, or give a client certificate"},
	{err: rpctypes.ErrGRPCPermissionDenied, permanent: true, denied: true, says: "%[1]s has no right to do this: grant it to one of the user's roles"},
	{err: rpctypes.ErrGRPCUserNotFound, permanent: true, denied: true, says: "etcd does not know the user %[1]s: add it"},
	{err: rpctypes.ErrGRPCRequestTooLarge, says: "the value is larger than etcd allows: raise --max-request-bytes of every node"},
	{err: rpctypes.ErrGRPCNoSpace, says: "etcd has used up its space: compact and defragment it, then disarm the alarm, and set --auto-compaction-retention"},
	{err: rpctypes.ErrGRPCCorrupt, says: "etcd has found its data corrupt: restore the node that its log names"},
}

// sort finds the meaning of an error.
func sort(err error) verdict {
	if err == nil {
		return done
	}
	if tooLong(err) || slices.ContainsFunc(refusals, func(k known) bool { return is(err, k.err) }) {
		return refused
	}
	var n notSent
	if errors.As(err, &n) || isAny(err, rpctypes.ErrGRPCNotSupportedForLearner, rpctypes.ErrGRPCNotCapable, rpctypes.ErrGRPCRequestTooManyRequests,
		rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision) {
		return undone
	}
	return unclear
}

// tooLong tells whether the server has not even read a request, since it is too long.
func tooLong(err error) bool {
	return status.Code(bare(err)) == codes.ResourceExhausted && strings.Contains(err.Error(), "message larger than max")
}

// A refusal is the answer of a server that will not do what was asked.
type refusal struct {
	error
	denied bool // for want of a right
}

func (r refusal) Unwrap() error { return r.error }

// refusal puts the answer of a server into rota's words.
func (l *link) refusal(n *node, err error) error {
	who := l.set.User
	if who == "" {
		who = "the user of the client certificate"
	}
	for _, r := range refusals {
		if !is(err, r.err) && !(r.err == rpctypes.ErrGRPCRequestTooLarge && tooLong(err)) {
			continue
		}
		says := r.says
		if strings.Contains(says, "%[1]s") {
			says = fmt.Sprintf(says, who)
		}
		out := fmt.Errorf("rotaetcd: %v: %s (node %s: %s)", l.set, says, n.addr, words(err))
		if r.permanent {
			out = permanent{out}
		}
		return refusal{out, r.denied}
	}
	return fmt.Errorf("rotaetcd: %v: node %s: %w", l.set, n.addr, err)
}

// silent is the error of a question that no node has answered. It tells why, as far as
// that is known; cause is nil if the time was not used up.
func (l *link) silent(cause error) error {
	var why []string
	l.mu.Lock()
	nodes, closed := l.nodes, l.closed
	l.mu.Unlock()
	if closed {
		return errClosed
	}
	for _, n := range nodes {
		if err := n.lastFailure(); err != nil {
			why = append(why, n.addr+": "+words(err)+l.hint(err))
		}
	}
	text := "no node has answered"
	if len(why) > 0 {
		text += " (" + strings.Join(why, "; ") + ")"
	}
	if cause == nil {
		return fmt.Errorf("rotaetcd: %v: %s", l.set, text)
	}
	return fmt.Errorf("rotaetcd: %v: %s: %w", l.set, text, cause)
}

// hint says what the words of a connection probably mean.
func (l *link) hint(err error) string {
	says := func(text string) bool { return strings.Contains(err.Error(), text) }
	switch {
	case l.set.Secure && says("remote error: tls"):
		return "; the node refuses the client certificate: give one of its CA that has not expired"
	case l.set.Secure && says("handshake failed") && !says("certificate"):
		return "; if it has no TLS, write etcd://"
	case l.set.Secure && (says("broken pipe") || says("connection reset") || says("EOF")): // the refusal was not read any more
		return "; if the node asks for a client certificate: give one of its CA that has not expired"
	case !l.set.Secure && says("error reading server preface"):
		return "; if it wants TLS, write etcds://"
	}
	return ""
}

// words returns the words of a server or of its connection.
func words(err error) string {
	s := status.Convert(bare(err))
	return strings.TrimPrefix(s.Message(), "etcdserver: ")
}

func bare(err error) error {
	var n notSent
	for errors.As(err, &n) {
		err = n.error
	}
	return err
}

// is tells whether a server has answered with one of its known errors, which clients
// know by their words.
func is(err, one error) bool {
	return err != nil && status.Convert(bare(err)).Message() == status.Convert(one).Message()
}

func isAny(err error, list ...error) bool {
	return slices.ContainsFunc(list, func(one error) bool { return is(err, one) })
}
