package scale

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

const concealed = "hunter2-hunter2-hunter2-hunter2" // a secret that nothing may print

// write writes a file of a test.
func write(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newHook makes a webhook scaler for a server.
func newHook(t testing.TB, url string) rota.Scaler {
	t.Helper()
	s, err := Webhook("webhook:" + url + "?secret-file=" + write(t, concealed+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// retry is what an error asks for; -1 if it asks for nothing.
func retry(err error) time.Duration {
	var r interface{ RetryAfter() time.Duration }
	if !errors.As(err, &r) {
		return -1
	}
	return r.RetryAfter()
}

func TestEachAnswerOfAWebhookIsOneClearError(t *testing.T) {
	for _, c := range []struct {
		code      int
		header    string // name: value
		body      string
		want      string // a part of the error; "" if there is none
		wantRetry time.Duration
	}{
		{code: 200, wantRetry: -1},
		{code: 202, body: strings.Repeat("x", 1<<20), wantRetry: -1},
		{code: 204, wantRetry: -1},
		{code: 301, header: "Location: https://elsewhere.example/" + concealed, want: `answered 301, a redirect to "https://elsewhere.example", and those are not followed: write the last address`, wantRetry: -1},
		{code: 307, header: "Location: /other", want: "answered 307, a redirect to another address", wantRetry: -1},
		{code: 401, want: "answered 401: it refuses the signature: give both sides the same secret", wantRetry: -1},
		{code: 404, body: "no page\n", want: `answered 404 "no page": nothing listens at this path`, wantRetry: -1},
		{code: 429, header: "Retry-After: 7", want: "answered 429: it is asked too often; it asks for a pause of 7s", wantRetry: 7 * time.Second},
		{code: 429, want: "answered 429: it is asked too often", wantRetry: -1},
		{code: 503, header: "Retry-After: 99999999", want: "it cannot act now; it asks for a pause of 1h0m0s", wantRetry: time.Hour},
		{code: 503, header: "Retry-After: soon", want: "answered 503: it cannot act now", wantRetry: -1},
		{code: 500, header: "Retry-After: 7", body: "\x1b[2J a\nb", want: `answered 500 "?[2J a b"`, wantRetry: -1},
		{code: 500, body: strings.Repeat("x", 1<<20), want: `answered 500 "` + strings.Repeat("x", mostQuoted) + `…"`, wantRetry: -1},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name, value, ok := strings.Cut(c.header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(c.code)
			io.WriteString(w, c.body)
		}))
		err := newHook(t, srv.URL+"/secret-path").Scale(t.Context(), 3, nil)
		srv.Close()
		switch {
		case c.want == "":
			if err != nil {
				t.Errorf("%d: %v", c.code, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "the webhook at 127.0.0.1:"):
			t.Errorf("%d: %v, want %s", c.code, err, c.want)
		case strings.Contains(err.Error(), "secret-path") || strings.Contains(err.Error(), concealed):
			t.Errorf("%d: the error has a secret: %v", c.code, err)
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("%d: the error has several lines: %q", c.code, err)
		}
		if got := retry(err); got != c.wantRetry {
			t.Errorf("%d: the error asks for %v, want %v", c.code, got, c.wantRetry)
		}
	}
}

func TestWebhookThatDoesNotAnswer(t *testing.T) {
	srv := httptest.NewServer(nil)
	srv.Close()
	err := newHook(t, srv.URL+"/secret-path").Scale(t.Context(), 3, nil)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "secret-path") {
		t.Errorf("nothing listens: %v", err)
	}
	came := make(chan struct{})
	srv = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // or the server does not notice that the caller has gone
		close(came)
		<-r.Context().Done()
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	if err := newHook(t, srv.URL).Scale(ctx, 3, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the leader leads no more: %v", err)
	}
}

func TestARequestKeepsItsIDUntilItIsAnswered(t *testing.T) {
	var ids []string
	code := 500
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.Header.Get("Webhook-Id"))
		w.WriteHeader(code)
	}))
	defer srv.Close()
	s := newHook(t, srv.URL)
	for _, step := range []struct{ want, code int }{{3, 500}, {3, 500}, {3, 200}, {3, 500}, {4, 500}, {4, 200}} {
		code = step.code
		s.Scale(t.Context(), step.want, nil)
	}
	if ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] || ids[2] == ids[3] || ids[3] == ids[4] || ids[4] != ids[5] {
		t.Errorf("ids %v", ids)
	}
}

func TestAWebhookTrustsItsOwnCA(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	ca := write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	secret := "?secret-file=" + write(t, concealed)
	for parameter, ok := range map[string]bool{"": false, "&ca=" + ca: true} {
		s, err := Webhook("webhook:" + srv.URL + secret + parameter)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Scale(t.Context(), 1, nil); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("with %q: %v", parameter, err)
		}
	}
	s, err := Webhook("webhook:" + srv.URL + secret + "&ca=" + ca)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	if err := s.Scale(t.Context(), 1, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of certificates is gone: %v", err)
	}
}

func TestASecretIsReadAnewForEachRequest(t *testing.T) {
	var signatures []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signatures = append(signatures, r.Header.Get("Webhook-Signature"))
	}))
	defer srv.Close()
	file := write(t, concealed)
	s, err := Webhook("webhook:" + srv.URL + "?secret-file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	coded := "whsec_" + base64.StdEncoding.EncodeToString([]byte(concealed))
	for _, text := range []string{concealed, coded, "short", "whsec_?"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := s.Scale(t.Context(), 1, nil)
		if good := len(text) > 8; (err == nil) != good {
			t.Errorf("secret %q: %v", text, err)
		}
	}
	if len(signatures) != 2 {
		t.Errorf("%d requests were sent, want 2: one without a good secret is not", len(signatures))
	}
}

func TestGroupOfAWebhook(t *testing.T) {
	s := newHook(t, "https://host").(rota.Binder)
	if err := errors.Join(s.Bind("a"), s.Bind("a")); err != nil {
		t.Error(err)
	}
	if err := s.Bind("b"); err == nil || !strings.Contains(err.Error(), "scales group a: make another one for b") {
		t.Errorf("another group: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, " 5 ": 5 * time.Second, "86400": mostPause,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0,
		"": -1, "-1": -1, "1.5": -1, "soon": -1,
	} {
		got, ok := retryAfter(value, now)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// show prints a value in every way.
func show(v any) string { return fmt.Sprintf("%v %+v %#v %s %q %x", v, v, v, v, v, v) }
