package scale

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// A fakeCluster is an API server with one workload, and the controllers that make pods of
// its number. It chooses the pods to remove as Kubernetes does.
type fakeCluster struct {
	*httptest.Server
	t    *testing.T
	kind string // deployments or statefulsets

	mu       sync.Mutex
	token    string
	replicas int
	start    int // the first ordinal
	version  int
	made     int
	pods     map[string]*fakePod
	claimed  bool            // there is a Lease
	holder   string          // whose it is
	log      []string        // changes
	calls    map[string]bool // verb and resource of each request
	answer   func(r *http.Request) (code int, header, body string)
}

type fakePod struct {
	cost               string
	node, ready, ended bool // ended: it is being deleted
	set                string
	made               int
}

func newCluster(t *testing.T, kind string, replicas int) *fakeCluster {
	c := &fakeCluster{t: t, kind: kind, token: concealed, version: 100, pods: map[string]*fakePod{}, calls: map[string]bool{}}
	c.resize(replicas)
	c.log = nil
	c.Server = httptest.NewTLSServer(c)
	t.Cleanup(c.Close)
	return c
}

// scaler returns a scaler for the workload web.
func (c *fakeCluster) scaler(token string) rota.Scaler {
	c.t.Helper()
	ca := write(c.t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})))
	s, err := Kubernetes(fmt.Sprintf("k8s:%s/web?namespace=shop&server=%s&ca=%s&token-file=%s", strings.TrimSuffix(c.kind, "s"), c.URL, ca, token))
	if err != nil {
		c.t.Fatal(err)
	}
	if d, ok := s.(*deployment); ok {
		d.pause = 0
	}
	return s
}

// resize is the controller.
func (c *fakeCluster) resize(replicas int) {
	c.log = append(c.log, fmt.Sprintf("%d→%d", c.replicas, replicas))
	c.replicas = replicas
	var live []string
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		if !c.pods[name].ended {
			live = append(live, name)
		}
	}
	for n := len(live); n < replicas; n++ {
		name := fmt.Sprintf("web-%d", c.start+n)
		if c.kind == "deployments" {
			name = fmt.Sprintf("web-5f6-%c", 'a'+c.made)
		}
		c.made++
		c.pods[name] = &fakePod{node: true, ready: true, set: "web-5f6", made: c.made}
	}
	slices.SortStableFunc(live, func(a, b string) int { return c.removedFirst(c.pods[a], c.pods[b]) })
	for _, name := range live[:max(0, len(live)-replicas)] {
		c.pods[name].ended = true
		c.log = append(c.log, "end "+name)
	}
}

// removedFirst orders pods as the controllers do: those on no node, those that are not
// ready, those with a lower cost, the newest.
func (c *fakeCluster) removedFirst(a, b *fakePod) int {
	if c.kind == "statefulsets" {
		return cmp.Compare(b.made, a.made)
	}
	first := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	cost := func(p *fakePod) int { n, _ := strconv.Atoi(p.cost); return n }
	return cmp.Or(cmp.Compare(first(a.node), first(b.node)), cmp.Compare(first(a.ready), first(b.ready)), cmp.Compare(cost(a), cost(b)), cmp.Compare(b.made, a.made))
}

func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil {
		if code, header, body := c.answer(r); code != 0 {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(code)
			fmt.Fprint(w, body)
			return
		}
	}
	if r.Header.Get("Authorization") != "Bearer "+c.token {
		c.refuse(w, 401, "Unauthorized")
		return
	}
	object := "/apis/apps/v1/namespaces/shop/" + c.kind + "/web"
	pods := "/api/v1/namespaces/shop/pods"
	claims := "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
	claim := claims + "/rota-" + strings.TrimSuffix(c.kind, "s") + "-web"
	name, isPod := strings.CutPrefix(r.URL.Path, pods+"/")
	verb, resource := strings.ToLower(r.Method), c.kind+strings.TrimPrefix(r.URL.Path, object)
	switch {
	case r.URL.Path == claims:
		verb, resource = "create", "leases"
	case r.URL.Path == claim:
		resource = "leases"
	case isPod:
		resource = "pods"
	case r.URL.Path == pods:
		verb, resource = "list", "pods"
	}
	c.calls[verb+" "+resource] = true
	switch {
	case r.Method == "GET" && r.URL.Path == object+"/scale":
		c.show(w, "Scale")
	case r.Method == "GET" && r.URL.Path == object && c.kind == "statefulsets":
		c.show(w, "StatefulSet")
	case r.Method == "PATCH" && r.URL.Path == object+"/scale":
		c.patchScale(w, r)
	case r.Method == "GET" && r.URL.Path == pods && r.URL.Query().Get("labelSelector") == "app=web":
		c.list(w, r)
	case r.Method == "PATCH" && isPod && c.pods[name] != nil:
		c.patchPod(w, r, name)
	case r.Method == "GET" && r.URL.Path == claim && c.claimed:
		c.showClaim(w)
	case r.Method == "POST" && r.URL.Path == claims || r.Method == "PATCH" && r.URL.Path == claim && c.claimed:
		c.setClaim(w, r)
	default:
		c.refuse(w, 404, r.Method+" "+r.URL.Path+" not found")
	}
}

