package rotaaws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/address"
)

// Scaler changes the number of instances of an Auto Scaling group, at an address like
//
//	aws:GROUP
//	aws:GROUP?region=eu-central-1
//	aws:GROUP?region=eu-central-1&endpoint=https://HOST    not at AWS itself
//
// Each instance runs one member, which has the id of its instance as the label
// InstanceLabel. It connects when it is first used. What is wrong with the URL is an
// error of every call.
func Scaler(url string, opts ...Option) rota.Scaler {
	s := &scaler{}
	s.settings, s.wrong = parse(url)
	s.apply(opts)
	return s
}

// Check returns an error if a URL is wrong. It does not connect.
func Check(url string) error {
	_, err := parse(url)
	return address.Named("rotaaws", err)
}

type scaler struct {
	access
	wrong error // with the URL
	bound atomic.Pointer[string]
}

// Check makes a wrong URL an error of rota.New.
func (s *scaler) Check() error { return address.Named("rotaaws", s.wrong) }

// Scale raises the desired capacity to want, ends the instances of the members in remove,
// and protects all others from scale-in.
//
// Every instance is protected, and not those of owners alone. Scale is not told who owns
// what, a member that owns nothing now may be granted a partition before the call is made,
// and one that owns nothing may be the spare. Protection also makes a race harmless: if
// somebody else lowers the capacity between our look and our call, AWS ends nobody.
// Victims stay protected, since TerminateInstanceInAutoScalingGroup ends protected
// instances too.
func (s *scaler) Scale(ctx context.Context, want int, remove []rota.MemberInfo) error {
	if s.wrong != nil {
		return s.Check()
	}
	err := s.scale(ctx, want, remove)
	if r, ok := errors.AsType[refused](err); ok && r.expired {
		s.forget()
	}
	return address.Named(s.String(), err)
}

