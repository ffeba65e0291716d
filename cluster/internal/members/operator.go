package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
)

// RemovePluginStep removes homelab's own device plugins, before another part offers the GPUs: only
// one may offer a node's.
func (gs *GPUs) RemovePluginStep(by string) *converge.Resource[[]kube.Ref] {
	return &converge.Resource[[]kube.Ref]{
		ID:      "device-plugin",
		Observe: gs.ownPlugins,
		Diff: func(have []kube.Ref) converge.Diff {
			var d converge.Diff
			for _, r := range have {
				path := strings.Replace(r.String(), " ", "/", 1)
				d = append(d, converge.Field{Path: path, Have: "there", Effect: converge.Remove, Note: by + " offers the GPUs"})
			}
			return d
		},
		Apply: func(ctx context.Context, have []kube.Ref) error {
			client, err := gs.Kube(ctx)
			if err != nil {
				return err
			}
			for _, r := range have {
				converge.Progressf(ctx, "removing %s", r)
				if err := client.Delete(ctx, pluginObject(r)); err != nil {
					return err
				}
			}
			rule := converge.WaitRule{What: "waiting until the device plugin has ended", Limit: ReadyTime, Poll: run.PollInterval,
				TimeoutText: "the device plugin's pods have not ended"}
			return run.Until(ctx, gs.Spec, rule, func(ctx context.Context) (string, error) {
				pods, err := client.List(ctx, "v1", "Pod", nvidia.PluginName, "app.kubernetes.io/name")
				pods = slices.DeleteFunc(pods, func(u unstructured.Unstructured) bool { return !isPlugin(u) })
				if err != nil || len(pods) == 0 {
					return "", err
				}
				return fmt.Sprintf("%d of its pods run", len(pods)), nil
			})
		},
	}
}

// ownPlugins lists the objects of homelab's device plugins, the DaemonSets first.
func (gs *GPUs) ownPlugins(ctx context.Context) ([]kube.Ref, error) {
	client, err := gs.Kube(ctx)
	if err != nil {
		return nil, err
	}
	var out []kube.Ref
	for _, kind := range [][2]string{{"apps/v1", "DaemonSet"}, {"v1", "ConfigMap"}} {
		all, err := client.List(ctx, kind[0], kind[1], nvidia.PluginName, "app.kubernetes.io/name")
		if err != nil {
			return nil, err
		}
		for _, u := range all {
			if isPlugin(u) {
				out = append(out, kube.Ref{APIVersion: kind[0], Kind: kind[1], Namespace: nvidia.PluginName, Name: u.GetName()})
			}
		}
	}
	return out, nil
}

// isPlugin reports whether an object belongs to one of homelab's device plugins.
func isPlugin(u unstructured.Unstructured) bool {
	return strings.HasPrefix(u.GetLabels()["app.kubernetes.io/name"], nvidia.PluginName)
}

func pluginObject(r kube.Ref) runtime.Object {
	kind, m := metav1.TypeMeta{APIVersion: r.APIVersion, Kind: r.Kind}, metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}
	if r.Kind == "DaemonSet" {
		return &appsv1.DaemonSet{TypeMeta: kind, ObjectMeta: m}
	}
	return &corev1.ConfigMap{TypeMeta: kind, ObjectMeta: m}
}

// HasOperatorDriver reports whether the GPU operator installs a node's driver and toolkit.
func (ks *Kubernetes) HasOperatorDriver(n spec.Node) bool {
	return n.HasGPUs() && ks.Spec.NVIDIA.Stack == spec.StackOperator && ks.Spec.NVIDIA.DriverMode == spec.DriverOperator
}

// operatorTime is how long the operator may take to install driver and toolkit on a node: it pulls
// an image of a gigabyte, and builds modules.
const operatorTime = 30 * time.Minute

