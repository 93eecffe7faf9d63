package rotaaws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// on is a member that runs on an instance.
func on(id string) rota.MemberInfo {
	return rota.MemberInfo{Name: "on-" + id, State: rota.MemberLive, Labels: map[string]string{InstanceLabel: id}}
}

// ids are the instances that are not about to end.
func (c *cloud) ids() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		if !strings.HasPrefix(i.state, "Terminat") {
			ids = append(ids, i.id)
		}
	}
	return ids
}

// unprotected are the instances that AWS may end by itself.
func (c *cloud) unprotected() (ids []string) {
	c.set(func() {
		for _, i := range c.instances {
			if !i.protected {
				ids = append(ids, i.id)
			}
		}
	})
	return ids
}

func (c *cloud) capacity() (n int) {
	c.set(func() { n = c.desired })
	return n
}

// set calls f with the lock.
func (c *cloud) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cloud) count(action string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.calls {
		if a == action {
			n++
		}
	}
	return n
}

func scale(t *testing.T, s rota.Scaler, want int, remove ...rota.MemberInfo) {
	t.Helper()
	if err := s.Scale(t.Context(), want, remove); err != nil {
		t.Fatal(err)
	}
}

// The group grows by its number and shrinks by the instances that are named, each of which
// gets SIGTERM; to say the same again changes nothing.
func TestScalerGrowsAndRemovesByName(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 2)
	s := c.scaler()
	for range 3 {
		scale(t, s, 4)
	}
	c.wait(func() bool { return c.inService() == 4 })
	before := c.ids()
	scale(t, s, 4)
	if open := c.unprotected(); len(open) > 0 {
		t.Errorf("%v are not protected from scale-in", open)
	}
	if n := c.count("SetDesiredCapacity"); n != 1 {
		t.Errorf("SetDesiredCapacity was called %d times for one change", n)
	}

	c.mu.Lock()
	victim := c.find(before[1])
	c.mu.Unlock()
	for range 3 { // it goes, has gone
		err := s.Scale(t.Context(), 3, []rota.MemberInfo{on(victim.id)})
		if err != nil && !strings.Contains(err.Error(), "is not in this Auto Scaling group") {
			t.Fatal(err)
		}
	}
	<-victim.gone
	if victim.code != 0 {
		t.Errorf("the victim ended with %d: it was not asked by SIGTERM", victim.code)
	}
	if c.capacity() != 3 {
		t.Errorf("the capacity is %d after one of four was removed", c.capacity())
	}
	if got, want := c.ids(), []string{before[0], before[2], before[3]}; !slices.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}

	// Both at once.
	scale(t, s, 4, on(before[0]))
	c.wait(func() bool { return c.inService() == 4 && c.find(before[0]) == nil })
	if c.capacity() != 4 {
		t.Errorf("the capacity is %d, want 4", c.capacity())
	}
}

// Somebody else has raised the capacity: the Scaler lowers it by members that are named, or
// not at all.
func TestScalerNeverLowersTheCapacityItself(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 4)
	before := c.ids()
	scale(t, c.scaler(), 1)
	scale(t, c.scaler(), 0)
	if n := c.count("SetDesiredCapacity") + c.count("TerminateInstanceInAutoScalingGroup"); n != 0 || c.capacity() != 4 || !slices.Equal(c.ids(), before) {
		t.Errorf("%d calls, the capacity is %d, and there are %v of %v", n, c.capacity(), c.ids(), before)
	}
}

// The capacity changes between our look and our call, so that the call lowers it: AWS ends
// nobody whom the Scaler has protected.
func TestALostRaceEndsNobody(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 2)
	s := c.scaler()
	scale(t, s, 2)
	before := c.ids()
	another := func() {
		c.mu.Lock()
		c.desired = 5
		c.converge()
		c.mu.Unlock()
		c.wait(func() bool { return c.inService() == 5 })
		c.mu.Lock()
		for _, i := range c.instances {
			i.protected = true // as the page asks for, by NewInstancesProtectedFromScaleIn
		}
		c.mu.Unlock()
	}
	c.set(func() { c.before["SetDesiredCapacity"] = another })
	scale(t, s, 3)
	if got := c.ids(); len(got) != 5 || !slices.Equal(got[:2], before) {
		t.Errorf("there are %v, were %v", got, before)
	}
}

