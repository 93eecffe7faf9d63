package scale

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rota-dev/rota/internal/address"
)

const (
	patience   = 30 * time.Second // for one request, should its context have no end
	mostPause  = time.Hour        // that a Retry-After can ask for
	mostQuoted = 200              // bytes of an answer that an error repeats
)

// A printed scaler shows its URL without the parts that may be secret, whatever the verb.
type printed string

func (p printed) String() string { return string(p) }

// Format covers every verb, %+v and %#v too.
func (p printed) Format(f fmt.State, _ rune) { io.WriteString(f, string(p)) }

// newClient returns a client for the requests of one call, and a function that closes its
// connections. Calls are rare and certificates are replaced while members run, so each call
// reads the files anew. A redirect is an answer like any other: what is sent is meant for
// one receiver.
func newClient(files *address.Common) (*http.Client, func(), error) {
	config, err := files.TLSConfig()
	if err != nil {
		return nil, nil, err
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true}
	c := &http.Client{Transport: t, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, t.CloseIdleConnections, nil
}

// readAnswer reads at most most bytes and refuses an answer that is longer.
func readAnswer(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if int64(len(b)) > most {
		return b[:most], fmt.Errorf("the answer is longer than %d bytes", most)
	}
	return b, err
}

// withoutURL leaves the URL out of an error of package http, since a part of it may be a
// secret.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// quoted is the beginning of a text that a server sent, in quotes and in one line; "" if
// there is nothing to show.
func quoted(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if text == "" {
		return ""
	}
	if len(text) > mostQuoted {
		text = strings.ToValidUTF8(text[:mostQuoted], "") + "…"
	}
	return strconv.QuoteToGraphic(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text))
}

// A later error asks for a pause before the next call.
type later struct {
	error
	after time.Duration
}

func (l later) Unwrap() error { return l.error }

// RetryAfter is the pause that the server asked for.
func (l later) RetryAfter() time.Duration { return l.after }

// orLater adds the pause that an answer asks for to an error about it.
func orLater(err error, answer *http.Response) error {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable {
		return err
	}
	if after, ok := retryAfter(answer.Header.Get("Retry-After"), time.Now()); ok {
		return later{fmt.Errorf("%w; it asks for a pause of %v", err, after), after}
	}
	return err
}

// retryAfter reads the header Retry-After: seconds, or a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, mostPause), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now).Round(time.Second), 0), mostPause), true
}

// decode decodes JSON that a server sent.
func decode(b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("the answer is not the JSON that was asked for: %w: %s", err, quoted(string(b)))
	}
	return nil
}
