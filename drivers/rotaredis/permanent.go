package rotaredis

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rota-dev/rota"
)

// A permanent error wraps rota.ErrPermanent and keeps its own words.
type permanent struct{ error }

func (p permanent) Unwrap() []error { return []error{p.error, rota.ErrPermanent} }

// code returns the first word of an error that a server sent, such as MOVED, or "".
func code(err error) string {
	var sent redis.Error
	if !errors.As(err, &sent) || errors.Is(err, redis.Nil) {
		return ""
	}
	word, rest, _ := strings.Cut(sent.Error(), " ")
	switch {
	case word != "ERR":
		return word
	case strings.Contains(rest, "user executing the script can't") || strings.HasPrefix(rest, "ACL failure in script"):
		return "NOPERM"
	case strings.Contains(rest, "invalid username-password pair"): // as Redis 5 says it
		return "WRONGPASS"
	}
	for known := range answers { // Redis 6 puts the error of a command behind that of the script
		if strings.Contains(rest, ": "+known+" ") {
			return known
		}
	}
	return word
}

// answers are the errors of servers in our words, with what to do.
var answers = map[string]struct {
	says      string
	permanent bool
}{
	"NOAUTH":      {"the server wants a password: write USER:PASSWORD@HOST, :PASSWORD@HOST or password-file=FILE", true},
	"WRONGPASS":   {"the server refuses this user or password", true},
	"NOPERM":      {"the server's ACL denies this user a command, key or channel that rota needs: docs/stores/redis.md has the rights", true},
	"WRONGTYPE":   {"the key of this group has something in it that is not rota's: choose another prefix=NAME", true},
	"READONLY":    {"the server is a read-only replica", false},
	"OOM":         {"the server has no memory left for writes: raise maxmemory", false},
	"MISCONF":     {"the server cannot write to its disk and refuses writes", false},
	"LOADING":     {"the server is still loading its data", false},
	"CLUSTERDOWN": {"the Cluster has no master for this group", false},
	"MASTERDOWN":  {"the server is a replica without its master", false},
	"BUSY":        {"the server is busy with somebody's script", false},
	"NOREPLICAS":  {"the server has too few replicas to accept writes (min-replicas-to-write)", false},
}

// inWords adds our words to an error that a server sent, with its own in brackets.
func inWords(err error) error {
	a, known := answers[code(err)]
	if !known {
		return err
	}
	worded := fmt.Errorf("%s (%w)", a.says, err)
	if a.permanent {
		return permanent{worded}
	}
	return worded
}

// together makes one line of the errors of several servers. It is permanent only if each
// of them is.
func together(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	all := joined(errs)
	for _, err := range errs {
		if !errors.Is(err, rota.ErrPermanent) {
			return fmt.Errorf("%v", all) // the words, without the mark of some of them
		}
	}
	return all
}

// joined is errors.Join in one line.
type joined []error

func (j joined) Error() string {
	var lines []string
	for _, err := range j {
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "; ")
}

func (j joined) Unwrap() []error { return j }
