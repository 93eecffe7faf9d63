package scale

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
)

// A deployment removes the pods with the lowest deletion cost, as long as all are ready.
type deployment struct{ *workload }

const (
	deletionCost = "controller.kubernetes.io/pod-deletion-cost"
	mark         = "-2147483648" // the lowest cost that there can be
)

// markPause is how long the controller has to see the marks before the number is lowered:
// it watches pods and numbers separately and promises no order between them.
const markPause = time.Second

// Scale raises the number at once. It lowers the number by as many members as are named and
// still have a pod, and only after Kubernetes can be expected to choose just these.
func (d *deployment) Scale(ctx context.Context, want int, remove []rota.MemberInfo) error {
	return d.inRounds(ctx, func(s *server) error { return d.round(ctx, s, want, remove) })
}

// round reads the Deployment and makes one change towards what is wanted.
func (d *deployment) round(ctx context.Context, s *server, want int, remove []rota.MemberInfo) error {
	now, err := s.size(ctx, d.scalePath(), "Scale")
	switch {
	case err != nil:
		return err
	case want > now.Spec.Replicas:
		return s.setSize(ctx, now, want)
	case want == now.Spec.Replicas || len(remove) == 0:
		return nil
	}
	pods, err := s.pods(ctx, now.Status.Selector)
	if err != nil {
		return err
	}
	chosen, missing := choose(pods, remove)
	if err := predictable(pods, chosen); err != nil {
		return err
	}
	if err := s.markAll(ctx, pods, chosen); err != nil {
		return err
	}
	if n := min(len(chosen), now.Spec.Replicas-want); n > 0 {
		return s.setSize(ctx, now, now.Spec.Replicas-n)
	}
	if len(missing) > 0 {
		return fmt.Errorf("no pod in namespace %s belongs to %s: give each member the name of its pod, or a label pod with it", d.namespace, strings.Join(missing, ", "))
	}
	return nil // they are ending already
}

// A pod is the part of a pod that says whether and when the controller removes it.
type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
		Deletion    string            `json:"deletionTimestamp"`
		Owners      []struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Node string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// counts tells whether the controller counts a pod among the replicas.
func (p *pod) counts() bool {
	return p.Metadata.Deletion == "" && p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed" && p.replicaSet() != ""
}

func (p *pod) replicaSet() string {
	for _, o := range p.Metadata.Owners {
		if o.Kind == "ReplicaSet" {
			return o.Name
		}
	}
	return ""
}

func (p *pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return p.Status.Phase == "Running" && c.Status == "True"
		}
	}
	return false
}

// page is how many pods are asked for at once.
const page = 100

// pods reads the pods that a selector selects.
func (s *server) pods(ctx context.Context, selector string) (all []pod, err error) {
	if selector == "" {
		return nil, errors.New("the answer is a Scale without a selector")
	}
	query := url.Values{"labelSelector": {selector}, "limit": {fmt.Sprint(page)}}
	for {
		var list struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []pod `json:"items"`
		}
		if err := s.do(ctx, http.MethodGet, s.w.podsPath()+"?"+query.Encode(), nil, &list); err != nil {
			return nil, err
		}
		if list.Kind != "PodList" {
			return nil, fmt.Errorf("the answer is %s and not a PodList: is that the API server?", quoted(list.Kind+" "))
		}
		all = append(all, list.Items...)
		if list.Metadata.Continue == "" || len(list.Items) == 0 {
			return all, nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
}

// choose returns the pods of the members to end that the controller still counts, by name,
// and the members that have no pod at all.
func choose(pods []pod, remove []rota.MemberInfo) (chosen map[string]bool, missing []string) {
	chosen = map[string]bool{}
	for _, m := range remove {
		i := slices.IndexFunc(pods, func(p pod) bool { return p.Metadata.Name == podOf(m) })
		switch {
		case i < 0:
			missing = append(missing, m.Name)
		case pods[i].counts():
			chosen[pods[i].Metadata.Name] = true
		}
	}
	return chosen, missing
}

// predictable returns an error if the controller might remove other pods than the chosen
// ones. The cost decides only between pods of one ReplicaSet that are ready. One that is
// not ready goes first, although a member may run in it, unless it is on no node yet: then
// nothing runs in it.
func predictable(pods []pod, chosen map[string]bool) error {
	set := ""
	for i := range pods {
		p := &pods[i]
		if !p.counts() {
			continue
		}
		switch of := p.replicaSet(); {
		case set == "":
			set = of
		case set != of:
			return fmt.Errorf("its pods belong to the ReplicaSets %s and %s, so a rollout is going on: the number is lowered when that is over", set, of)
		}
		if !chosen[p.Metadata.Name] && p.Spec.Node != "" && !p.ready() {
			return fmt.Errorf("pod %s is not ready, and Kubernetes would end it before the members that own nothing: the number is lowered when it is ready or gone", p.Metadata.Name)
		}
	}
	return nil
}

// markAll gives the chosen pods the lowest deletion cost and takes it off the others, which
// may have been chosen before. If that has changed anything, it returns errChanged after a
// pause: everything is to be read anew then.
func (s *server) markAll(ctx context.Context, pods []pod, chosen map[string]bool) error {
	changed := false
	for i := range pods {
		p := &pods[i]
		var cost any // null: no annotation
		switch marked := p.Metadata.Annotations[deletionCost] == mark; {
		case marked == chosen[p.Metadata.Name] || !p.counts():
			continue
		case !marked:
			cost = mark
		}
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{deletionCost: cost}}}
		var after pod
		if err := s.do(ctx, http.MethodPatch, s.w.podsPath()+"/"+url.PathEscape(p.Metadata.Name), patch, &after); err != nil {
			return err
		}
		changed = true
	}
	if !changed {
		return nil
	}
	select {
	case <-time.After(s.w.pause):
		return errChanged
	case <-ctx.Done():
		return ctx.Err()
	}
}
