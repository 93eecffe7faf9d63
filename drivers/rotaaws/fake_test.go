package rotaaws

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/rota-dev/rota"
)

// A cloud is Auto Scaling as far as the Scaler knows it: one group, whose instances are
// real processes. It behaves as the documentation of AWS says: when the capacity is
// lowered, it chooses itself whom to end, among those that are not protected.
type cloud struct {
	t   *testing.T
	url string

	mu        sync.Mutex
	changed   *sync.Cond
	group     string
	desired   int
	low, high int
	kind      string // of the capacity
	claimed   string // the value of the tag; "" if there is none
	protects  bool   // new instances
	instances []*instance
	launched  int
	launch    func(t *testing.T, id string, changed func(i *instance, state string)) *instance
	calls     []string                    // actions, in order
	answer    map[string]http.HandlerFunc // in place of the cloud's own
	before    map[string]func()           // called before an action, without the lock
	keys      map[string]bool             // access keys that are accepted; all, if nil
	asked     []url.Values                // the parameters of the calls
}

// newCloud returns a cloud whose instances are real processes, behind a real server.
func newCloud(t *testing.T, size int) *cloud {
	c := emptyCloud(t)
	s := httptest.NewServer(c)
	c.url = s.URL
	t.Cleanup(func() {
		s.Close()
		c.mu.Lock()
		all := slices.Clone(c.instances)
		c.mu.Unlock()
		for _, i := range all {
			i.kill()
			<-i.gone
		}
	})
	c.mu.Lock()
	c.desired = size
	c.converge()
	c.mu.Unlock()
	c.wait(func() bool { return c.inService() == size })
	return c
}

func emptyCloud(t *testing.T) *cloud {
	c := &cloud{t: t, group: "fleet", low: 0, high: 8, launch: launch, answer: map[string]http.HandlerFunc{}, before: map[string]func(){}}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// A direct transport has no network in it, so that it works in a bubble of virtual time.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.ServeHTTP(w, r)
	}()
	select {
	case <-done:
		return w.Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// scaler is a Scaler of the cloud's group, for the group orders.
func (c *cloud) scaler() rota.Scaler { return c.scalerOf("orders") }

func (c *cloud) scalerOf(group string) rota.Scaler {
	s := Scaler("aws:"+c.group+"?region=eu-test-1&endpoint="+url.QueryEscape(c.url), Using(signed()))
	if err := s.(rota.Binder).Bind(group); err != nil {
		c.t.Fatal(err)
	}
	return s
}

const (
	keyID        = "AKIDTEST"
	secretKey    = "secret-of-the-key"
	sessionToken = "token-of-the-session"
)

// signed is a configuration with credentials.
func signed() aws.Config {
	return aws.Config{Credentials: credentials.NewStaticCredentialsProvider(keyID, secretKey, sessionToken)}
}

// wait waits until a condition of the cloud holds.
func (c *cloud) wait(ok func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, c.changed.Broadcast)()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok() {
		if ctx.Err() != nil {
			c.t.Fatalf("it does not come to that: a capacity of %d, %d instances in service", c.desired, c.inService())
		}
		c.changed.Wait()
	}
}

// inService counts instances in that state. The lock is held.
func (c *cloud) inService() (n int) {
	for _, i := range c.instances {
		if i.state == "InService" {
			n++
		}
	}
	return n
}

// find returns the instance with this id, or nil. The lock is held.
func (c *cloud) find(id string) *instance {
	at := slices.IndexFunc(c.instances, func(i *instance) bool { return i.id == id })
	if at < 0 {
		return nil
	}
	return c.instances[at]
}

// converge launches or ends instances until their number is the desired one. The lock is
// held.
func (c *cloud) converge() {
	have := 0
	for _, i := range c.instances {
		if !strings.HasPrefix(i.state, "Terminat") {
			have++
		}
	}
	for ; have < c.desired; have++ {
		c.launched++
		i := c.launch(c.t, fmt.Sprintf("i-%08x", c.launched), c.become)
		c.instances = append(c.instances, i)
	}
	for _, i := range c.instances {
		if have > c.desired && i.state == "InService" && !i.protected {
			c.terminate(i)
			have--
		}
	}
	c.changed.Broadcast()
}

func (c *cloud) terminate(i *instance) {
	i.state = "Terminating"
	i.ask()
}

