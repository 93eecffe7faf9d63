package cli

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/rota-dev/rota/internal/plain"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Whatever rota prints about a URL goes through Redact, and every error about a
// connection through Bare. Both work on the text, since what cannot be parsed may
// hold secrets too.

const hidden = "***"

// tellable are the parameters of a URL whose values may be told. All others are
// left out, names and all: ?sig=… of a webhook is a secret, and a password with a
// question mark in it looks like a parameter.
var tellable = []string{"bucket", "inbox", "api", "replicas", "sync", "name", "ca", "cert", "password-file", "secret-file", "secret-env", "token-file", "namespace", "server",
	"stream", "subject", "partitions", "names", "durable", "takeover", "after", "dead", "prefetch", "create"}

// secretWords are in the names of parameters that hold secrets.
var secretWords = []string{"pass", "pw", "token", "secret", "key", "cred", "user", "auth", "sig", "code"}

// Redact tells as much of a URL as is no secret: of one for HTTP scheme and host,
// of others also the parameters that are known to be harmless. Where a secret
// cannot be told from the rest, everything is left out.
func Redact(raw string) string {
	if dir, ok := strings.CutPrefix(raw, "folder:"); ok {
		return "in " + plain.Text(dir) // what people call it
	}
	out := redactURL(raw)
	if strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return hidden
	}
	return out
}

func redactURL(raw string) string {
	scheme, rest, ok := strings.Cut(webURL(raw), "://")
	if !ok || strings.HasPrefix(raw, "k8s:") { // whose parameter server is a URL
		if address, query, asked := strings.Cut(raw, "?"); asked && !strings.Contains(raw, "@") {
			return address + "?" + redactQuery(query)
		}
		if strings.Contains(raw, "@") {
			return hidden
		}
		return raw
	}
	if !isScheme(scheme) {
		return hidden
	}
	web := scheme == "http" || scheme == "https"
	ends := "?"
	if web {
		ends = "/?#"
	}
	end := len(rest)
	if i := strings.IndexAny(rest, ends); i >= 0 {
		end = i
	}
	at := strings.LastIndexByte(rest, '@')
	if at > end { // in the password, or in what follows: nobody knows
		return scheme + "://" + hidden
	}
	host := rest[at+1 : end]
	if at >= 0 {
		host = hidden + "@" + host
	}
	switch {
	case web || end == len(rest):
		return scheme + "://" + host
	default:
		return scheme + "://" + host + "?" + redactQuery(rest[end+1:])
	}
}

// webURL takes off what may stand before a whole URL: http: in --handle, and webhook: in
// --scaler.
func webURL(raw string) string {
	for _, before := range []string{"http:", "https:", "webhook:"} {
		if rest, ok := strings.CutPrefix(raw, before); ok && (strings.HasPrefix(rest, "http://") || strings.HasPrefix(rest, "https://")) {
			return rest
		}
	}
	return raw
}

func isScheme(s string) bool {
	return s != "" && len(s) <= 16 && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '+' || r == '-' || r == '.')
	})
}

func redactQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, p := range parts {
		switch k, _, ok := strings.Cut(p, "="); {
		case ok && slices.Contains(tellable, k):
		case ok && slices.Contains([]string{"token", "creds", "key", "nkey", "nkey-seed"}, k):
			parts[i] = k + "=" + hidden
		default:
			parts[i] = hidden
		}
	}
	return strings.Join(parts, "&")
}

// RedactIfURL is for texts that are URLs at times, or what is left of one: me:pw@host.
func RedactIfURL(s string) string {
	colon, at := strings.IndexByte(s, ':'), strings.LastIndexByte(s, '@')
	if strings.Contains(s, "://") || colon >= 0 && at > colon {
		return Redact(s)
	}
	return s
}

// holdsSecret tells whether a URL has a secret in it, as far as one can see: a
// password or a token before the host, or a parameter that sounds like one. A user
// alone, whose password is in a file, is none.
func holdsSecret(raw string) bool {
	_, rest, ok := strings.Cut(webURL(raw), "://")
	if !ok {
		return false
	}
	_, query, _ := strings.Cut(rest, "?")
	byFile := false
	for p := range strings.SplitSeq(query, "&") {
		k, v, _ := strings.Cut(p, "=")
		byFile = byFile || k == "password-file"
		sounds := slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(strings.ToLower(k), w) })
		if sounds && v != "" && !slices.Contains([]string{"creds", "key", "nkey", "password-file", "secret-file", "secret-env", "token-file"}, k) { // those say where it is
			return true
		}
	}
	at := strings.LastIndexByte(rest, '@')
	return at >= 0 && !(byFile && !strings.Contains(rest[:at], ":"))
}

// warnOfSecrets says once that a command line is no place for secrets, if this one
// has some.
func warnOfSecrets(cmd *cobra.Command) {
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && holdsSecret(f.Value.String()) {
			flags = append(flags, f.Name)
		}
	})
	if len(flags) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "rota: warning: every user of this machine can read the secret in --%s: give it as %s or by --config FILE, or name a file in the URL: password-file=FILE, token-file=FILE\n",
			strings.Join(flags, " and --"), Variable(flags[0]))
	}
}

// Bare takes the URLs out of an error's text: a *url.Error names its own, secrets
// and all, however deep it is.
func Bare(err error) error {
	text := err.Error()
	for at := err; at != nil; {
		inner, ok := errors.AsType[*url.Error](at)
		if !ok {
			break
		}
		why := inner.Err.Error()
		if inner.Op == "parse" {
			why = "it is not a URL" // the reason quotes a piece of it
		}
		text = strings.ReplaceAll(text, inner.Error(), why)
		at = inner.Err
	}
	if text == err.Error() {
		return err
	}
	return bareError{text, err}
}

// A bareError is an error with another text.
type bareError struct {
	text string
	err  error
}

func (e bareError) Error() string { return e.text }
func (e bareError) Unwrap() error { return e.err }

// Parameters are those behind the question mark.
func Parameters(raw string) url.Values {
	_, query, _ := strings.Cut(raw, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return url.Values{}
	}
	return q
}
