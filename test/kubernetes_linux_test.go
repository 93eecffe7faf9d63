package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/servers"
	"github.com/rota-dev/rota/scale"
)

// A realCluster is a real kube-apiserver and kube-controller-manager over a real etcd, with
// no kubelet: the test plays it.
type realCluster struct {
	t      *testing.T
	dir    string
	server string // https://HOST:PORT
	client *http.Client
}

const (
	adminToken  = "admin-token-of-the-test"
	scalerToken = "scaler-token-of-the-test"
)

// newRealCluster starts the binaries of the folder bin, which scripts/k8s.sh makes.
func newRealCluster(t *testing.T, bin string) *realCluster {
	t.Helper()
	nodes, err := servers.EtcdCluster(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { servers.CloseAll(nodes) })
	c := &realCluster{t: t, dir: t.TempDir()}
	c.write("tokens.csv", adminToken+",admin,1,\"system:masters\"\n"+scalerToken+",system:serviceaccount:shop:web,2\n")
	c.write("token", scalerToken)
	key := c.signingKey()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	c.server = "https://127.0.0.1:" + port
	c.run(filepath.Join(bin, "kube-apiserver"), "--etcd-servers="+nodes[0].URL(), "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+c.dir,
		"--token-auth-file="+filepath.Join(c.dir, "tokens.csv"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://rota.test", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--disable-admission-plugins=ServiceAccount")
	c.trust()
	c.until("the API server", func() bool { return c.ask("GET", "/readyz", "", "", nil) == nil })
	config := c.write("kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"x","user":{"token":%q}}]}`, c.server, c.ca(), adminToken))
	c.run(filepath.Join(bin, "kube-controller-manager"), "--kubeconfig="+config, "--leader-elect=false", "--secure-port=0",
		"--controllers=deployment-controller,replicaset-controller,statefulset-controller")
	return c
}

func (c *realCluster) write(name, text string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c *realCluster) signingKey() (path string) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write("accounts.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

// run runs a server until the test ends.
func (c *realCluster) run(bin string, args ...string) {
	c.t.Helper()
	log, err := os.Create(filepath.Join(c.dir, filepath.Base(bin)+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && c.t.Failed() {
			c.t.Logf("%s: …%s", filepath.Base(bin), text[max(0, len(text)-4000):])
		}
	})
}

// ca is the certificate that the API server has made for itself.
func (c *realCluster) ca() string { return filepath.Join(c.dir, "apiserver.crt") }

func (c *realCluster) trust() {
	pool := x509.NewCertPool()
	c.until("a certificate", func() bool {
		b, err := os.ReadFile(c.ca())
		return err == nil && pool.AppendCertsFromPEM(b)
	})
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: 10 * time.Second}
	c.t.Cleanup(c.client.CloseIdleConnections)
}

// until waits for a condition.
func (c *realCluster) until(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("no sign of %s after two minutes", what)
		}
	}
}

// ask makes a request as an administrator.
func (c *realCluster) ask(method, path, kind, body string, into any) error {
	req, err := http.NewRequest(method, c.server+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", kind)
	answer, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, b)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	return err
}

// create makes an object of YAML.
func (c *realCluster) create(path, yaml string) {
	c.t.Helper()
	if err := c.ask("POST", path, "application/yaml", yaml, nil); err != nil {
		c.t.Fatal(err)
	}
}

type realPod struct {
	Metadata struct {
		Name     string
		Deletion string `json:"deletionTimestamp"`
	}
	Spec   struct{ NodeName string }
	Status struct{ Phase string }
}

func (c *realCluster) pods() (list []realPod) {
	var answer struct{ Items []realPod }
	c.ask("GET", "/api/v1/namespaces/shop/pods", "", "", &answer) // asked again and again
	return answer.Items
}

// kubelet runs pods, and ends those that are deleted, until ctx ends. The names of the
// ended ones come by the channel.
func (c *realCluster) kubelet(ctx context.Context, ended chan<- string) {
	const running = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		for _, p := range c.pods() {
			at := "/api/v1/namespaces/shop/pods/" + p.Metadata.Name
			switch {
			case p.Metadata.Deletion != "":
				if c.ask("DELETE", at, "application/json", `{"gracePeriodSeconds":0}`, nil) == nil {
					ended <- p.Metadata.Name
				}
			case p.Spec.NodeName == "":
				c.ask("POST", at+"/binding", "application/json", fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q},"target":{"kind":"Node","name":"n1"}}`, p.Metadata.Name), nil)
			case p.Status.Phase != "Running":
				c.ask("PATCH", at+"/status", "application/merge-patch+json", running, nil)
			}
		}
	}
}

// running are the names of pods that run.
func (c *realCluster) running() (names []string) {
	for _, p := range c.pods() {
		if p.Status.Phase == "Running" && p.Metadata.Deletion == "" {
			names = append(names, p.Metadata.Name)
		}
	}
	slices.Sort(names)
	return names
}

// roles are the YAML blocks of the page after a phrase.
func roles(t *testing.T, after string) (role, binding string) {
	t.Helper()
	page, err := os.ReadFile("../docs/scalers/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), after)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if !ok || len(blocks) < 2 {
		t.Fatalf("the page has no roles after %q", after)
	}
	return blocks[0][1], blocks[len(blocks)-1][1]
}

// TestKubernetes scales workloads of a real Kubernetes with the rights of the page alone.
// make test-k8s runs it; without ROTA_K8S, the folder of the binaries, there is nothing to
// run it with.
func TestKubernetes(t *testing.T) {
	bin := os.Getenv("ROTA_K8S")
	if bin == "" {
		t.Skip("ROTA_K8S is not set: make test-k8s builds Kubernetes and runs this")
	}
	c := newRealCluster(t, bin)
	c.create("/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	ended := make(chan string, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		c.kubelet(ctx, ended)
		close(over)
	}()
	t.Cleanup(func() { cancel(); <-over })
	t.Run("manifests", func(t *testing.T) { c.t = t; c.tryManifests(t) })
	t.Run("deployment", func(t *testing.T) { c.t = t; c.tryDeployment(t, ended) })
	t.Run("statefulset", func(t *testing.T) { c.t = t; c.tryStatefulSet(t, ended) })
}

// TestRampOfKubernetes is TestRamp with a Deployment: each pod is a member by rota run, which
// the test starts and ends as the kubelet would. Without ROTA_RAMP legs and cool-downs
// are half as long, and nothing is kept.
func TestRampOfKubernetes(t *testing.T) {
	bin := os.Getenv("ROTA_K8S")
	if bin == "" {
		t.Skip("ROTA_K8S is not set: make test-k8s builds Kubernetes and runs this")
	}
	r := newRamp(t, "k8s", "orders", "orders")
	r.serve()
	c := newRealCluster(t, bin)
	c.create("/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	role, binding := roles(t, "For a Deployment.")
	c.create("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles", role)
	c.create("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", binding)
	c.create("/apis/apps/v1/namespaces/shop/deployments", strings.Replace(fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}"+realSpec, "", "web"), "  serviceName: web\n", "", 1))
	leg := 2 * time.Minute
	if os.Getenv("ROTA_RAMP") == "" {
		leg = time.Minute
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		c.members(ctx, r, "--down-after", (leg / 2).String()) // a minute in a whole ramp, as it is without the flag
		close(over)
	}()
	t.Cleanup(func() { cancel(); <-over })
	r.until("a first member", 2*time.Minute, func() bool { _, have, _ := r.members(); return have > 0 })
	r.climb(leg)
	r.judgeAll(now(), r.eventFiles()...)
}

// members runs a member with some flags for each pod, until ctx ends; then it ends them.
func (c *realCluster) members(ctx context.Context, r *ramp, flags ...string) {
	const running = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	run, ending := map[string]*process{}, map[string]bool{}
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		for _, pod := range c.pods() {
			name := pod.Metadata.Name
			at, p := "/api/v1/namespaces/shop/pods/"+name, run[name]
			switch {
			case p == nil && pod.Metadata.Deletion == "":
				c.ask("POST", at+"/binding", "application/json", fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q},"target":{"kind":"Node","name":"n1"}}`, name), nil)
				run[name] = r.run(name, c.url("Deployment"), flags...)
			case p == nil || pod.Metadata.Deletion != "" && ended(p.gone):
				c.ask("DELETE", at, "application/json", `{"gracePeriodSeconds":0}`, nil)
			case pod.Metadata.Deletion != "" && !ending[name]:
				ending[name] = true
				go p.end()
			case pod.Status.Phase != "Running" && ended(p.joined):
				c.ask("PATCH", at+"/status", "application/merge-patch+json", running, nil)
			}
		}
	}
	for _, p := range run {
		p.end()
	}
}

