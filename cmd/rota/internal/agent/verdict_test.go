package agent

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// TestAServerSaysWhatItsStatusMeans checks the table of docs/cli.md.
func TestAServerSaysWhatItsStatusMeans(t *testing.T) {
	for status, want := range map[int]error{
		200: nil, 204: nil, 400: rota.ErrBad, 422: rota.ErrBad, 429: rota.ErrUntried, 503: rota.ErrUntried, 409: rota.ErrLost, 412: rota.ErrLost,
		302: errFailed, 401: errFailed, 404: errFailed, 500: errFailed,
	} {
		h := &handler{deed: deed{kind: "http", url: answering(t, fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", status))}}
		if err := h.handle()(t.Context(), rota.Message{ID: "1"}); kindOf(err) != want {
			t.Errorf("%d means %v, want %v", status, err, want)
		}
	}
}

// errFailed stands for an error that says no more than that the attempt failed.
var errFailed = errors.New("failed")

func kindOf(err error) error {
	for _, kind := range []error{rota.ErrBad, rota.ErrUntried, rota.ErrLost} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	if err != nil {
		return errFailed
	}
	return nil
}

func TestRetryAfterIsRead(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "soon": 0, "99999999999999999999": 0,
		now.Add(time.Minute).UTC().Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).UTC().Format(http.TimeFormat): -time.Minute,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("Retry-After %q is %v, want %v", text, got, want)
		}
	}
}