func (c *fakeCluster) refuse(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "status": "Failure", "message": message, "code": code})
}

func (c *fakeCluster) show(w http.ResponseWriter, kind string) {
	spec := map[string]any{"replicas": c.replicas, "ordinals": map[string]any{"start": c.start}}
	if c.replicas == 0 {
		delete(spec, "replicas")
	}
	json.NewEncoder(w).Encode(map[string]any{"kind": kind, "metadata": map[string]any{"resourceVersion": strconv.Itoa(c.version)},
		"spec": spec, "status": map[string]any{"selector": "app=web"}})
}

// read decodes the body of a patch.
func (c *fakeCluster) read(r *http.Request, into any) {
	if got := r.Header.Get("Content-Type"); got != "application/merge-patch+json" {
		c.t.Errorf("a patch of type %q", got)
	}
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		c.t.Error(err)
	}
}

func (c *fakeCluster) patchScale(w http.ResponseWriter, r *http.Request) {
	var patch size
	c.read(r, &patch)
	if patch.Metadata.ResourceVersion != strconv.Itoa(c.version) {
		c.refuse(w, 409, "the object has been modified")
		return
	}
	c.version++
	c.resize(patch.Spec.Replicas)
	c.show(w, "Scale")
}

func (c *fakeCluster) patchPod(w http.ResponseWriter, r *http.Request, name string) {
	var patch struct {
		Metadata struct{ Annotations map[string]*string }
	}
	c.read(r, &patch)
	cost := patch.Metadata.Annotations["controller.kubernetes.io/pod-deletion-cost"]
	c.pods[name].cost = ""
	if cost != nil {
		c.pods[name].cost = *cost
	}
	c.log = append(c.log, "cost "+name+" "+c.pods[name].cost)
	fmt.Fprint(w, `{"kind":"Pod"}`)
}

func (c *fakeCluster) showClaim(w http.ResponseWriter) {
	json.NewEncoder(w).Encode(map[string]any{"kind": "Lease", "metadata": map[string]any{"resourceVersion": strconv.Itoa(c.version)}, "spec": map[string]any{"holderIdentity": c.holder}})
}

// setClaim makes the Lease, or changes it.
func (c *fakeCluster) setClaim(w http.ResponseWriter, r *http.Request) {
	var sent claimed
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		c.t.Error(err)
	}
	if r.Method == "POST" && (c.claimed || r.Header.Get("Content-Type") != "application/json") || r.Method == "PATCH" && sent.Metadata.ResourceVersion != strconv.Itoa(c.version) {
		c.refuse(w, 409, "it is there already, or has been modified")
		return
	}
	c.claimed, c.holder = true, sent.Spec.Holder
	c.version++
	c.log = append(c.log, "claimed by "+c.holder)
	c.showClaim(w)
}

// list shows two pods on a page.
func (c *fakeCluster) list(w http.ResponseWriter, r *http.Request) {
	names := slices.Sorted(maps.Keys(c.pods))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	to := min(from+2, len(names))
	items, metadata := []any{}, map[string]any{}
	for _, name := range names[from:to] {
		p := c.pods[name]
		m := map[string]any{"name": name, "ownerReferences": []any{map[string]any{"kind": "ReplicaSet", "name": p.set}}}
		if p.ended {
			m["deletionTimestamp"] = "2026-01-02T03:04:05Z"
		}
		if p.cost != "" {
			m["annotations"] = map[string]any{"controller.kubernetes.io/pod-deletion-cost": p.cost}
		}
		spec, status := map[string]any{}, map[string]any{"phase": "Pending"}
		if p.node {
			spec["nodeName"] = "node1"
			status["phase"] = "Running"
		}
		status["conditions"] = []any{map[string]any{"type": "Ready", "status": map[bool]string{true: "True", false: "False"}[p.ready]}}
		items = append(items, map[string]any{"metadata": m, "spec": spec, "status": status})
	}
	if to < len(names) {
		metadata["continue"] = strconv.Itoa(to)
	}
	json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "metadata": metadata, "items": items})
}

