package scale

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-dev/rota"
)

// A statefulSet removes its highest ordinals, whatever anybody else would choose.
type statefulSet struct{ *workload }

// RemovedBefore tells whether a's ordinal is the higher one. Members that are no pods of
// the StatefulSet come last. It implements rota.RemovalOrder.
func (s *statefulSet) RemovedBefore(a, b rota.MemberInfo) bool {
	i, ok := s.ordinal(a)
	j, other := s.ordinal(b)
	return ok && (!other || i > j)
}

// ordinal reads the number at the end of a pod's name.
func (s *statefulSet) ordinal(m rota.MemberInfo) (int, bool) {
	digits, ok := strings.CutPrefix(podOf(m), s.name+"-")
	n, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || strconv.FormatUint(n, 10) != digits {
		return 0, false
	}
	return int(n), true
}

// Scale raises the number at once. It lowers the number by as many of the highest ordinals
// as are named, and refuses if the highest one is not.
func (s *statefulSet) Scale(ctx context.Context, want int, remove []rota.MemberInfo) error {
	return s.inRounds(ctx, func(api *server) error {
		now, err := api.size(ctx, s.path(), "StatefulSet")
		switch {
		case err != nil:
			return err
		case want > now.Spec.Replicas:
			return api.setSize(ctx, now, want)
		case want == now.Spec.Replicas || len(remove) == 0:
			return nil
		}
		n, err := s.surplus(now, want, remove)
		if n > 0 {
			err = api.setSize(ctx, now, now.Spec.Replicas-n)
		}
		return err
	})
}

// surplus is how many of the highest ordinals are named, and an error if it is none because
// others are named.
func (s *statefulSet) surplus(now size, want int, remove []rota.MemberInfo) (n int, err error) {
	end := now.Spec.Ordinals.Start + now.Spec.Replicas // the ordinal that a pod more would have
	chosen := map[int]bool{}
	var names []string
	for _, m := range remove {
		i, ok := s.ordinal(m)
		if !ok {
			return 0, fmt.Errorf("member %s is not in a pod %s-N: give each member the name of its pod, or a label pod with it", m.Name, s.name)
		}
		if i < end { // others are ending already
			chosen[i] = true
			names = append(names, m.Name)
		}
	}
	for n < now.Spec.Replicas-want && chosen[end-1-n] {
		n++
	}
	if n == 0 && len(names) > 0 {
		return 0, fmt.Errorf("pod %s-%d is the next that Kubernetes removes, and the members to remove are %s: the number is lowered when that pod's member owns nothing",
			s.name, end-1, strings.Join(names, ", "))
	}
	return n, nil
}
