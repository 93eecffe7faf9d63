package test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A cloud is Auto Scaling as far as rota's scaler asks for it: one group, each instance of
// which is a member by rota run. It ends no instance by itself.
type cloud struct {
	r   *ramp
	url string

	mu        sync.Mutex
	thaw      chan struct{} // nil, or open as long as nothing is answered
	calls     int           // since it was frozen
	desired   int
	tag       string
	launched  int
	instances []*cloudInstance
	over      sync.WaitGroup
}

type cloudInstance struct {
	*process
	id        string
	ending    bool
	protected bool
}

func newCloud(r *ramp) *cloud {
	c := &cloud{r: r}
	s := httptest.NewServer(c)
	c.url = s.URL
	r.Cleanup(func() {
		c.melt()
		s.Close()
		c.mu.Lock()
		for _, i := range c.instances {
			c.end(i)
		}
		c.mu.Unlock()
		c.over.Wait()
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.desired = 1
	c.converge()
	return c
}

// freeze lets no request be answered until melt.
func (c *cloud) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.thaw, c.calls = make(chan struct{}), 0
}

// melt returns how many requests have waited.
func (c *cloud) melt() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.thaw != nil {
		close(c.thaw)
		c.thaw = nil
	}
	return c.calls
}

// converge starts as many instances as are missing. The lock is held.
func (c *cloud) converge() {
	have := 0
	for _, i := range c.instances {
		if !i.ending {
			have++
		}
	}
	for ; have < c.desired; have++ {
		c.launched++
		id := fmt.Sprintf("i-%08x", c.launched)
		i := &cloudInstance{id: id, process: c.r.run(id, "aws:fleet?region=eu-test-1&endpoint="+url.QueryEscape(c.url), "--label", "instance="+id)}
		c.instances = append(c.instances, i)
		c.over.Go(func() {
			<-i.gone
			c.mu.Lock()
			defer c.mu.Unlock()
			c.instances = slices.DeleteFunc(c.instances, func(x *cloudInstance) bool { return x == i })
		})
	}
}