// changes returns what has happened since it was last asked.
func (c *fakeCluster) changes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := strings.Join(c.log, ", ")
	c.log = nil
	return out
}

// pod returns a pod of a Deployment by its last letter.
func (c *fakeCluster) pod(letter string) *fakePod { return c.pods["web-5f6-"+letter] }

// members are members of pods with these last letters or ordinals.
func members(prefix string, ends ...string) (out []rota.MemberInfo) {
	for _, end := range ends {
		out = append(out, rota.MemberInfo{Name: prefix + end, Session: "s-" + end})
	}
	return out
}

func TestADeploymentRemovesTheMembersThatAreNamed(t *testing.T) {
	const low = "-2147483648"
	for _, c := range []struct {
		name    string
		set     func(*fakeCluster)
		want    int
		remove  string // letters of pods, of five a to e
		changes string
		fails   string
	}{
		{name: "as it is", want: 5},
		{name: "more", want: 7, changes: "5→7"},
		{name: "more, and some to end", want: 6, remove: "a", changes: "5→6"},
		{name: "fewer, and nobody named", want: 3},
		{name: "two go", want: 3, remove: "bd", changes: "cost web-5f6-b " + low + ", cost web-5f6-d " + low + ", 5→3, end web-5f6-d, end web-5f6-b"},
		{name: "fewer named than the difference", want: 1, remove: "b", changes: "cost web-5f6-b " + low + ", 5→4, end web-5f6-b"},
		{name: "more named than the difference", want: 4, remove: "b", changes: "cost web-5f6-b " + low + ", 5→4, end web-5f6-b"},
		{name: "marked already", set: func(f *fakeCluster) { f.pod("b").cost = low }, want: 4, remove: "b", changes: "5→4, end web-5f6-b"},
		{name: "an old mark", set: func(f *fakeCluster) { f.pod("a").cost = low }, want: 4, remove: "b",
			changes: "cost web-5f6-a , cost web-5f6-b " + low + ", 5→4, end web-5f6-b"},
		{name: "somebody's own costs", set: func(f *fakeCluster) { f.pod("a").cost = "-7" }, want: 4, remove: "b", changes: "cost web-5f6-b " + low + ", 5→4, end web-5f6-b"},
		{name: "ending already", set: func(f *fakeCluster) { f.pod("b").ended = true }, want: 4, remove: "b"},
		{name: "one ending already", set: func(f *fakeCluster) { f.pod("b").ended = true }, want: 2, remove: "bc", changes: "cost web-5f6-c " + low + ", 5→4"},
		{name: "unknown", want: 4, remove: "x", fails: "deployment web: no pod in namespace shop belongs to web-5f6-x: give each member the name of its pod"},
		{name: "one unknown", want: 3, remove: "bx", changes: "cost web-5f6-b " + low + ", 5→4, end web-5f6-b"},
		{name: "another is not ready", set: func(f *fakeCluster) { f.pod("a").ready = false }, want: 4, remove: "b", fails: "pod web-5f6-a is not ready, and Kubernetes would end it before"},
		{name: "it is not ready itself", set: func(f *fakeCluster) { f.pod("b").ready = false }, want: 4, remove: "b", changes: "cost web-5f6-b " + low + ", 5→4, end web-5f6-b"},
		{name: "another is on no node", set: func(f *fakeCluster) { *f.pod("a") = fakePod{set: "web-5f6"} }, want: 3, remove: "b", changes: "cost web-5f6-b " + low + ", 5→4, end web-5f6-a"},
		{name: "a rollout", set: func(f *fakeCluster) { f.pod("e").set = "web-777" }, want: 4, remove: "b", fails: "ReplicaSets web-5f6 and web-777, so a rollout is going on"},
		{name: "none at all", set: func(f *fakeCluster) { f.replicas = 0 }, want: 0, remove: "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newCluster(t, "deployments", 5)
			if c.set != nil {
				c.set(f)
			}
			err := f.scaler(write(t, concealed)).Scale(t.Context(), c.want, members("web-5f6-", strings.Split(c.remove, "")...))
			if c.remove == "" {
				err = f.scaler(write(t, concealed)).Scale(t.Context(), c.want, nil)
			}
			if got := f.changes(); got != c.changes {
				t.Errorf("changes %q, want %q", got, c.changes)
			}
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%v, want %q", err, c.fails)
			}
		})
	}
}

