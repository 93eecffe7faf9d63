package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/address"
)

// Kubernetes returns a Scaler that changes the number of replicas of a Deployment or a
// StatefulSet, by the API server itself. The URL is k8s:deployment/NAME or
// k8s:statefulset/NAME; in a pod the rest is known, and docs/scalers/kubernetes.md has the
// parameters and the rights it needs. A member's pod is named by its label pod, or else by
// its name. It does not connect.
func Kubernetes(rawURL string) (rota.Scaler, error) {
	w := &workload{pause: markPause}
	if err := w.parse(rawURL); err != nil {
		return nil, fmt.Errorf("scale: %w", err)
	}
	if w.kind == "statefulset" {
		return &statefulSet{w}, nil
	}
	return &deployment{w}, nil
}

// podFolder is where Kubernetes puts the files of a pod's service account.
const podFolder = "/var/run/secrets/kubernetes.io/serviceaccount/"

// A workload is a Deployment or a StatefulSet, and the way to it. The token is read for
// each request and the certificates for each call, since Kubernetes replaces their files.
type workload struct {
	printed
	kind, name, namespace string
	server                string // https://HOST:PORT
	tokenFile             string
	files                 address.Common
	pause                 time.Duration // after marks were set
	group                 atomic.Pointer[string]
}

var workloadParameters = address.Parameters[workload]{
	"namespace":  func(w *workload, v string) error { return address.Name(&w.namespace, v) },
	"server":     func(w *workload, v string) error { return address.Name(&w.server, v) },
	"token-file": func(w *workload, v string) error { return address.File(&w.tokenFile, v) },
	"ca":         func(w *workload, v string) error { return address.File(&w.files.CA, v) },
}

// nameRE is what Kubernetes accepts as the name of an object.
var nameRE = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)

func (w *workload) parse(rawURL string) error {
	rest, _ := strings.CutPrefix(rawURL, "k8s:")
	rest, query, _ := strings.Cut(rest, "?")
	w.kind, w.name, _ = strings.Cut(rest, "/")
	if !strings.HasPrefix(rawURL, "k8s:") || w.kind != "deployment" && w.kind != "statefulset" {
		return errors.New("a URL for Kubernetes is k8s:deployment/NAME or k8s:statefulset/NAME")
	}
	if !nameRE.MatchString(w.name) {
		return fmt.Errorf("%.80q cannot be the name of a %s: it has small letters, digits, dots and hyphens", w.name, w.kind)
	}
	if _, err := workloadParameters.Read(query, w); err != nil {
		return err
	}
	if err := w.fill(); err != nil {
		return err
	}
	if !nameRE.MatchString(w.namespace) {
		return fmt.Errorf("%.80q cannot be a namespace: it has small letters, digits and -", w.namespace)
	}
	w.printed = printed("k8s:" + w.kind + "/" + w.name + "?namespace=" + w.namespace)
	return w.checkServer()
}

// fill sets what the URL does not say and a pod knows.
func (w *workload) fill() error {
	if w.server == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod: name the API server with server=https://HOST:PORT, token-file=FILE, ca=FILE and namespace=NAME")
		}
		w.server = "https://" + net.JoinHostPort(host, port)
		if w.files.CA == "" {
			w.files.CA = podFolder + "ca.crt"
		}
	}
	if w.tokenFile == "" {
		w.tokenFile = podFolder + "token"
	}
	if w.namespace == "" {
		b, err := os.ReadFile(podFolder + "namespace")
		if err != nil {
			return fmt.Errorf("the pod's namespace: %w: give namespace=NAME", err)
		}
		w.namespace = strings.TrimSpace(string(b))
	}
	return nil
}

func (w *workload) checkServer() error {
	u, err := url.Parse(w.server)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("server is the address of the API server, https://HOST:PORT, and nothing else")
	}
	w.server = "https://" + u.Host
	return nil
}

// podOf is the name of a member's pod.
func podOf(m rota.MemberInfo) string {
	if pod := m.Labels["pod"]; pod != "" {
		return pod
	}
	return m.Name
}

// Paths of the API server.
func (w *workload) path() string {
	return "/apis/apps/v1/namespaces/" + w.namespace + "/" + w.kind + "s/" + w.name
}

func (w *workload) scalePath() string { return w.path() + "/scale" }
func (w *workload) podsPath() string  { return "/api/v1/namespaces/" + w.namespace + "/pods" }

// errChanged means that the workload is no longer as it was read.
var errChanged = errors.New("it has changed meanwhile")

// rounds is how often one call reads the workload and tries to change it.
const rounds = 5

