package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/scale"
)

const secret = "a secret of more than 24 bytes"

// A wire stands between scaler and receiver: it keeps requests and changes them.
type wire struct {
	mu     sync.Mutex // a lost answer ends its connection, and the next request has another goroutine
	to     http.Handler
	change func(*http.Request)
	lose   bool // the next answer
	kept   *http.Request
	body   []byte
}

func (c *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.body, _ = io.ReadAll(r.Body)
	c.kept = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(c.body))
	if c.change != nil {
		c.change(r)
	}
	if c.lose {
		c.lose = false
		c.to.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	c.to.ServeHTTP(w, r)
}

func TestReceiverObeysSignedRequestsOnce(t *testing.T) {
	var got []request
	fails := error(nil)
	c := &wire{to: receive([]byte(secret), func(r request) error { got = append(got, r); return fails })}
	srv := httptest.NewServer(c)
	defer srv.Close()
	t.Setenv("SECRET", secret)
	s, err := scale.Webhook("webhook:" + srv.URL + "/rota?secret-env=SECRET")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.(rota.Binder).Bind("orders"); err != nil {
		t.Fatal(err)
	}
	remove := []rota.MemberInfo{{Name: "c2", Session: "77", Labels: map[string]string{"host": "h1"}}}
	c.mu.Lock() // except while a request is under way
	defer c.mu.Unlock()
	scaleTo := func(want int) error {
		c.mu.Unlock()
		defer c.mu.Lock()
		return s.Scale(t.Context(), want, remove)
	}

	if err := scaleTo(3); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Group != "orders" || got[0].Want != 3 || len(got[0].Remove) != 1 || got[0].Remove[0].Name != "c2" ||
		got[0].Remove[0].Session != "77" || got[0].Remove[0].Labels["host"] != "h1" {
		t.Errorf("the receiver got %+v", got)
	}

	c.lose = true
	if err := scaleTo(4); err == nil {
		t.Error("an answer was lost, and nobody noticed")
	}
	if err := scaleTo(4); err != nil || len(got) != 2 {
		t.Errorf("asked again after a lost answer: %v, obeyed %d times", err, len(got))
	}

	replayed := httptest.NewRecorder()
	again := c.kept.Clone(t.Context())
	again.Body = io.NopCloser(bytes.NewReader(c.body))
	if c.to.ServeHTTP(replayed, again); len(got) != 2 {
		t.Error("a request that was replayed is obeyed again")
	}

	fails = errors.New("no hosts left")
	if err := scaleTo(5); err == nil || !strings.Contains(err.Error(), `answered 500 "no hosts left"`) {
		t.Errorf("the receiver fails: %v", err)
	}
	fails = nil

	for what, change := range map[string]func(*http.Request){
		"body":      func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"want":0}`)) },
		"id":        func(r *http.Request) { r.Header.Set("Webhook-Id", "msg_other") },
		"time":      func(r *http.Request) { r.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix()+1, 10)) },
		"signature": func(r *http.Request) { r.Header.Del("Webhook-Signature") },
	} {
		before := len(got)
		c.change = change
		if err := scaleTo(6); err == nil || !strings.Contains(err.Error(), "answered 401") || len(got) != before {
			t.Errorf("another %s: %v, obeyed %d times", what, err, len(got)-before)
		}
	}
}

// TestReceiverRefusesOldRequests sends a request with a right signature and an old time.
func TestReceiverRefusesOldRequests(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 200, 10 * time.Minute: 401, -10 * time.Minute: 401} {
		at := strconv.FormatInt(time.Now().Add(-age).Unix(), 10)
		body := `{"want":1}`
		r := httptest.NewRequest("POST", "/rota", strings.NewReader(body))
		r.Header.Set("Webhook-Id", "msg_1")
		r.Header.Set("Webhook-Timestamp", at)
		r.Header.Set("Webhook-Signature", sign("msg_1."+at+"."+body))
		w := httptest.NewRecorder()
		receive([]byte(secret), func(request) error { return nil })(w, r)
		if w.Code != want {
			t.Errorf("a request of %v ago: %d, want %d", age, w.Code, want)
		}
	}
}

func sign(content string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(content))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