// TestALoweredNumberStays repeats a call while the victim ends, as the leader does.
func TestALoweredNumberStays(t *testing.T) {
	f := newCluster(t, "deployments", 5)
	s := f.scaler(write(t, concealed))
	for range 3 {
		if err := s.Scale(t.Context(), 4, members("web-5f6-", "c")); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := f.changes(), "cost web-5f6-c -2147483648, 5→4, end web-5f6-c"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
}

func TestAMembersPodIsInItsLabel(t *testing.T) {
	f := newCluster(t, "deployments", 3)
	m := rota.MemberInfo{Name: "m1", Labels: map[string]string{"pod": "web-5f6-a"}}
	if err := f.scaler(write(t, concealed)).Scale(t.Context(), 2, []rota.MemberInfo{m}); err != nil || !strings.HasSuffix(f.changes(), "end web-5f6-a") {
		t.Errorf("%v", err)
	}
}

func TestAStatefulSetRemovesItsHighestOrdinals(t *testing.T) {
	for _, c := range []struct {
		name    string
		start   int
		want    int
		remove  string
		changes string
		fails   string
	}{
		{name: "more", want: 7, changes: "5→7"},
		{name: "nobody named", want: 3},
		{name: "the highest", want: 4, remove: "4", changes: "5→4, end web-4"},
		{name: "the two highest", want: 3, remove: "3 4", changes: "5→3, end web-4, end web-3"},
		{name: "more named than the difference", want: 4, remove: "3 4", changes: "5→4, end web-4"},
		{name: "fewer named than the difference", want: 1, remove: "4", changes: "5→4, end web-4"},
		{name: "a gap", want: 3, remove: "4 2", changes: "5→4, end web-4"},
		{name: "not the highest", want: 4, remove: "2 3", fails: "statefulset web: pod web-4 is the next that Kubernetes removes, and the members to remove are web-2, web-3"},
		{name: "gone already", want: 4, remove: "5"},
		{name: "no ordinal", want: 4, remove: "x", fails: "member web-x is not in a pod web-N"},
		{name: "no number of Kubernetes", want: 4, remove: "04", fails: "member web-04 is not in a pod web-N"},
		{name: "ordinals from ten", start: 10, want: 4, remove: "14", changes: "5→4, end web-14"},
		{name: "ordinals from ten, another", start: 10, want: 4, remove: "13", fails: "pod web-14 is the next"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newCluster(t, "statefulsets", 0)
			f.start = c.start
			f.resize(5)
			f.log = nil
			err := f.scaler(write(t, concealed)).Scale(t.Context(), c.want, members("web-", strings.Fields(c.remove)...))
			if got := f.changes(); got != c.changes {
				t.Errorf("changes %q, want %q", got, c.changes)
			}
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%v, want %q", err, c.fails)
			}
		})
	}
}

func TestOnlyAStatefulSetHasAnOrder(t *testing.T) {
	if _, ok := newCluster(t, "deployments", 1).scaler(write(t, concealed)).(rota.RemovalOrder); ok {
		t.Error("a Deployment says whom it removes")
	}
	s := newCluster(t, "statefulsets", 1).scaler(write(t, concealed)).(rota.RemovalOrder)
	list := members("web-", "2", "10", "x", "9")
	list = append(list, rota.MemberInfo{Name: "m", Labels: map[string]string{"pod": "web-11"}})
	slices.SortStableFunc(list, func(a, b rota.MemberInfo) int {
		switch {
		case s.RemovedBefore(a, b):
			return -1
		case s.RemovedBefore(b, a):
			return 1
		}
		return 0
	})
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
		if s.RemovedBefore(m, m) {
			t.Errorf("%s is removed before itself", m.Name)
		}
	}
	if got := strings.Join(names, " "); got != "m web-10 web-9 web-2 web-x" {
		t.Errorf("they go in the order %s", got)
	}
}