// ended tells whether a channel is closed.
func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// tryManifests gives the files of deploy/kubernetes to the API server as a dry run. It
// refuses fields that it does not know.
func (c *realCluster) tryManifests(t *testing.T) {
	files, err := filepath.Glob("../deploy/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	kind := regexp.MustCompile(`(?m)^apiVersion: (\S+)\nkind: (\S+)$`)
	try := func(object string) error {
		found := kind.FindStringSubmatch(object)
		if found == nil {
			return fmt.Errorf("neither apiVersion nor kind in %s", object)
		}
		at := "/apis/" + found[1]
		if found[1] == "v1" {
			at = "/api/v1"
		}
		return c.ask("POST", at+"/namespaces/default/"+strings.ToLower(found[2])+"s?dryRun=All&fieldValidation=Strict", "application/yaml", object, nil)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, object := range strings.Split(string(text), "\n---\n") {
			if err := try(object); err != nil {
				t.Errorf("%s, object %d: %v", file, i+1, err)
			}
			if err := try(strings.Replace(object, "metadata:", "surprise: 1\nmetadata:", 1)); err == nil || !strings.Contains(err.Error(), "surprise") {
				t.Errorf("%s, object %d: a field that nobody knows: %v", file, i+1, err)
			}
		}
	}
}

const realSpec = `
spec:
  replicas: 1
  serviceName: web
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      terminationGracePeriodSeconds: 30
      containers: [{name: web, image: none}]
`

// workload makes a workload called web and grants the scaler the page's role.
func (c *realCluster) workload(t *testing.T, kind, resource, phrase string) rota.Scaler {
	t.Helper()
	s := c.scaler(t, kind, "orders")
	if err := s.Scale(t.Context(), 2, nil); err == nil || !strings.Contains(err.Error(), "the service account has no right to get ") {
		t.Errorf("without the role: %v", err)
	}
	role, binding := roles(t, phrase)
	role = strings.Replace(role, "name: rota-scaler", "name: rota-"+resource, 1)
	binding = strings.ReplaceAll(binding, "name: rota-scaler", "name: rota-"+resource)
	c.create("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles", role)
	c.create("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", binding)
	c.until("the rights", func() bool {
		err := s.Scale(t.Context(), 2, nil)
		return err != nil && strings.Contains(err.Error(), "there is no such "+strings.ToLower(kind))
	})
	spec := fmt.Sprintf("apiVersion: apps/v1\nkind: %[1]s\nmetadata: {name: web}"+realSpec, kind, "web-"+resource)
	if kind == "Deployment" {
		spec = strings.Replace(spec, "  serviceName: web\n", "", 1)
	}
	c.create("/apis/apps/v1/namespaces/shop/"+resource, spec)
	c.until("the first pod", func() bool { return len(c.running()) == 1 })
	c.tryClaim(t, kind, s)
	return s
}

// url is the address of the workload web for --scaler.
func (c *realCluster) url(kind string) string {
	return fmt.Sprintf("k8s:%s/web?namespace=shop&server=%s&ca=%s&token-file=%s", strings.ToLower(kind), c.server, c.ca(), filepath.Join(c.dir, "token"))
}

// scaler returns a scaler of a group for the workload web.
func (c *realCluster) scaler(t *testing.T, kind, group string) rota.Scaler {
	t.Helper()
	s, err := scale.Kubernetes(c.url(kind))
	if err == nil {
		err = s.(rota.Binder).Bind(group)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tryClaim lets another group try to scale a workload that s has claimed.
func (c *realCluster) tryClaim(t *testing.T, kind string, s rota.Scaler) {
	t.Helper()
	other := c.scaler(t, kind, "billing")
	refused := func(s rota.Scaler, by string) {
		t.Helper()
		if err := s.Scale(t.Context(), 1, nil); err == nil || !strings.Contains(err.Error(), `group "`+by+`" scales it`) {
			t.Errorf("a workload of group %s: %v", by, err)
		}
	}
	lease := "/apis/coordination.k8s.io/v1/namespaces/shop/leases/rota-" + strings.ToLower(kind) + "-web"
	if err := s.Scale(t.Context(), 1, nil); err != nil {
		t.Error(err)
	}
	refused(other, "orders")
	if err := c.ask("DELETE", lease, "application/json", "{}", nil); err != nil {
		t.Error(err)
	}
	if err := other.Scale(t.Context(), 1, nil); err != nil {
		t.Errorf("the Lease was deleted: %v", err)
	}
	refused(s, "billing")
	if err := c.ask("PATCH", lease, "application/merge-patch+json", `{"spec":{"holderIdentity":null}}`, nil); err != nil {
		t.Error(err)
	}
	if err := s.Scale(t.Context(), 1, nil); err != nil {
		t.Errorf("the Lease was emptied: %v", err)
	}
}

// scaleUntil repeats a call, as the leader does, until so many pods run.
func (c *realCluster) scaleUntil(t *testing.T, s rota.Scaler, want int, remove ...string) {
	t.Helper()
	var list []rota.MemberInfo
	for _, name := range remove {
		list = append(list, rota.MemberInfo{Name: name, Session: "s"})
	}
	var last error
	c.until(fmt.Sprintf("%d pods", want), func() bool {
		if err := s.Scale(t.Context(), want, list); fmt.Sprint(err) != fmt.Sprint(last) {
			t.Logf("want %d without %v: %v", want, remove, err)
			last = err
		}
		return len(c.running()) == want
	})
	if err := s.Scale(t.Context(), want, list); err != nil {
		t.Error(err)
	}
}

// gone returns the names of pods that have ended.
func gone(ended <-chan string, n int) (names []string) {
	for range n {
		names = append(names, <-ended)
	}
	slices.Sort(names)
	return names
}

// tryDeployment removes chosen pods, the oldest among them, which Kubernetes would keep.
func (c *realCluster) tryDeployment(t *testing.T, ended <-chan string) {
	s := c.workload(t, "Deployment", "deployments", "For a Deployment.")
	first := c.running()[0]
	c.scaleUntil(t, s, 6)
	for round := range 3 {
		victims := []string{c.running()[round]}
		if round == 0 {
			victims = []string{first, c.running()[5]}
			if first == victims[1] {
				victims[1] = c.running()[4]
			}
		}
		slices.Sort(victims)
		c.scaleUntil(t, s, len(c.running())-len(victims), victims...)
		if got := gone(ended, len(victims)); !slices.Equal(got, victims) {
			t.Errorf("%v have ended, want %v", got, victims)
		}
	}
	if err := s.Scale(t.Context(), 1, nil); err != nil || len(c.running()) != 2 {
		t.Errorf("fewer, and nobody named: %v, %v run", err, c.running())
	}
	err := s.Scale(t.Context(), 1, []rota.MemberInfo{{Name: "stranger"}})
	if err == nil || !strings.Contains(err.Error(), "belongs to stranger") {
		t.Errorf("a member without a pod: %v", err)
	}
	c.delete(t, "deployments", ended, 2)
}

func (c *realCluster) tryStatefulSet(t *testing.T, ended <-chan string) {
	s := c.workload(t, "StatefulSet", "statefulsets", "For a StatefulSet:")
	c.scaleUntil(t, s, 4)
	err := s.Scale(t.Context(), 3, []rota.MemberInfo{{Name: "web-1"}})
	if err == nil || !strings.Contains(err.Error(), "pod web-3 is the next that Kubernetes removes") {
		t.Errorf("not the highest: %v", err)
	}
	c.scaleUntil(t, s, 2, "web-2", "web-3")
	if got := gone(ended, 2); !slices.Equal(got, []string{"web-2", "web-3"}) {
		t.Errorf("%v have ended", got)
	}
	c.delete(t, "statefulsets", ended, 2)
}

// delete deletes the workload and its pods.
func (c *realCluster) delete(t *testing.T, resource string, ended <-chan string, n int) {
	t.Helper()
	errs := []error{c.ask("DELETE", "/apis/apps/v1/namespaces/shop/"+resource+"/web", "application/json", `{"propagationPolicy":"Orphan"}`, nil)}
	if resource == "deployments" {
		errs = append(errs, c.ask("DELETE", "/apis/apps/v1/namespaces/shop/replicasets", "application/json", `{"propagationPolicy":"Orphan"}`, nil))
	}
	errs = append(errs, c.ask("DELETE", "/api/v1/namespaces/shop/pods", "application/json", "{}", nil))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	gone(ended, n)
	c.until("the end of the pods", func() bool { return len(c.pods()) == 0 })
}
