package members

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/nvidia"
)

// driverContainer is the driver container of the GPU operator on a node; the zero value if there is none.
type driverContainer struct{ pod, image, modules string }

// is reports whether a container has a version and a kind of modules. Those with prebuilt modules are
// named by the branch alone, in place of the version.
func (c driverContainer) is(version, modules string) bool {
	branch, _, _ := strings.Cut(version, ".")
	return (strings.Contains(c.image, ":"+version+"-") || strings.Contains(c.image, ":"+branch+"-")) && (modules == "auto" || c.modules == modules)
}

// OperatorDriverStep brings another driver of the GPU operator to a node. The operator's own upgrades
// are off: they would delete the pods that use GPUs, whatever k3s.upgrade says. Its DaemonSet replaces a
// driver's pod only when somebody deletes that (updateStrategy OnDelete in NVIDIA/gpu-operator,
// assets/state-driver/0500_daemonset.yaml, v26.7.0), which happens here, in the node's turn. restart
// switches the machine off and on, so that nothing uses the old modules; an external machine is its
// owner's to restart.
func (gs *GPUs) OperatorDriverStep(n spec.Node, namespace, prefix string, restart func(context.Context) error) *converge.Resource[driverContainer] {
	version, err := nvidia.OperatorDriver(gs.Spec.NVIDIA.Branch)
	words := "the GPU operator's driver " + version
	step := &converge.Resource[driverContainer]{
		ID: "operator-driver/" + n.Name,
		Observe: func(ctx context.Context) (driverContainer, error) {
			if err != nil {
				return driverContainer{}, converge.Permanent(err)
			}
			return gs.containedDriver(ctx, "Pod", namespace, prefix, n.Name)
		},
		Diff: func(have driverContainer) converge.Diff {
			if have.pod == "" || have.is(version, gs.Spec.NVIDIA.Flavour) {
				return nil
			}
			image := have.image[strings.LastIndexByte(have.image, ':')+1:]
			d := converge.Field{Path: "driver", Have: strings.TrimSpace(image + " " + have.modules), Want: version + " " + gs.Spec.NVIDIA.Flavour, Effect: converge.Restart}
			if n.External {
				d.Effect = converge.Create
				d.Note = fmt.Sprintf("the machine is external: homelab node:drain -node=%s, delete the pod %s of %s, restart the machine, and homelab node:uncordon -node=%[1]s", printable.Word(n.Name), have.pod, namespace)
			}
			return converge.Diff{d}
		},
		Costs: gs.costsOfOperatorDriver(n, words),
	}
	if n.External {
		step.Costs = nil
		return step
	}
	step.Apply = func(ctx context.Context, have driverContainer) error {
		if err := gs.waitPolicy(ctx, n, namespace, prefix, version); err != nil {
			return err
		}
		return gs.Upgrade(ctx, n, "its driver", func(ctx context.Context) error {
			client, err := gs.Kube(ctx)
			if err != nil {
				return err
			}
			converge.Progressf(ctx, "deleting the pod %s, and restarting %s with driver %s", have.pod, n.Name, version)
			pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: have.pod}}
			if err := client.Delete(ctx, pod); err != nil {
				return err
			}
			return restart(ctx)
		})
	}
	return step
}

func (gs *GPUs) costsOfOperatorDriver(n spec.Node, words string) func(context.Context, driverContainer, converge.Diff) []converge.Cost {
	return func(ctx context.Context, _ driverContainer, _ converge.Diff) []converge.Cost {
		return gs.Upgrades(ctx, words+" is loaded by a restart", n)
	}
}

// waitPolicy waits until the operator's DaemonSet has the driver of the file: the pod of an older one
// would come back as it was.
func (gs *GPUs) waitPolicy(ctx context.Context, n spec.Node, namespace, prefix, version string) error {
	rule := converge.WaitRule{
		What: "waiting for the GPU operator to take over driver " + version, Limit: ReadyTime,
		TimeoutText: "the GPU operator did not take over driver " + version,
		Hint:        "kubectl -n " + namespace + " logs deployment/gpu-operator says why",
	}
	return run.Until(ctx, gs.Spec, rule, func(ctx context.Context) (string, error) {
		have, err := gs.containedDriver(ctx, "DaemonSet", namespace, prefix, n.Name)
		if err != nil || have.is(version, gs.Spec.NVIDIA.Flavour) {
			return "", err
		}
		return "its DaemonSet has " + have.image, nil
	})
}

// containedDriver reads the driver's container of a node's pod, or of the DaemonSet.
func (gs *GPUs) containedDriver(ctx context.Context, kind, namespace, prefix, node string) (driverContainer, error) {
	client, err := gs.Kube(ctx)
	if err != nil {
		return driverContainer{}, err
	}
	api, at := "v1", []string{"spec"}
	if kind == "DaemonSet" {
		api, at = "apps/v1", []string{"spec", "template", "spec"}
	}
	all, err := client.List(ctx, api, kind, namespace, "")
	if err != nil {
		return driverContainer{}, err
	}
	for _, u := range all {
		fields, _, _ := unstructured.NestedMap(u.Object, at...)
		var pod corev1.PodSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &pod); err != nil {
			return driverContainer{}, fmt.Errorf("%s %s: %w", kind, u.GetName(), err)
		}
		if !strings.HasPrefix(u.GetName(), prefix) || len(pod.Containers) == 0 || kind == "Pod" && pod.NodeName != node {
			continue
		}
		out := driverContainer{pod: u.GetName(), image: pod.Containers[0].Image}
		for _, v := range pod.Containers[0].Env {
			if v.Name == "KERNEL_MODULE_TYPE" {
				out.modules = v.Value
			}
		}
		return out, nil
	}
	return driverContainer{}, nil
}
