package scale

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/address"
)

// Webhook returns a Scaler that asks a program of yours: an HTTP POST with the number that
// is wanted and the members to end, signed as the Standard Webhooks specification has it.
// The URL is webhook:https://HOST/PATH?secret-file=FILE; docs/scalers/webhook.md has all
// parameters, the request and the answers. It does not connect.
func Webhook(rawURL string) (rota.Scaler, error) {
	w := &webhook{}
	if err := w.parse(rawURL); err != nil {
		return nil, fmt.Errorf("scale: %w", err)
	}
	if _, err := w.key(); err != nil {
		return nil, fmt.Errorf("scale: %w", err)
	}
	return w, nil
}

// A webhook keeps the names of files and variables, and no secret itself. The secret and
// the certificates are read for each call, so that they can be replaced.
type webhook struct {
	printed
	url   string // its path may be a secret
	host  string
	files address.Common

	secretFile, secretVariable string

	mu    sync.Mutex
	group string
	id    string // of the request that has had no answer yet; "" if all have had one
	body  []byte // of that request
}

var webhookParameters = address.Parameters[webhook]{
	"secret-file": func(w *webhook, v string) error { return address.File(&w.secretFile, v) },
	"secret-env":  func(w *webhook, v string) error { return address.Name(&w.secretVariable, v) },
	"ca":          func(w *webhook, v string) error { return address.File(&w.files.CA, v) },
	"cert":        func(w *webhook, v string) error { return address.File(&w.files.Cert, v) },
	"key":         func(w *webhook, v string) error { return address.File(&w.files.Key, v) },
}

func (w *webhook) parse(rawURL string) error {
	rest, ok := strings.CutPrefix(rawURL, "webhook:")
	if !ok {
		return errors.New("a webhook's URL begins with webhook:https://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	u, err := url.Parse(rest)
	if err != nil {
		return errors.New("what follows webhook: is not a URL: write webhook:https://HOST/PATH?secret-file=FILE")
	}
	if _, err := webhookParameters.Read(query, w); err != nil {
		return err
	}
	secure := u.Scheme == "https"
	switch {
	case !secure && u.Scheme != "http":
		return errors.New("a webhook's URL begins with webhook:https://")
	case u.Host == "" || u.Fragment != "":
		return errors.New("the webhook's URL has no host, or a # in it: write webhook:https://HOST/PATH?secret-file=FILE")
	case u.User != nil:
		return errors.New("the webhook's URL has a user before its host: requests are signed instead, with the secret of secret-file=FILE or secret-env=NAME")
	case !secure && !loopback(u.Hostname()):
		return fmt.Errorf("http is for this host alone, and %.80q is another one: write webhook:https://", u.Host)
	case !secure && w.files.CA+w.files.Cert+w.files.Key != "":
		return errors.New("ca, cert and key are for https")
	case (w.secretFile == "") == (w.secretVariable == ""):
		return errors.New("a webhook needs the secret that requests are signed with: give one of secret-file=FILE and secret-env=NAME")
	}
	w.url, w.host, w.printed = u.String(), u.Host, printed("webhook:"+u.Scheme+"://"+u.Host)
	return w.files.Check()
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// leastSecret is the size of a key that the Standard Webhooks specification asks for.
const leastSecret = 24

// key reads the key that requests are signed with. A secret with the prefix whsec_ is
// base64, as the specification writes it; any other is the key itself.
func (w *webhook) key() ([]byte, error) {
	text, from := address.Secret(strings.TrimSpace(os.Getenv(w.secretVariable))), "variable "+w.secretVariable
	if w.secretFile != "" {
		var err error
		if text, err = address.ReadSecret("secret", w.secretFile); err != nil {
			return nil, err
		}
		from = "file " + w.secretFile
	}
	key := []byte(string(text))
	if coded, ok := strings.CutPrefix(string(text), "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(coded); err != nil {
			return nil, fmt.Errorf("the secret in %s begins with whsec_, and the rest is not base64", from)
		}
	}
	if len(key) < leastSecret {
		return nil, fmt.Errorf("the secret in %s has %d bytes, and %d are the least: make one with openssl rand -hex 32", from, len(key), leastSecret)
	}
	return key, nil
}

// Bind names the group in every request. It implements rota.Binder.
func (w *webhook) Bind(group string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.group != "" && w.group != group {
		return fmt.Errorf("scale: this webhook scales group %s: make another one for %s", w.group, group)
	}
	w.group = group
	return nil
}

// A notice is the body of a request.
type notice struct {
	Group  string   `json:"group"`
	Want   int      `json:"want"`
	Remove []victim `json:"remove"`
}

// A victim is a member that owns nothing any more and has to be ended.
type victim struct {
	Name    string            `json:"name"`
	Session string            `json:"session"`
	Labels  map[string]string `json:"labels,omitempty"`
}

func victims(remove []rota.MemberInfo) []victim {
	out := make([]victim, len(remove))
	for i := range remove {
		out[i] = victim{remove[i].Name, remove[i].Session, remove[i].Labels}
	}
	return out
}

// Scale posts one request.
func (w *webhook) Scale(ctx context.Context, want int, remove []rota.MemberInfo) error {
	id, body, err := w.next(want, remove)
	if err != nil {
		return err
	}
	if err := w.post(ctx, id, body); err != nil {
		return fmt.Errorf("the webhook at %s: %w", w.host, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id, w.body = "", nil
	return nil
}

// next returns a request's id and body. A request that says the same as the last one, which
// has had no good answer, has the same id: the receiver may have acted on it already.
func (w *webhook) next(want int, remove []rota.MemberInfo) (id string, body []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if body, err = json.Marshal(notice{w.group, want, victims(remove)}); err != nil {
		return "", nil, err
	}
	if w.id == "" || !bytes.Equal(w.body, body) {
		w.id, w.body = "msg_"+rand.Text(), body
	}
	return w.id, body, nil
}

func (w *webhook) post(ctx context.Context, id string, body []byte) error {
	key, err := w.key()
	if err != nil {
		return err
	}
	client, done, err := newClient(&w.files)
	if err != nil {
		return err
	}
	defer done()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "rota")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	answer, err := client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer answer.Body.Close()
	return refusal(answer)
}

// webhookAdvice says what to do about an answer that is none of the good ones.
var webhookAdvice = map[int]string{
	http.StatusUnauthorized:       "it refuses the signature: give both sides the same secret, and the right time",
	http.StatusForbidden:          "it refuses the signature: give both sides the same secret, and the right time",
	http.StatusNotFound:           "nothing listens at this path: correct the path of the URL",
	http.StatusMethodNotAllowed:   "nothing listens for a POST at this path: correct the path of the URL",
	http.StatusTooManyRequests:    "it is asked too often",
	http.StatusServiceUnavailable: "it cannot act now",
}

// refusal turns an answer into an error, unless it is a good one. The body of a good
// answer says nothing.
func refusal(answer *http.Response) error {
	code := answer.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		to := "another address"
		if u, err := answer.Location(); err == nil && u.Host != answer.Request.URL.Host {
			to = quoted(u.Scheme + "://" + u.Host) // its path may be a secret
		}
		return fmt.Errorf("answered %d, a redirect to %s, and those are not followed: write the last address into the URL", code, to)
	}
	text := fmt.Sprintf("answered %d", code)
	if body, _ := readAnswer(answer.Body, 4<<10); len(body) > 0 {
		text += " " + quoted(string(body))
	}
	if advice := webhookAdvice[code]; advice != "" {
		text += ": " + advice
	}
	return orLater(errors.New(text), answer)
}