// become notes what has become of an instance's process.
func (c *cloud) become(i *instance, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	if state == "InService" {
		if i.state == "Pending" {
			i.state, i.protected = state, c.protects
		}
		return
	}
	i.state = state
	c.instances = slices.DeleteFunc(c.instances, func(x *instance) bool { return x == i })
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	action := r.PostForm.Get("Action")
	c.mu.Lock()
	c.calls, c.asked = append(c.calls, action), append(c.asked, r.PostForm)
	answer, before := c.answer[action], c.before[action]
	c.mu.Unlock()
	if before != nil {
		before()
	}
	if answer != nil {
		answer(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.accepts(r.Header.Get("Authorization")) {
		refuse(w, 403, "ExpiredToken", "The security token included in the request is expired")
		return
	}
	body, problem := c.act(action, r.PostForm)
	if problem != "" {
		refuse(w, 400, "ValidationError", problem)
		return
	}
	fmt.Fprintf(w, `<%[1]sResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><%[1]sResult>%s</%[1]sResult></%[1]sResponse>`, action, body)
}

// accepts tells whether a request is signed by a key that is valid.
func (c *cloud) accepts(authorization string) bool {
	_, rest, ok := strings.Cut(authorization, "AWS4-HMAC-SHA256 Credential=")
	key, _, _ := strings.Cut(rest, "/")
	return ok && (c.keys == nil || c.keys[key])
}

func (c *cloud) act(action string, q url.Values) (body, problem string) {
	switch action {
	case "DescribeAutoScalingGroups":
		return c.describe(q.Get("AutoScalingGroupNames.member.1")), ""
	case "SetDesiredCapacity":
		n, err := strconv.Atoi(q.Get("DesiredCapacity"))
		if err != nil || n < c.low || n > c.high || q.Get("AutoScalingGroupName") != c.group {
			return "", fmt.Sprintf("New SetDesiredCapacity value %s is out of range", q.Get("DesiredCapacity"))
		}
		c.desired = n
		c.converge()
	case "TerminateInstanceInAutoScalingGroup":
		i := c.find(q.Get("InstanceId"))
		if i == nil || strings.HasPrefix(i.state, "Terminat") {
			return "", "Instance Id not found - No managed instance found for instance ID " + q.Get("InstanceId")
		}
		if q.Get("ShouldDecrementDesiredCapacity") == "true" {
			if c.desired <= c.low {
				return "", "Currently, desiredSize equals minSize. Terminating instance without replacement will violate group's min size constraint."
			}
			c.desired--
		}
		c.terminate(i)
		c.converge()
	case "SetInstanceProtection":
		return "", c.protect(q)
	case "CreateOrUpdateTags":
		const tag = "Tags.member.1."
		if q.Get(tag+"ResourceId") != c.group || q.Get(tag+"ResourceType") != "auto-scaling-group" || q.Get(tag+"Key") != "rota:group" || q.Get(tag+"PropagateAtLaunch") != "false" || q.Has("Tags.member.2.Key") {
			return "", fmt.Sprintf("tags %v", q)
		}
		c.claimed = q.Get(tag + "Value")
	default:
		return "", "unknown action"
	}
	return "", ""
}

func (c *cloud) protect(q url.Values) (problem string) {
	var ids []string
	for n := 1; q.Has(fmt.Sprintf("InstanceIds.member.%d", n)); n++ {
		ids = append(ids, q.Get(fmt.Sprintf("InstanceIds.member.%d", n)))
	}
	if len(ids) == 0 || len(ids) > 50 || q.Get("AutoScalingGroupName") != c.group {
		return fmt.Sprintf("%d instances", len(ids))
	}
	for _, id := range ids {
		if i := c.find(id); i == nil || i.state != "InService" {
			return "The instance " + id + " is not in InService"
		}
	}
	for _, id := range ids {
		c.find(id).protected = q.Get("ProtectedFromScaleIn") == "true"
	}
	c.converge()
	return ""
}

func (c *cloud) describe(name string) string {
	if name != c.group {
		return "<AutoScalingGroups/>"
	}
	var list strings.Builder
	for _, i := range c.instances {
		fmt.Fprintf(&list, "<member><InstanceId>%s</InstanceId><LifecycleState>%s</LifecycleState><ProtectedFromScaleIn>%t</ProtectedFromScaleIn>", i.id, i.state, i.protected)
		if i.weight != "" {
			fmt.Fprintf(&list, "<WeightedCapacity>%s</WeightedCapacity>", i.weight)
		}
		list.WriteString("</member>")
	}
	kind := ""
	if c.kind != "" {
		kind = "<DesiredCapacityType>" + c.kind + "</DesiredCapacityType>"
	}
	tags := "<member><Key>stage</Key><Value>test</Value></member>"
	if c.claimed != "" {
		tags += "<member><Key>rota:group</Key><Value>" + c.claimed + "</Value></member>"
	}
	var escaped strings.Builder
	xml.EscapeText(&escaped, []byte(name))
	return fmt.Sprintf("<AutoScalingGroups><member><AutoScalingGroupName>%s</AutoScalingGroupName><MinSize>%d</MinSize><MaxSize>%d</MaxSize><DesiredCapacity>%d</DesiredCapacity>%s<Tags>%s</Tags><Instances>%s</Instances></member></AutoScalingGroups>",
		escaped.String(), c.low, c.high, c.desired, kind, tags, list.String())
}

// refuse answers as AWS does when it does not do what it was asked to.
func refuse(w http.ResponseWriter, status int, code, words string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<ErrorResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>r</RequestId></ErrorResponse>`, code, words)
}

// refusing is such an answer.
func refusing(status int, code, words string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { refuse(w, status, code, words) }
}