// end asks an instance to end. The lock is held.
func (c *cloud) end(i *cloudInstance) {
	if !i.ending {
		i.ending = true
		go i.process.end()
	}
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := c.thaw; wait != nil {
		c.calls++
		c.mu.Unlock()
		<-wait
		c.mu.Lock()
		return
	}
	action, q := r.PostForm.Get("Action"), r.PostForm
	body, problem := "", ""
	switch action {
	case "DescribeAutoScalingGroups":
		body = c.describe()
	case "SetDesiredCapacity":
		c.desired, _ = strconv.Atoi(q.Get("DesiredCapacity"))
		c.converge()
	case "TerminateInstanceInAutoScalingGroup":
		i := slices.IndexFunc(c.instances, func(i *cloudInstance) bool { return i.id == q.Get("InstanceId") && !i.ending })
		if i < 0 || q.Get("ShouldDecrementDesiredCapacity") != "true" {
			problem = "no such instance: " + q.Get("InstanceId")
			break
		}
		c.desired--
		c.end(c.instances[i])
	case "SetInstanceProtection":
		for _, i := range c.instances {
			i.protected = true
		}
	case "CreateOrUpdateTags":
		c.tag = q.Get("Tags.member.1.Value")
	default:
		problem = "unknown action " + action
	}
	if problem != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>%s</Message></Error></ErrorResponse>`, problem)
		return
	}
	fmt.Fprintf(w, `<%[1]sResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><%[1]sResult>%s</%[1]sResult></%[1]sResponse>`, action, body)
}

func (c *cloud) describe() string {
	var list strings.Builder
	for _, i := range c.instances {
		state := "InService"
		switch {
		case i.ending:
			state = "Terminating"
		case !ended(i.joined):
			state = "Pending"
		}
		fmt.Fprintf(&list, "<member><InstanceId>%s</InstanceId><LifecycleState>%s</LifecycleState><ProtectedFromScaleIn>%t</ProtectedFromScaleIn></member>", i.id, state, i.protected)
	}
	tags := ""
	if c.tag != "" {
		tags = "<member><Key>rota:group</Key><Value>" + c.tag + "</Value></member>"
	}
	return fmt.Sprintf("<AutoScalingGroups><member><AutoScalingGroupName>fleet</AutoScalingGroupName><MinSize>1</MinSize><MaxSize>8</MaxSize><DesiredCapacity>%d</DesiredCapacity><Tags>%s</Tags><Instances>%s</Instances></member></AutoScalingGroups>",
		c.desired, tags, list.String())
}

// TestRampOfAutoScaling is TestRamp with instances of an Auto Scaling group that is played,
// each of which is a process.
func TestRampOfAutoScaling(t *testing.T) {
	longTest(t)
	r := newRamp(t, "aws", "orders", "orders")
	r.serve()
	c := newCloud(r)
	r.until("a first member", time.Minute, func() bool { _, have, _ := r.members(); return have > 0 })
	r.climb(2 * time.Minute)
	r.judgeAll(now(), r.eventFiles()...)
	if c.tag != "orders" {
		t.Errorf("the Auto Scaling group is claimed by %q", c.tag)
	}
}

// TestAFrozenScaler: nothing is answered by the platform for a minute, at half of what the
// members can do, and messages are handled as before in every window of ten seconds.
func TestAFrozenScaler(t *testing.T) {
	longTest(t)
	r := newRamp(t, "frozen", "orders", "orders")
	r.serve()
	c := newCloud(r)
	r.until("a first member", time.Minute, func() bool { _, have, _ := r.members(); return have > 0 })
	half := func(time.Duration) float64 { return 3 * rampCapacity / 2 / rampWorth } // three members: two and a spare one
	r.worths(half)
	r.until("two members and a spare one", 4*time.Minute, func() bool { return r.settled(3) })
	r.until("end of the backlog", time.Minute, func() bool { return len(r.all) > 0 && r.all[len(r.all)-1].backlog() < r.load.rate(0)/2 })
	r.all = nil
	calm := time.Now()
	r.until("end of the calm", time.Minute, func() bool { return time.Since(calm) > 30*time.Second })
	t.Logf("before: at least %.3f of what arrived was handled in every 10 s, which is what the machine allows", r.leastHandled(10))
	r.all = nil
	c.freeze()
	frozen := time.Now()
	r.until("end of the frost", 2*time.Minute, func() bool { return time.Since(frozen) > time.Minute })
	waited := c.melt()
	r.judgeWindows(10)
	if waited == 0 {
		t.Error("the scaler was not asked while the platform was frozen")
	}
	r.finish()
	r.keep()
	r.judgeLines(now(), r.eventFiles()...)
}

// judgeWindows asks that in every so many seconds 0.98 of what arrived was handled.
func (r *ramp) judgeWindows(seconds float64) {
	r.Helper()
	least := r.leastHandled(seconds)
	r.Logf("%s: at least %.3f of what arrived was handled in every %.0f s", r.Scaler, least, seconds)
	if !(least >= 0.98) {
		r.Errorf("%.3f of what arrived was handled in some %.0f s, want 0.98", least, seconds)
	}
}

// leastHandled is the share of what arrived that was handled, in the worst so many seconds.
func (r *ramp) leastHandled(seconds float64) float64 {
	least, j := math.Inf(1), 0
	for i := range r.all {
		for ; j < len(r.all) && r.all[j].At < r.all[i].At+seconds; j++ {
		}
		if j == len(r.all) {
			break
		}
		arrived, handled := r.all[j].Sent-r.all[i].Sent, r.all[j].Handled-r.all[i].Handled
		least = min(least, float64(handled)/float64(arrived))
	}
	if math.IsInf(least, 1) {
		return math.NaN() // there was no such time
	}
	return least
}
