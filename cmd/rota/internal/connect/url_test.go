package connect

import (
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// toldOfURL is everything that is said about a URL that cannot be opened.
func toldOfURL(raw string) (out []string) {
	if _, err := OpenSource(raw); err != nil {
		out = append(out, err.Error())
	}
	if s, err := OpenStore(raw); err != nil {
		out = append(out, err.Error())
	} else {
		s.Close()
	}
	return out
}

// FuzzURLs: no refusal of a URL contains its password.
func FuzzURLs(f *testing.F) { trial.FuzzPasswords(f, toldOfURL) }

// TestEveryDriversURLsAreKnown opens each kind of URL that a driver reads.
func TestEveryDriversURLsAreKnown(t *testing.T) {
	for _, raw := range []string{
		"nats://a", "tls://a", "etcd://a", "etcds://a", "zk://a", "zks://a", "redis://a", "rediss://a",
		"redis+sentinel://a/m", "rediss+sentinel://a/m", "redis+cluster://a", "rediss+cluster://a",
	} {
		s, err := OpenStore(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		s.Close()
	}
}

func TestNoPartOfAURLsPasswordIsTold(t *testing.T) { trial.NoPartOfAPassword(t, toldOfURL) }