// A step that fails does not keep the others back.
func TestStepsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup", "SetInstanceProtection"} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, 2)
			c.set(func() { c.answer[broken] = refusing(403, "AccessDenied", "no") })
			victim := c.ids()[0]
			err := c.scaler().Scale(t.Context(), 3, []rota.MemberInfo{on(victim)})
			if err == nil || !strings.HasPrefix(err.Error(), "aws:fleet: "+broken+": the credentials lack the right") || strings.Contains(err.Error(), "; ") {
				t.Errorf("%v", err)
			}
			for _, a := range []string{"SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup", "SetInstanceProtection"} {
				if c.count(a) != 1 {
					t.Errorf("%s was called %d times", a, c.count(a))
				}
			}
		})
	}
}

// More instances than one call may name.
func TestManyInstancesAreProtected(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 1)
	c.mu.Lock()
	for n := range 119 { // without a process: nothing is done to them
		gone := make(chan struct{})
		close(gone)
		c.instances = append(c.instances, &instance{id: fmt.Sprintf("i-%08x", 1000+n), state: "InService", gone: gone, kill: func() {}})
	}
	c.instances[7].state = "Pending" // protected when it is in service
	c.desired, c.high = 120, 200
	c.mu.Unlock()
	scale(t, c.scaler(), 120)
	if open := c.unprotected(); len(open) != 1 || c.count("SetInstanceProtection") != 3 {
		t.Errorf("%v are not protected, after %d calls", open, c.count("SetInstanceProtection"))
	}
}

