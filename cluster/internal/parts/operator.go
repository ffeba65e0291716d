package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
)

// finishOperatorRemoval finishes the removal of the GPU operator. What it has deployed goes after it, with
// its ClusterPolicy: until its device plugin has ended, no other may offer the GPUs. With it goes
// the RuntimeClass nvidia, which the operator has made its own (NVIDIA/gpu-operator,
// controllers/object_controls.go, v26.7.0), and K3s creates it only when a server starts.
func (s *Steps) finishOperatorRemoval(ctx context.Context, client *kube.Client, r Record) error {
	if r.Part != addon.GPUOperatorName {
		return nil
	}
	rule := converge.WaitRule{What: "waiting until the GPU operator has ended", Limit: releaseTime, Poll: run.PollInterval,
		TimeoutText: "what the GPU operator deployed has not ended"}
	err := run.Until(ctx, s.Spec, rule, func(ctx context.Context) (string, error) {
		pods, err := client.List(ctx, "v1", "Pod", r.Namespace, "")
		if err != nil {
			return "", err
		}
		pods = slices.DeleteFunc(pods, func(u unstructured.Unstructured) bool { // jobs of gpu:verify, for example
			return !slices.ContainsFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" })
		})
		if len(pods) > 0 {
			return fmt.Sprintf("%d of its pods are there", len(pods)), nil
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

// costsOfOperator is what a change of the GPU operator ends: without its driver, the pods that use
// GPUs; without its MPS daemon, jobs that compute
// through it end.
func (s *Steps) costsOfOperator(ctx context.Context, part string, d converge.Diff) []converge.Cost {
	if part != addon.GPUOperatorName {
		return nil
	}
	why := ""
	for _, f := range d {
		switch {
		case f.Have == "":
		case strings.HasPrefix(f.Path, "values/driver/enabled"): // another version is each node's operator-driver/NODE
			why = "the GPU operator removes its driver, and the pods that use it end"
		case strings.HasPrefix(f.Path, "values/devicePlugin/config/") && strings.Contains(f.Have, spec.SharingMPS):
			why = cmp.Or(why, "GPU sharing changes, and jobs that use the MPS daemon end")
		}
	}
	if why == "" {
		return nil
	}
	var out []converge.Cost
	w, err := s.Work(ctx)
	for _, n := range s.Spec.GPUNodes() {
		cost := converge.Cost{Machine: "GPUs of " + n.Name, Kind: converge.CostStop, Reason: why}
		switch {
		case err != nil:
			cost.Users = []converge.Loss{{Text: "cannot find out whose work ends: " + printable.FirstLine(err.Error()), Unknown: true}}
		case w != nil:
			cost.Users = w.Ends(n.Name)
		}
		if len(cost.Users) > 0 {
			out = append(out, cost)
		}
	}
	return out
}

// runtimeClass is as K3s creates it (manifests/runtimes.yaml).
func runtimeClass() *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: nvidia.RuntimeClass}, Handler: nvidia.RuntimeClass,
	}
}