// TestEachTroubleOfKubernetesIsOneClearError has one row for each answer that an operator
// can do something about.
func TestEachTroubleOfKubernetesIsOneClearError(t *testing.T) {
	const says = `{"kind":"Status","message":"its own words"}`
	on := func(method, part string, code int, header, body string) func(*http.Request) (int, string, string) {
		return func(r *http.Request) (int, string, string) {
			if r.Method == method && strings.Contains(r.URL.Path, part) {
				return code, header, body
			}
			return 0, "", ""
		}
	}
	for _, c := range []struct {
		name      string
		answer    func(*http.Request) (int, string, string)
		want      string
		wantRetry time.Duration
	}{
		{"expired token", on("GET", "/scale", 401, "", says), `(401 "its own words"): it has expired, or is not of this cluster`, -1},
		{"no right to read", on("GET", "/scale", 403, "", says), "no right to get /apis/apps/v1/namespaces/shop/deployments/web/scale (403 \"its own words\"): docs/scalers/kubernetes.md has the role", -1},
		{"no right to patch", on("PATCH", "/scale", 403, "", ""), "no right to patch /apis/apps/v1/namespaces/shop/deployments/web/scale (403): docs/scalers", -1},
		{"no right to list pods", on("GET", "/pods", 403, "", ""), "no right to list /api/v1/namespaces/shop/pods (403)", -1},
		{"no right to mark pods", on("PATCH", "/pods/", 403, "", ""), "no right to patch /api/v1/namespaces/shop/pods/web-5f6-b (403)", -1},
		{"wrong name", on("GET", "/scale", 404, "", says), "there is no such deployment in namespace shop (404 \"its own words\"): correct the name, or give namespace=NAME", -1},
		{"conflicts without end", on("PATCH", "/scale", 409, "", says), "deployment web changed each of 5 times before its number could be set: let nothing else scale it", -1},
		{"too many requests", on("GET", "/scale", 429, "Retry-After: 3", ""), "answered 429 to get /apis/apps/v1/namespaces/shop/deployments/web/scale; it asks for a pause of 3s", 3 * time.Second},
		{"too many patches", on("PATCH", "/scale", 429, "Retry-After: 3", says), `answered 429 "its own words" to patch`, 3 * time.Second},
		{"unavailable", on("GET", "/pods", 503, "Retry-After: 1", ""), "answered 503 to list", time.Second},
		{"internal error", on("GET", "/scale", 500, "", "oops\x1b[2J"), "answered 500 to get", -1},
		{"a redirect", on("GET", "/scale", 302, "Location: https://elsewhere.example/", ""), "answered 302 to get", -1},
		{"no JSON", on("GET", "/scale", 200, "", "<html>\nhello"), `the answer is not the JSON that was asked for: invalid character '<' looking for beginning of value: "<html> hello"`, -1},
		{"half an answer", on("GET", "/scale", 200, "", `{"kind":"Scale"`), "unexpected end of JSON input", -1},
		{"another kind", on("GET", "/scale", 200, "", `{"kind":"Pod"}`), `the answer is "Pod" and not a Scale: is that the API server?`, -1},
		{"no version", on("GET", "/scale", 200, "", `{"kind":"Scale"}`), "a Scale without a version", -1},
		{"negative", on("GET", "/scale", 200, "", `{"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{"replicas":-1}}`), "with a negative number", -1},
		{"no selector", on("GET", "/scale", 200, "", `{"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{"replicas":9}}`), "a Scale without a selector", -1},
		{"no right to look at the claim", on("GET", "/leases/", 403, "", ""), "no right to get /apis/coordination.k8s.io/v1/namespaces/shop/leases/rota-deployment-web (403)", -1},
		{"no right to claim", on("POST", "/leases", 403, "", says), `no right to create /apis/coordination.k8s.io/v1/namespaces/shop/leases (403 "its own words")`, -1},
		{"claims without end", on("POST", "/leases", 409, "", says), "deployment web changed each of 5 times", -1},
		{"another group", on("GET", "/leases/", 200, "", `{"kind":"Lease","metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":"bil\u001bling"}}`),
			`deployment web: group "bil?ling" scales it, as the Lease rota-deployment-web says, and this is group orders: give each group a deployment of its own, or delete that Lease if "bil?ling" does not scale it any more`, -1},
		{"no claim", on("GET", "/leases/", 200, "", `{"kind":"Pod"}`), `the answer is "Pod" and not a Lease`, -1},
		{"no list of pods", on("GET", "/pods", 200, "", `{"kind":"Status"}`), `the answer is "Status" and not a PodList`, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newCluster(t, "deployments", 5)
			f.answer = c.answer
			s := f.scaler(write(t, concealed))
			if err := s.(rota.Binder).Bind("orders"); err != nil {
				t.Fatal(err)
			}
			err := s.Scale(t.Context(), 4, members("web-5f6-", "b"))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), concealed) || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%v, want %s", err, c.want)
			}
			if got := retry(err); got != c.wantRetry {
				t.Errorf("the error asks for %v, want %v", got, c.wantRetry)
			}
			if strings.Contains(f.changes(), "end") {
				t.Error("a pod was ended")
			}
		})
	}
}

