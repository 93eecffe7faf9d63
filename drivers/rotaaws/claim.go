package rotaaws

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// claimTag is the tag of an Auto Scaling group that names the group of members that scales
// it: two of them would undo each other's numbers for ever.
const claimTag = "rota:group"

// Bind says which group scales the Auto Scaling group. It implements rota.Binder.
func (s *scaler) Bind(group string) error {
	if !s.bound.CompareAndSwap(nil, &group) && *s.bound.Load() != group {
		return fmt.Errorf("rotaaws: this scaler of %s is for group %s: make another one for %s", s, *s.bound.Load(), group)
	}
	return nil
}

// claim makes sure that no other group of members scales the Auto Scaling group. AWS cannot
// compare and set: of two groups that claim at once the later one keeps it, and the other
// is refused with its next call.
func (g *group) claim(ctx context.Context, client *autoscaling.Client, by *string) error {
	if by == nil {
		return nil
	}
	i := slices.IndexFunc(g.tags, func(t types.TagDescription) bool { return aws.ToString(t.Key) == claimTag })
	if i < 0 || aws.ToString(g.tags[i].Value) == "" {
		_, err := client.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: []types.Tag{{
			ResourceId: &g.name, ResourceType: aws.String("auto-scaling-group"), Key: aws.String(claimTag), Value: by, PropagateAtLaunch: aws.Bool(false)}}})
		if err != nil {
			return inWords("CreateOrUpdateTags", err)
		}
		return nil
	}
	if other := aws.ToString(g.tags[i].Value); other != *by {
		return fmt.Errorf("group %.80q scales this Auto Scaling group, as its tag %s says, and this is group %s: give each group an Auto Scaling group of its own, or delete the tag if %.80[1]q does not scale it any more", other, claimTag, *by)
	}
	return nil
}
