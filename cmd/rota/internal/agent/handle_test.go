package agent

import (
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// toldOfHandler is everything that is told about a handler that cannot be used.
func toldOfHandler(raw string) (out []string) {
	for _, flag := range []string{"handle", "own"} {
		f := memberFlags{own: raw, source: "none:?partitions=1"}
		if flag == "handle" {
			f = memberFlags{handle: raw, source: "nats://h?stream=S&subject=a.*"}
		}
		if _, _, _, err := f.prepare(nil); err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}

// FuzzHandlers: no refusal of a handler contains its password.
func FuzzHandlers(f *testing.F) { trial.FuzzPasswords(f, toldOfHandler) }

func TestNoPartOfAHandlersPasswordIsTold(t *testing.T) { trial.NoPartOfAPassword(t, toldOfHandler) }