// TestRightsOfThePage: the roles of the page have the rights that a raise and a lowering
// need, and no others.
func TestRightsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/scalers/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "For a Deployment.")
	first, second, ok := strings.Cut(text, "For a StatefulSet:")
	if !ok {
		t.Fatal("the page has no roles")
	}
	for kind, role := range map[string]string{"deployments": first, "statefulsets": second} {
		var granted []string
		for _, m := range regexp.MustCompile(`resources: \[(.*)\]\n(?:.*resourceNames.*\n)?.*verbs: \[(.*)\]`).FindAllStringSubmatch(role, -1) {
			for verb := range strings.SplitSeq(m[2], ", ") {
				granted = append(granted, verb+" "+m[1])
			}
		}
		slices.Sort(granted)
		f := newCluster(t, kind, 3)
		s := f.scaler(write(t, concealed))
		if err := s.(rota.Binder).Bind("orders"); err != nil {
			t.Fatal(err)
		}
		remove := members("web-5f6-", "a")
		if kind == "statefulsets" {
			remove = members("web-", "3")
		}
		if err := errors.Join(s.Scale(t.Context(), 4, nil), s.Scale(t.Context(), 3, remove)); err != nil {
			t.Fatal(err)
		}
		f.holder = "" // somebody has emptied the Lease
		if err := s.Scale(t.Context(), 3, nil); err != nil {
			t.Fatal(err)
		}
		if used := slices.Sorted(maps.Keys(f.calls)); !slices.Equal(used, granted) {
			t.Errorf("the page grants %v, and %s need %v", granted, kind, used)
		}
	}
}

