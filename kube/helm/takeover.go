package helm

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// noteTracking is how Argo CD marks what it deploys: APPLICATION:GROUP/KIND:NAMESPACE/NAME
// (argo-cd util/argo/resource_tracking.go).
const noteTracking = "argocd.argoproj.io/tracking-id"

// abandoned reports whether an object was made by the release's former Application of Argo CD, which is gone.
func (c *Client) abandoned(ctx context.Context, r chart.Release, live *unstructured.Unstructured) (bool, error) {
	notes := live.GetAnnotations()
	if r.Former == "" || notes[noteName] != "" || !strings.HasPrefix(notes[noteTracking], r.Former+":") {
		return false, nil
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{"namespace": "argocd", "name": r.Former}}}
	err := c.kube.Get(ctx, u)
	if errors.Is(err, kube.ErrNotFound) || errors.As(err, new(*kube.NoKindError)) {
		return true, nil
	}
	return false, err
}
