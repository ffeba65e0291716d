package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/kube"
)

// afterOperator finishes the removal of the GPU operator. What it has deployed goes after it, with
// its ClusterPolicy: until its device plugin has ended, no other may offer the GPUs. With it goes
// the RuntimeClass nvidia, which the operator has made its own (NVIDIA/gpu-operator,
// controllers/object_controls.go, v26.7.0), and K3s creates it only when a server starts.
func (s *Steps) afterOperator(ctx context.Context, client *kube.Client, r Record) error {
	if r.Part != platform.GPUOperator {
		return nil
	}
	rule := wait.Rule{What: "waiting until the GPU operator has ended", Limit: releaseTime, Poll: run.LookEvery, Late: "what the GPU operator deployed has not ended"}
	err := run.Until(ctx, s.Spec, rule, func(ctx context.Context) (string, error) {
		pods, err := client.List(ctx, "v1", "Pod", r.Namespace, "")
		if err != nil || len(pods) > 0 {
			return few(len(pods), "of its pods are there"), err
		}
		class := runtimeClass()
		err = client.Get(ctx, class)
		if errors.Is(err, kube.ErrNotFound) {
			return "", nil
		}
		if slices.ContainsFunc(class.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ClusterPolicy" }) {
			return "its runtime class is there", err
		}
		return "", err
	})
	if err != nil {
		return err
	}
	_, err = client.Apply(ctx, runtimeClass())
	return err
}

func few(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

// runtimeClass is as K3s creates it (manifests/runtimes.yaml).
func runtimeClass() *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: platform.RuntimeClass}, Handler: platform.RuntimeClass,
	}
}