// TestTwoGroupsDoNotScaleOneWorkload: the first group that scales a workload claims it, the
// other one changes nothing and says so, until the claim is taken away.
func TestTwoGroupsDoNotScaleOneWorkload(t *testing.T) {
	for _, kind := range []string{"deployments", "statefulsets"} {
		f := newCluster(t, kind, 2)
		of := func(group string) rota.Scaler {
			s := f.scaler(write(t, concealed))
			b := s.(rota.Binder)
			if err := errors.Join(b.Bind(group), b.Bind(group)); err != nil {
				t.Fatal(err)
			}
			if err := b.Bind("third"); err == nil || !strings.Contains(err.Error(), "is for group "+group+": make another one for third") {
				t.Errorf("bound to another group: %v", err)
			}
			return s
		}
		orders, billing := of("orders"), of("billing")
		for range 2 {
			if err := orders.Scale(t.Context(), 3, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := f.changes(), "claimed by orders, 2→3"; got != want {
			t.Errorf("changes %q, want %q", got, want)
		}
		for range 2 {
			if err := billing.Scale(t.Context(), 5, nil); err == nil || !strings.Contains(err.Error(), `group "orders" scales it`) || !strings.Contains(err.Error(), "this is group billing") {
				t.Errorf("a workload of another group: %v", err)
			}
		}
		if got := f.changes(); got != "" {
			t.Errorf("changes %q by a group that must not", got)
		}
		f.mu.Lock()
		f.claimed = false // kubectl delete lease
		f.mu.Unlock()
		if err := billing.Scale(t.Context(), 5, nil); err != nil {
			t.Errorf("the claim was taken away: %v", err)
		}
		if got, want := f.changes(), "claimed by billing, 3→5"; got != want {
			t.Errorf("changes %q, want %q", got, want)
		}
		if err := orders.Scale(t.Context(), 3, nil); err == nil {
			t.Error("the group that lost its claim goes on")
		}
	}
}

// TestAClaimThatIsLost: another group is faster, between our look and our claim.
func TestAClaimThatIsLost(t *testing.T) {
	for _, empty := range []bool{false, true} {
		f := newCluster(t, "statefulsets", 2)
		f.claimed = empty
		s := f.scaler(write(t, concealed))
		if err := s.(rota.Binder).Bind("orders"); err != nil {
			t.Fatal(err)
		}
		f.answer = func(r *http.Request) (int, string, string) {
			if r.Method != "GET" && strings.Contains(r.URL.Path, "/leases") {
				f.answer = nil
				f.claimed, f.holder = true, "billing"
				f.version++
			}
			return 0, "", ""
		}
		if err := s.Scale(t.Context(), 3, nil); err == nil || !strings.Contains(err.Error(), `group "billing" scales it`) || f.changes() != "" {
			t.Errorf("%v", err)
		}
	}
}

func TestAConflictIsReadAgain(t *testing.T) {
	f := newCluster(t, "deployments", 5)
	f.answer = func(r *http.Request) (int, string, string) {
		if r.Method == "PATCH" && strings.HasSuffix(r.URL.Path, "/scale") {
			f.answer = nil
			f.version++
			f.resize(9) // somebody else was faster
		}
		return 0, "", ""
	}
	if err := f.scaler(write(t, concealed)).Scale(t.Context(), 7, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.changes(); got != "5→9" {
		t.Errorf("changes %q: nobody was named, so nobody had to go", got)
	}
}

func TestATokenIsReadAnew(t *testing.T) {
	f := newCluster(t, "deployments", 1)
	file := write(t, "an old token\n")
	s := f.scaler(file)
	if err := s.Scale(t.Context(), 2, nil); err == nil || !strings.Contains(err.Error(), "refuses the token in "+file) {
		t.Errorf("with an old token: %v", err)
	}
	if err := os.WriteFile(file, []byte(concealed+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Scale(t.Context(), 2, nil); err != nil {
		t.Errorf("with a new token: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.Scale(t.Context(), 3, nil); err == nil || !strings.Contains(err.Error(), "the token file: ") {
		t.Errorf("without a token: %v", err)
	}
}

func TestAnAPIServerThatIsNotThere(t *testing.T) {
	f := newCluster(t, "statefulsets", 1)
	s := f.scaler(write(t, concealed))
	f.Close()
	if err := s.Scale(t.Context(), 2, nil); err == nil || !strings.Contains(err.Error(), "statefulset web: the API server at https://127.0.0.1:") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
}

// FuzzAnswers: whatever an API server answers, Scale ends, changes no number that it could not
// read, and its error is one line.
func FuzzAnswers(f *testing.F) {
	f.Add(200, `{"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{"replicas":3},"status":{"selector":"a=b"}}`, `{"kind":"PodList","items":[{"metadata":{"name":"m"}}]}`)
	f.Add(200, `{"kind":"Scale","metadata":{"resourceVersion":"1"},"spec":{"replicas":3},"status":{"selector":"a=b"}}`,
		`{"kind":"PodList","items":[{"metadata":{"name":"m","ownerReferences":[{"kind":"ReplicaSet","name":"r"}],"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-2147483648"}}}]}`)
	f.Add(404, `{"message":"a\nb"}`, `{}`)
	f.Add(200, `{"kind":3}`, ``)
	f.Add(200, `{"kind":"Lease","metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":"a\nb"}}`, ``)
	token := write(f, concealed)
	f.Fuzz(func(t *testing.T, code int, number, pods string) {
		changed := false
		d := &deployment{&workload{kind: "deployment", name: "web", namespace: "n", server: "https://h", tokenFile: token}}
		transport := roundTrip(func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			w.WriteHeader(200 + (code&0x7fffffff)%400)
			switch {
			case r.Method == "PATCH":
				changed = changed || strings.HasSuffix(r.URL.Path, "/scale")
				w.WriteString("{}")
			case strings.HasSuffix(r.URL.Path, "/pods"):
				w.WriteString(pods)
			default:
				w.WriteString(number)
			}
			a := w.Result()
			a.Request = r
			return a
		})
		s := &server{d.workload, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		if err := d.Bind("orders"); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{s.claim(t.Context()), d.round(t.Context(), s, 1, members("m", ""))} {
			if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("an error of several lines: %q", err)
			}
		}
		var z size
		if changed && (json.Unmarshal([]byte(number), &z) != nil || z.check("Scale") != nil) {
			t.Errorf("changed after %q", number)
		}
	})
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