func (s *scaler) scale(ctx context.Context, want int, remove []rota.MemberInfo) error {
	c, err := s.config(ctx)
	if err != nil {
		return err
	}
	client := autoscaling.NewFromConfig(c, func(o *autoscaling.Options) {
		if s.endpoint != "" {
			o.BaseEndpoint = &s.endpoint
		}
	})
	g, err := look(ctx, client, s.group)
	if err != nil {
		return err
	}
	if err := g.claim(ctx, client, s.bound.Load()); err != nil {
		return err
	}
	victims, errs := g.victims(remove)
	// What helps the load comes first. A step that fails does not keep the others back.
	errs = append(errs, g.raise(ctx, client, want, len(victims)))
	errs = append(errs, g.end(ctx, client, victims)...)
	errs = append(errs, g.protect(ctx, client, victims))
	return together(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
}

// A group is an Auto Scaling group as AWS last described it.
type group struct {
	name               string
	desired, low, high int
	instances          []types.Instance
	tags               []types.TagDescription
}

// look asks AWS for the group.
func look(ctx context.Context, client *autoscaling.Client, name string) (*group, error) {
	const call = "DescribeAutoScalingGroups"
	out, err := client.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil {
		return nil, inWords(call, err)
	}
	i := slices.IndexFunc(out.AutoScalingGroups, func(g types.AutoScalingGroup) bool { return aws.ToString(g.AutoScalingGroupName) == name })
	switch {
	case out.AutoScalingGroups == nil: // a list without groups is not nil
		return nil, fmt.Errorf("%s: the answer has no list of groups: is something else at the address of AWS?", call)
	case i < 0:
		return nil, fmt.Errorf("there is no Auto Scaling group %.300q in the region %s: look for a typing error, and at the region and the account of the credentials", name, client.Options().Region)
	}
	d := &out.AutoScalingGroups[i]
	if d.DesiredCapacity == nil || d.MinSize == nil || d.MaxSize == nil {
		return nil, fmt.Errorf("%s: the answer does not tell the size of the group: is something else at the address of AWS?", call)
	}
	g := &group{name, int(*d.DesiredCapacity), int(*d.MinSize), int(*d.MaxSize), d.Instances, d.Tags}
	return g, weighted(d)
}

// weighted refuses a group whose capacity does not count instances: a member fewer would
// be several units.
func weighted(d *types.AutoScalingGroup) error {
	if kind := aws.ToString(d.DesiredCapacityType); kind != "" && kind != "units" {
		return fmt.Errorf("the capacity of the Auto Scaling group counts %.40s, not instances: set its DesiredCapacityType to units", kind)
	}
	for _, i := range d.Instances {
		if w := aws.ToString(i.WeightedCapacity); w != "" && w != "1" {
			return fmt.Errorf("instance %s counts as %.40s in the capacity of the Auto Scaling group: one instance is one member here; remove the weights", aws.ToString(i.InstanceId), w)
		}
	}
	return nil
}

// victims are the instances to end, and what is wrong with members that have none.
// Instances that are going already are left out: their number was lowered before.
func (g *group) victims(remove []rota.MemberInfo) (ids []string, errs []error) {
	for i := range remove {
		m := &remove[i]
		id := m.Labels[InstanceLabel]
		at := slices.IndexFunc(g.instances, func(x types.Instance) bool { return aws.ToString(x.InstanceId) == id })
		switch {
		case id == "":
			errs = append(errs, fmt.Errorf("member %s is to be removed and has no label %s: run it with --label-from ec2", m.Name, InstanceLabel))
		case at < 0:
			errs = append(errs, fmt.Errorf("member %s is to be removed, and its instance %.40s is not in this Auto Scaling group: end it yourself", m.Name, id))
		case slices.Contains(ids, id):
			errs = append(errs, fmt.Errorf("member %s is to be removed, and shares the instance %.40s with another member: run one member per instance", m.Name, id))
		case !going(g.instances[at].LifecycleState):
			ids = append(ids, id)
		}
	}
	return ids, errs
}

// going tells whether an instance does not count in the desired capacity any more.
func going(s types.LifecycleState) bool {
	return strings.HasPrefix(string(s), "Terminat") || strings.HasPrefix(string(s), "Detach")
}

// raise raises the desired capacity, and never lowers it: AWS would choose whom to end.
// more is how many instances count although they are about to end.
func (g *group) raise(ctx context.Context, client *autoscaling.Client, want, more int) error {
	var limit error
	if want > g.high {
		limit = fmt.Errorf("%d members are wanted, and the Auto Scaling group has a MaxSize of %d: raise it, or lower the limit of the Scaler", want, g.high)
	}
	to := min(want+more, g.high)
	if to <= g.desired {
		return limit
	}
	_, err := client.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &g.name, DesiredCapacity: aws.Int32(int32(to)), HonorCooldown: aws.Bool(false)})
	if err != nil {
		return inWords("SetDesiredCapacity", err)
	}
	g.desired = to
	return limit
}

// end ends instances one by one, each with the capacity that it was. After an error the
// others wait for the next call: what one is refused for, all are.
func (g *group) end(ctx context.Context, client *autoscaling.Client, ids []string) (errs []error) {
	for i, id := range ids {
		if g.desired <= g.low {
			return []error{fmt.Errorf("%d members are to be removed, and the Auto Scaling group is at its MinSize of %d: lower it, or raise the least of the Scaler", len(ids)-i, g.low)}
		}
		_, err := client.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: &id, ShouldDecrementDesiredCapacity: aws.Bool(true)})
		if err != nil {
			return []error{inWords("TerminateInstanceInAutoScalingGroup", err)}
		}
		g.desired--
	}
	return nil
}

// protect protects the instances from scale-in that are not. AWS accepts it for instances
// in service only, and the victims may be out of service by now.
func (g *group) protect(ctx context.Context, client *autoscaling.Client, victims []string) error {
	var open []string
	for _, i := range g.instances {
		id := aws.ToString(i.InstanceId)
		if id != "" && i.LifecycleState == types.LifecycleStateInService && !aws.ToBool(i.ProtectedFromScaleIn) && !slices.Contains(victims, id) {
			open = append(open, id)
		}
	}
	for ids := range slices.Chunk(open, mostProtected) {
		_, err := client.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{
			AutoScalingGroupName: &g.name, InstanceIds: ids, ProtectedFromScaleIn: aws.Bool(true)})
		if err != nil {
			return inWords("SetInstanceProtection", err)
		}
	}
	return nil
}

// mostProtected is how many instances one call may name.
const mostProtected = 50
