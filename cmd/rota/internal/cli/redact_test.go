package cli

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/spf13/cobra"
)

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"nats://host:4222":                      "nats://host:4222",
		"nats://token@host":                     "nats://***@host",
		"nats://me:pw@a,you:pw@b?stream=S":      "nats://***@b?stream=S",
		"nats://me:pw@a,nats://you:pw@b":        "nats://***@b",
		"nats://h?token=x&stream=S&subject=a.*": "nats://h?token=***&stream=S&subject=a.*",
		"tls://h?creds=f&key=k&ca=c":            "tls://h?creds=***&key=***&ca=c",
		"nats://h?nkey-seed=SUx&stream=S":       "nats://h?nkey-seed=***&stream=S",
		"nats://me@h?password-file=f":           "nats://***@h?password-file=f",
		"nats://h?pw=x&stream=S&sig=y&x":        "nats://h?***&stream=S&***&***",
		"nats://h?token=a@b&stream=S":           "nats://***",
		"me:pw@host":                            "***",
		"me:pw@nats://you:pw@host":              "***",
		"nats://me:p%zz@host":                   "nats://***@host",
		"nats://me:pa?ss@host":                  "nats://***",
		"nats://me:pa?stream=ss@host":           "nats://***",
		"nats://me:p[a<s s@host":                "nats://***@host",
		"nats://me:pw@ho\x1bst":                 "***",
		"http://me:pw@h:80/x?a=1#f":             "http://***@h:80",
		"https://hooks.example/T0/B0/x?sig=1":   "https://hooks.example",
		"http:https://h/x?auth=1":               "https://h",
		"http://me:p/w@h/":                      "http://***",
		"http://me:p#w@h/":                      "http://***",
		"https://h/x@y":                         "https://***",
		"ftp://me:pw@h/":                        "ftp://***@h/",
		"none:?partitions=4":                    "none:?partitions=4",
		"embed:dir?stream=S&token=x":            "embed:dir?stream=S&token=***",
		"webhook:https://h/T0/B0?secret-file=f": "https://h",
		"webhook:https://me:pw@h/x":             "https://***@h",
		"k8s:deployment/web?namespace=n&server=https://h:6443&token-file=f": "k8s:deployment/web?namespace=n&server=https://h:6443&token-file=f",
		"k8s:deployment/web?token=x":                                        "k8s:deployment/web?token=***",
		"k8s:deployment/web?server=https://me:pw@h":                         "***",
		"folder:rota-data":                                                  "in rota-data",
	} {
		if got := Redact(raw); got != want {
			t.Errorf("redact(%q) = %q, want %q", raw, got, want)
		}
	}
}

// told is everything that rota has to say about a URL: redacted, and in the
// errors about it.
func told(raw string) []string {
	_, parsed := url.Parse(raw)
	if parsed == nil {
		parsed = errors.New("well")
	}
	out := []string{Redact(raw), Bare(fmt.Errorf("dial: %w", &url.Error{Op: "Post", URL: raw, Err: fmt.Errorf("again: %w", &url.Error{Op: "parse", URL: raw, Err: errors.New("refused")})})).Error(),
		Unreachable(raw, parsed).Error()}
	for _, arg := range []string{raw, strings.ReplaceAll(raw, "\x00", "")} {
		out = append(out, unknownArgument(&cobra.Command{Use: "rota"}, []string{arg}).Error(), Known("partition", []string{"a"}, arg).Error())
	}
	return out
}

// FuzzRedact: no text about a URL contains its password.
func FuzzRedact(f *testing.F) { trial.FuzzPasswords(f, told) }

func TestNoPartOfAPasswordIsTold(t *testing.T) { trial.NoPartOfAPassword(t, told) }