// Each problem is one clear error.
func TestEveryRefusalIsOneClearError(t *testing.T) {
	t.Parallel()
	const leak = "The Canonical String for this request should have been 'POST / x-amz-security-token:" + sessionToken + "'"
	answer := func(action string, h http.HandlerFunc) func(*cloud) {
		return func(c *cloud) { c.answer[action] = h }
	}
	look := func(h http.HandlerFunc) func(*cloud) { return answer("DescribeAutoScalingGroups", h) }
	for _, r := range []struct {
		name   string
		set    func(*cloud)
		want   int
		remove []rota.MemberInfo
		says   string
		after  time.Duration
	}{
		{"throttled", look(refusing(400, "Throttling", "Rate exceeded")), 2, nil, "DescribeAutoScalingGroups: AWS throttles this account: fewer calls, or a higher quota (Throttling: Rate exceeded)", 0},
		{"throttled, with a pause", look(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "17")
			refuse(w, 503, "RequestLimitExceeded", "slow down")
		}), 2, nil, "AWS throttles this account", 17 * time.Second},
		{"a pause of years", look(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999999")
			refuse(w, 503, "ServiceUnavailable", "")
		}), 2, nil, "AWS has a failure of its own: it is tried again (ServiceUnavailable)", mostAfter},
		{"a pause until", answer("SetDesiredCapacity", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
			refuse(w, 429, "TooManyRequestsException", "")
		}), 3, nil, "SetDesiredCapacity: AWS throttles this account", mostAfter},
		{"denied", answer("SetDesiredCapacity", refusing(403, "AccessDenied", "User: arn:aws:sts::1:r is not authorized to perform: autoscaling:SetDesiredCapacity")), 3, nil,
			"SetDesiredCapacity: the credentials lack the right to do it: docs/scalers/aws.md has the policy (AccessDenied: User: arn:aws:sts::1:r is not authorized to perform: autoscaling:SetDesiredCapacity)", 0},
		{"no such group", func(c *cloud) { c.group = "elsewhere" }, 2, nil, `there is no Auto Scaling group "fleet" in the region eu-test-1: look for a typing error, and at the region and the account`, 0},
		{"in progress", answer("SetDesiredCapacity", refusing(400, "ScalingActivityInProgress", "busy")), 3, nil, "another scaling activity of the group is in progress: it is tried again (ScalingActivityInProgress: busy)", 0},
		{"contention", answer("SetInstanceProtection", refusing(500, "ResourceContention", "")), 2, nil, "SetInstanceProtection: another update of the group is in progress", 0},
		{"expired", look(refusing(403, "ExpiredToken", "The security token included in the request is expired")), 2, nil, "the credentials have expired: they are looked for again with the next call (ExpiredToken)", 0},
		{"unknown key", look(refusing(403, "InvalidClientTokenId", "The security token included in the request is invalid")), 2, nil, "AWS does not know these credentials", 0},
		{"signature", look(refusing(403, "SignatureDoesNotMatch", leak)), 2, nil, "the secret key is wrong, or the clock of this machine is (SignatureDoesNotMatch)", 0},
		{"signature, in other words", look(refusing(403, "IncompleteSignature", "'"+sessionToken+"' is not a valid pair")), 2, nil, "the secret key is wrong, or the clock of this machine is (IncompleteSignature)", 0},
		{"a code that nobody knows", look(refusing(400, "SomethingNew", "what it says")), 2, nil, "AWS refuses it (SomethingNew: what it says)", 0},
		{"a code that nobody knows, with a secret", look(refusing(400, "SomethingNew", leak)), 2, nil, "AWS refuses it (SomethingNew)", 0},
		{"invalid", answer("TerminateInstanceInAutoScalingGroup", refusing(400, "ValidationError", "no")), 1, []rota.MemberInfo{on("i-00000001")}, "TerminateInstanceInAutoScalingGroup: AWS refuses it (ValidationError: no)", 0},
		{"no XML", look(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"json":true}`) }), 2, nil, "DescribeAutoScalingGroups: the answer has no list of groups: is something else at the address of AWS?", 0},
		{"half an answer", look(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups><member>")
		}), 2, nil, "the answer cannot be read (HTTP 200)", 0},
		{"no number", look(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>fleet</AutoScalingGroupName><DesiredCapacity>many</DesiredCapacity></member></AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>")
		}), 2, nil, "the answer cannot be read (HTTP 200)", 0},
		{"nothing", look(func(w http.ResponseWriter, _ *http.Request) {}), 2, nil, "the answer has no list of groups", 0},
		{"no size", look(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>fleet</AutoScalingGroupName></member></AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>")
		}), 2, nil, "the answer does not tell the size of the group", 0},
		{"a gateway", look(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			fmt.Fprint(w, "<html>bad gateway")
		}), 2, nil, "the answer cannot be read (HTTP 502)", 0},
		{"a cut", look(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), 2, nil, "DescribeAutoScalingGroups: AWS cannot be reached: ", 0},
		{"too many", func(c *cloud) { c.high = 3 }, 5, nil, "5 members are wanted, and the Auto Scaling group has a MaxSize of 3: raise it", 0},
		{"too few", func(c *cloud) { c.low = 2 }, 1, []rota.MemberInfo{on("i-00000001")}, "1 members are to be removed, and the Auto Scaling group is at its MinSize of 2: lower it", 0},
		{"no label", func(*cloud) {}, 1, []rota.MemberInfo{{Name: "m7"}}, "member m7 is to be removed and has no label instance: run it with --label-from ec2", 0},
		{"a foreign instance", func(*cloud) {}, 1, []rota.MemberInfo{on("i-99999999")}, "its instance i-99999999 is not in this Auto Scaling group: end it yourself", 0},
		{"two on one instance", func(*cloud) {}, 1, []rota.MemberInfo{on("i-00000001"), on("i-00000001")}, "shares the instance i-00000001 with another member: run one member per instance", 0},
		{"weights", func(c *cloud) { c.instances[0].weight = "4" }, 2, nil, "instance i-00000001 counts as 4 in the capacity of the Auto Scaling group: one instance is one member here", 0},
		{"another group", func(c *cloud) { c.claimed = "billing" }, 2, nil,
			`group "billing" scales this Auto Scaling group, as its tag rota:group says, and this is group orders: give each group an Auto Scaling group of its own, or delete the tag if "billing" does not scale it any more`, 0},
		{"no right to claim", answer("CreateOrUpdateTags", refusing(403, "AccessDenied", "no")), 2, nil, "CreateOrUpdateTags: the credentials lack the right to do it: docs/scalers/aws.md has the policy", 0},
		{"memory", func(c *cloud) { c.kind = "memory-mib" }, 2, nil, "counts memory-mib, not instances", 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, 2)
			s := c.scaler()
			c.set(func() { r.set(c) })
			err := s.Scale(t.Context(), r.want, r.remove)
			if err == nil || !strings.HasPrefix(err.Error(), "aws:fleet: ") || !strings.Contains(err.Error(), r.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v\nwant %q", err, r.says)
			}
			if n := c.count("DescribeAutoScalingGroups"); n != 1 {
				t.Errorf("AWS was asked %d times by one call", n)
			}
			var asks interface{ RetryAfter() time.Duration }
			var after time.Duration
			if errors.As(err, &asks) {
				after = asks.RetryAfter()
			}
			if after != r.after || errors.As(err, &asks) != (r.after > 0) {
				t.Errorf("call again after %v, want %v", after, r.after)
			}
			for _, text := range []string{fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s)} {
				if strings.Contains(text, secretKey) || strings.Contains(text, sessionToken) {
					t.Errorf("a secret: %s", text)
				}
			}
		})
	}
}

// Two problems at once are one line, and the longest pause counts.
func TestTwoRefusalsAreOneLine(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 2)
	pause := func(seconds string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", seconds)
			refuse(w, 400, "Throttling", "Rate exceeded")
		}
	}
	c.set(func() { c.answer["SetDesiredCapacity"], c.answer["SetInstanceProtection"] = pause("5"), pause("9") })
	err := c.scaler().Scale(t.Context(), 3, nil)
	var asks interface{ RetryAfter() time.Duration }
	if !errors.As(err, &asks) || asks.RetryAfter() != 9*time.Second || strings.Count(err.Error(), "; ") != 1 || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// The first group that scales an Auto Scaling group claims it. Another one changes nothing,
// until the tag is taken away.
func TestTwoGroupsDoNotScaleOneFleet(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 1)
	orders, billing := c.scaler(), c.scalerOf("billing")
	if err := billing.(rota.Binder).Bind("orders"); err == nil || !strings.Contains(err.Error(), "is for group billing: make another one for orders") {
		t.Errorf("bound to another group: %v", err)
	}
	refused := func(s rota.Scaler, by string) {
		t.Helper()
		if err := s.Scale(t.Context(), 4, []rota.MemberInfo{on("i-00000001")}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("group %q scales", by)) {
			t.Errorf("%v, want the group %s named", err, by)
		}
	}
	scale(t, orders, 2)
	scale(t, orders, 2)
	refused(billing, "orders")
	if c.capacity() != 2 || c.count("TerminateInstanceInAutoScalingGroup") != 0 || c.count("CreateOrUpdateTags") != 1 {
		t.Errorf("the capacity is %d, after %v", c.capacity(), c.calls)
	}
	c.set(func() { c.claimed = "" })
	scale(t, billing, 3)
	refused(orders, "billing")
	if c.capacity() != 3 {
		t.Errorf("the capacity is %d, want 3", c.capacity())
	}
}

// The capacity goes as far as it may.
func TestScalerGoesToTheLimit(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 2)
	c.set(func() { c.high = 3 })
	if err := c.scaler().Scale(t.Context(), 5, nil); err == nil || c.capacity() != 3 {
		t.Errorf("%v, the capacity is %d, want 3", err, c.capacity())
	}
	// At the limit, one that goes makes room for one that comes: with the next call.
	c.wait(func() bool { return c.inService() == 3 })
	scale(t, c.scaler(), 3, on("i-00000001"))
	scale(t, c.scaler(), 3)
	c.wait(func() bool { return c.find("i-00000001") == nil && c.inService() == 3 })
}

// A server that does not answer costs the time that the caller has.
func TestAFrozenServerEndsWithTheContext(t *testing.T) {
	t.Parallel()
	c := newCloud(t, 1)
	free := make(chan struct{})
	defer close(free)
	c.set(func() { c.answer["DescribeAutoScalingGroups"] = func(http.ResponseWriter, *http.Request) { <-free } })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.scaler().Scale(ctx, 2, nil); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "aws:fleet: DescribeAutoScalingGroups: no answer: context deadline exceeded" {
		t.Errorf("%v", err)
	}
}

func TestNothingListens(t *testing.T) {
	t.Parallel()
	s := Scaler("aws:fleet?region=eu-test-1&endpoint=http://127.0.0.1:1", Using(signed()))
	if err := s.Scale(t.Context(), 2, nil); err == nil || !strings.Contains(err.Error(), "aws:fleet: DescribeAutoScalingGroups: AWS cannot be reached: ") {
		t.Errorf("%v", err)
	}
}

// Without credentials or a region nothing is asked. The SDK looks for both.
func TestCredentialsAndRegionAreLookedFor(t *testing.T) {
	c := newCloud(t, 1)
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(key string) {
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", key, secretKey)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	s := Scaler("aws:fleet?endpoint=" + c.url)
	refused := func(says string) {
		t.Helper()
		if err := s.Scale(t.Context(), 1, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	refused("aws:fleet: no AWS region: set AWS_REGION, or write ?region=REGION")
	t.Setenv("AWS_REGION", "eu-test-1")
	refused("aws:fleet: no AWS credentials: give the instance a role")
	if n := c.count("DescribeAutoScalingGroups"); n != 0 {
		t.Errorf("AWS was asked %d times", n)
	}
	write("OLD")
	scale(t, s, 1)
	c.set(func() { c.keys = map[string]bool{"NEW": true} })
	refused("the credentials have expired")
	write("NEW")
	scale(t, s, 1) // the file is read again
}