// inRounds calls step until it is done. A step that returns errChanged is made again: it
// reads everything anew.
func (w *workload) inRounds(ctx context.Context, step func(*server) error) error {
	client, done, err := newClient(&w.files)
	if err != nil {
		return fmt.Errorf("%s %s: %w", w.kind, w.name, err)
	}
	defer done()
	for range rounds {
		s := &server{w, client}
		if err = s.claim(ctx); err == nil {
			err = step(s)
		}
		if !errors.Is(err, errChanged) {
			break
		}
	}
	switch {
	case errors.Is(err, errChanged):
		return fmt.Errorf("%s %s changed each of %d times before its number could be set: let nothing else scale it, such as a HorizontalPodAutoscaler", w.kind, w.name, rounds)
	case err != nil:
		return fmt.Errorf("%s %s: %w", w.kind, w.name, err)
	}
	return nil
}

// A server is the API server during one call.
type server struct {
	w      *workload
	client *http.Client
}

// A size is how many replicas a workload should have.
type size struct {
	Kind     string `json:"kind"`
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		Replicas int `json:"replicas"` // absent if 0
		Ordinals struct {
			Start int `json:"start"`
		} `json:"ordinals"` // of a StatefulSet
	} `json:"spec"`
	Status struct {
		Selector string `json:"selector"` // of a Scale
	} `json:"status"`
}

func (s *size) check(kind string) error {
	switch {
	case s.Kind != kind:
		return fmt.Errorf("the answer is %s and not a %s: is that the API server?", quoted(s.Kind+" "), kind)
	case s.Metadata.ResourceVersion == "" || s.Spec.Replicas < 0 || s.Spec.Ordinals.Start < 0:
		return fmt.Errorf("the answer is a %s without a version, or with a negative number", kind)
	}
	return nil
}

// size reads the workload itself, of the kind StatefulSet, or its subresource Scale.
func (s *server) size(ctx context.Context, path, kind string) (z size, err error) {
	if err := s.do(ctx, http.MethodGet, path, nil, &z); err != nil {
		return z, err
	}
	return z, z.check(kind)
}

// setSize sets the number of replicas, unless the workload is no longer as z says.
func (s *server) setSize(ctx context.Context, z size, replicas int) error {
	patch := map[string]any{
		"metadata": map[string]any{"resourceVersion": z.Metadata.ResourceVersion},
		"spec":     map[string]any{"replicas": replicas},
	}
	var after size
	return s.do(ctx, http.MethodPatch, s.w.scalePath(), patch, &after)
}

// mostAnswer bounds an answer: a page of pods has some megabytes at most.
const mostAnswer = 32 << 20

// do makes one request, with content as its body, and decodes the answer.
func (s *server) do(ctx context.Context, method, path string, content, into any) error {
	token, err := address.ReadSecret("token", s.w.tokenFile)
	if err != nil {
		return err
	}
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if content == nil {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, s.w.server+path, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "rota")
	switch method {
	case http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	case http.MethodPost:
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("the API server at %s: %w", s.w.server, withoutURL(err))
	}
	defer answer.Body.Close()
	b, err := readAnswer(answer.Body, mostAnswer)
	switch {
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return s.refusal(answer, method, path, b)
	case err != nil:
		return fmt.Errorf("the API server at %s: %w", s.w.server, err)
	}
	return decode(b, into)
}

// refusal says what an answer means that is not a good one, with the server's own words.
func (s *server) refusal(answer *http.Response, method, path string, body []byte) error {
	var status struct {
		Message string `json:"message"`
	}
	said := ""
	if json.Unmarshal(body, &status) == nil && quoted(status.Message) != "" {
		said = " " + quoted(status.Message)
	}
	path, _, _ = strings.Cut(path, "?")
	verb := map[string]string{http.MethodGet: "get", http.MethodPatch: "patch", http.MethodPost: "create"}[method]
	if path == s.w.podsPath() {
		verb = "list"
	}
	switch code := answer.StatusCode; code {
	case http.StatusConflict:
		return errChanged
	case http.StatusUnauthorized:
		return fmt.Errorf("the API server refuses the token in %s (401%s): it has expired, or is not of this cluster", s.w.tokenFile, said)
	case http.StatusForbidden:
		return fmt.Errorf("the service account has no right to %s %s (403%s): docs/scalers/kubernetes.md has the role that it needs", verb, path, said)
	case http.StatusNotFound:
		if strings.HasPrefix(path, s.w.podsPath()+"/") {
			return errChanged // a pod that was there a moment ago
		}
		if path == s.w.claimsPath()+"/"+s.w.claimName() {
			return errUnclaimed
		}
		return fmt.Errorf("there is no such %s in namespace %s (404%s): correct the name, or give namespace=NAME", s.w.kind, s.w.namespace, said)
	default:
		return orLater(fmt.Errorf("the API server at %s answered %d%s to %s %s", s.w.server, code, said, verb, path), answer)
	}
}
