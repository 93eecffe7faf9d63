package connect

import (
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// toldOfURL is everything that is said about a URL that cannot be opened.
func toldOfURL(raw string) (out []string) {
	if _, err := OpenSource(raw); err != nil {
		out = append(out, err.Error())
	}
	if _, err := OpenScaler(raw); err != nil {
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

// TestEveryDriversSourcesAreKnown opens each kind of URL that a driver's source reads.
func TestEveryDriversSourcesAreKnown(t *testing.T) {
	for _, raw := range []string{"nats://a?stream=S&subject=s.*", "tls://a?stream=S&subject=s.*", "amqp://a?queues=q", "amqps://a?queues=q",
		"kafka://a?topic=t", "kafka+ssl://a,b?pattern=t.*", "kafka+ssl://u:p@a?topic=t&sasl=plain",
		"stomp://a?queues=q", "stomp+ssl://a?queues=q", "amqp10://a?queues=q", "amqp10s://a?queues=q"} {
		if _, err := OpenSource(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := OpenSource("kafka://a"); err == nil {
		t.Error("a source without a topic is opened")
	}
}

func TestNoPartOfAURLsPasswordIsTold(t *testing.T) { trial.NoPartOfAPassword(t, toldOfURL) }

// TestScalersAreKnown opens each kind of URL that package scale reads.
func TestScalersAreKnown(t *testing.T) {
	t.Setenv("SECRET", "a secret of more than 24 bytes")
	for _, raw := range []string{"local:a/b", "webhook:https://a/b?secret-env=SECRET", "k8s:deployment/a?namespace=b&server=https://c:6443", "k8s:statefulset/a?namespace=b&server=https://c:6443"} {
		if _, err := OpenScaler(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for raw, want := range map[string]string{
		"webhook:https://a/b": `--scaler "https://a": a webhook needs the secret`,
		"local:":              `--scaler "local:": a URL for a supervisor`,
		"ec2:x":               `--scaler "ec2:x": unknown kind of URL; known are local:`,
	} {
		if _, err := OpenScaler(raw); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}
