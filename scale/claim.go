package scale

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Two groups that scale one workload would undo each other's numbers for ever. So a
// Kubernetes Lease beside the workload names the group that scales it. An annotation of the
// workload itself would do as well, but the right to write one is the right to change what
// its pods run.

// Bind says which group scales the workload. It implements rota.Binder.
func (w *workload) Bind(group string) error {
	if !w.group.CompareAndSwap(nil, &group) && *w.group.Load() != group {
		return fmt.Errorf("scale: this scaler of %s %s is for group %s: make another one for %s", w.kind, w.name, *w.group.Load(), group)
	}
	return nil
}

func (w *workload) claimsPath() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + w.namespace + "/leases"
}

// claimName is the name of the Lease of a workload.
func (w *workload) claimName() string { return "rota-" + w.kind + "-" + w.name }

// claimed is the part of a Kubernetes Lease that says who has claimed it. Nobody renews it:
// it ends when somebody deletes it.
type claimed struct {
	Kind     string `json:"kind"`
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		Holder string `json:"holderIdentity"`
	} `json:"spec"`
}

var errUnclaimed = errors.New("nobody has claimed it")

// claim makes sure that no other group scales the workload. A scaler that no group is bound
// to claims nothing.
func (s *server) claim(ctx context.Context) error {
	group := s.w.group.Load()
	if group == nil {
		return nil
	}
	var now, after claimed
	path := s.w.claimsPath() + "/" + s.w.claimName()
	err := s.do(ctx, http.MethodGet, path, nil, &now)
	switch {
	case errors.Is(err, errUnclaimed):
		made := map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": s.w.claimName()}, "spec": map[string]any{"holderIdentity": *group}}
		return s.do(ctx, http.MethodPost, s.w.claimsPath(), made, &after)
	case err != nil:
		return err
	case now.Kind != "Lease" || now.Metadata.ResourceVersion == "":
		return fmt.Errorf("the answer is %s and not a Lease with a version: is that the API server?", quoted(now.Kind+" "))
	case now.Spec.Holder == *group:
		return nil
	case now.Spec.Holder != "":
		return fmt.Errorf("group %s scales it, as the Lease %s says, and this is group %s: give each group a %s of its own, or delete that Lease if %[1]s does not scale it any more",
			quoted(now.Spec.Holder), s.w.claimName(), *group, s.w.kind)
	}
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": now.Metadata.ResourceVersion}, "spec": map[string]any{"holderIdentity": *group}}
	return s.do(ctx, http.MethodPatch, path, patch, &after)
}