// RuntimeStep waits until the GPU operator has installed NVIDIA's runtime on a node, and then
// restarts K3s there, which looks for it only at its start. Nodes take turns.
func (gs *GPUs) RuntimeStep(n spec.Node, namespace, driverPods string) *converge.Resource[nvidia.OperatorRuntime] {
	return &converge.Resource[nvidia.OperatorRuntime]{
		ID: "runtime/" + n.Name,
		Observe: func(ctx context.Context) (nvidia.OperatorRuntime, error) {
			s, err := nvidia.ObserveOperatorRuntime(ctx, gs.Nodes.Root(n.Name))
			if err == nil && len(s.Host) > 0 {
				err = converge.Permanent(fmt.Errorf("%s has a driver of its own (%s), and the GPU operator installs none beside it: "+
					"homelab node:replace -node=%s recreates the machine without it, or write mode: prebuilt", n.Name, s.Host[0], printable.Word(n.Name)))
			}
			return s, err
		},
		Diff: nvidia.OperatorRuntime.Diff,
		Apply: func(ctx context.Context, s nvidia.OperatorRuntime) error {
			if !s.Installed {
				if err := gs.waitOperator(ctx, n, namespace, driverPods); err != nil {
					return err
				}
			}
			return gs.RestartMember(ctx, n, func(ctx context.Context) error {
				converge.Progressf(ctx, "restarting %s on %s, so that it finds NVIDIA's runtime", gs.Distribution.Facts().Service(n.Role), n.Name)
				return gs.Distribution.Restart(ctx, n, distribution.Admission{})
			})
		},
	}
}

// waitOperator waits until the operator has installed the runtime. A driver whose image does not
// exist ends the wait (failure N7).
func (gs *GPUs) waitOperator(ctx context.Context, n spec.Node, namespace, driverPods string) error {
	rule := converge.WaitRule{
		What: "waiting for the GPU operator on " + n.Name, Limit: operatorTime, Poll: 2 * run.PollInterval,
		TimeoutText: "the GPU operator has not installed driver and toolkit on " + n.Name,
		Hint:        "kubectl -n " + namespace + " get pods,events shows more",
	}
	return run.Until(ctx, gs.Spec, rule, func(ctx context.Context) (string, error) {
		s, err := nvidia.ObserveOperatorRuntime(ctx, gs.Nodes.Root(n.Name))
		if err != nil || s.Installed {
			return "", err
		}
		client, err := gs.Kube(ctx)
		if err != nil {
			return "", err
		}
		pods, err := client.List(ctx, "v1", "Pod", namespace, "")
		if err != nil {
			return "", err
		}
		for _, pod := range pods {
			node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
			if node == n.Name && strings.HasPrefix(pod.GetName(), driverPods) {
				return pulls(pod, n.Name)
			}
		}
		return "it has no driver pod there yet", nil
	})
}

// pulls says what a driver's pod waits for, and refuses to wait for an image that does not exist.
func pulls(pod unstructured.Unstructured, node string) (string, error) {
	var p corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pod.Object, &p); err != nil {
		return "", fmt.Errorf("pod %s: %w", pod.GetName(), err)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil || w.Reason != "ImagePullBackOff" && w.Reason != "ErrImagePull" {
			continue
		}
		if strings.Contains(w.Message, "not found") {
			return "", converge.Permanent(errors.New(missingImageText(c.Image, node)))
		}
		return fmt.Sprintf("image %s: %s", c.Image, w.Message), nil
	}
	return "its driver is being installed", nil
}

// missingImageText explains an image that does not exist. Containers with prebuilt modules are made
// for some kernels of a distribution only, and name the kernel.
func missingImageText(image, node string) string {
	cure := "write branch: 580-server under nvidia.driver, or mode: prebuilt"
	if strings.Count(image[strings.LastIndexByte(image, ':')+1:], "-") > 1 { // BRANCH-KERNEL-SYSTEM, not VERSION-SYSTEM
		cure = "remove driver.usePrecompiled from nvidia.values, so that the container builds the modules, or write mode: prebuilt"
	}
	return fmt.Sprintf("NVIDIA has no driver container for the kernel of %s: there is no image %s: %s", node, image, cure)
}
