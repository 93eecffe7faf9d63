package rotanats

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
)

// A permanent error wraps rota.ErrPermanent and keeps its own words.
type permanent struct{ error }

func (p permanent) Unwrap() []error { return []error{p.error, rota.ErrPermanent} }

// dialError sorts the errors of a dial: a server that refuses our sign-in, and a folder
// of another user, will do so again. Everything else may end by itself, also a host
// name that is not known.
func dialError(err error) error {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, folder.ErrForeign) {
		return permanent{err}
	}
	return err
}

// Check implements rota.Checker: it returns what is wrong with the URL or the options.
func (l *link) Check() error { return l.bad }

// Parameters of a URL that only a source, or only a store, has a use for.
var (
	ofSources = []string{"stream", "subject", "partitions", "most", "durable", "takeover", "after", "dead", "prefetch", "create"}
	ofStores  = []string{"bucket", "sync"}
	ofSignIn  = []string{"token", "creds", "nkey", "nkey-seed", "ca", "cert", "key"} // password-file and token-file are refused by address
	ofFolders = []string{"shared"}
)

// useless refuses parameters that would change nothing: a setting without an effect is
// a mistake that nobody finds.
func useless(s *settings, names []string, why string) error {
	for _, name := range s.Given {
		if slices.Contains(names, name) {
			return fmt.Errorf("rotanats: the URL's parameter %s: %s: leave it out", name, why)
		}
	}
	return nil
}
