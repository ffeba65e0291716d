package kubesim

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/sim/gpuoperator"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/defaults"
)

// gpuOperator simulates NVIDIA's GPU operator while its pod is ready: what its ClusterPolicy asks
// for is created, and what it no longer asks for is deleted.
func (c *machines) gpuOperator() {
	for _, e := range c.all("clusterpolicies.nvidia.com") {
		if !c.runsImage("/gpu-operator:") {
			return
		}
		policy := &unstructured.Unstructured{Object: e.obj}
		wanted := map[string]bool{}
		for _, u := range gpuoperator.NewPolicy(policy, c.namespaceOf("/gpu-operator:")).Objects(c.kernels()...) {
			wanted[u.GetKind()+" "+u.GetName()] = true
			c.bring(u)
		}
		for _, set := range c.all("daemonsets.apps") {
			if set.owner == e.uid && !wanted["DaemonSet "+set.u().GetName()] {
				c.erase(set, metav1.DeleteOptions{})
			}
		}
	}
}

// bring creates an object of the operator, or corrects it.
func (c *machines) bring(u *unstructured.Unstructured) {
	var obj metav1.Object = &nodev1.RuntimeClass{}
	if u.GetKind() == "DaemonSet" {
		obj = &appsv1.DaemonSet{}
	}
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj) // one of our own making
	s := controllerStore{c: c.Cluster}
	_, have := s.find(obj)
	if have == nil {
		c.make(obj)
		return
	}
	switch o := obj.(type) {
	case *appsv1.DaemonSet:
		defaults.Set(o)
		is := entryAs[appsv1.DaemonSet](have).DeepCopy()
		is.Spec = o.Spec
		s.Update(is)
	case *nodev1.RuntimeClass: // K3s' own class becomes the operator's
		is := entryAs[nodev1.RuntimeClass](have).DeepCopy()
		is.OwnerReferences = o.OwnerReferences
		s.Update(is)
	}
}

// namespaceOf is the namespace of a ready pod whose image has a word in its name.
func (c *machines) namespaceOf(image string) string {
	for _, e := range c.all("pods") {
		if p := entryAs[corev1.Pod](e); control.Ready(p) && len(p.Spec.Containers) > 0 && strings.Contains(p.Spec.Containers[0].Image, image) {
			return p.Namespace
		}
	}
	return ""
}

// kernels are those of the nodes with GPUs.
func (c *machines) kernels() []string {
	var out []string
	for _, e := range c.all("nodes") {
		if n := entryAs[corev1.Node](e); n.Labels["nvidia.com/gpu.present"] == "true" {
			out = append(out, n.Status.NodeInfo.KernelVersion)
		}
	}
	return out
}

// changesHost reports whether a pod changes its machine.
func changesHost(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(ct corev1.Container) bool { return gpuoperator.IsHost(ct.Image) })
}

// toMachine does what a pod of the operator does to its machine, and says what keeps it from that.
func (c *machines) toMachine(p *corev1.Pod, k *kubelet) (reason, why string) {
	for _, ct := range p.Spec.Containers {
		if why := gpuoperator.NoSuchImage(ct.Image); why != "" {
			return "ImagePullBackOff", why
		}
		if !gpuoperator.IsHost(ct.Image) || k.node.Run == nil {
			continue
		}
		env := map[string]string{}
		for _, v := range ct.Env {
			env[v.Name] = v.Value
		}
		code, output, _ := k.node.Run(k.ctx, guest.Container{Image: ct.Image, Env: env})
		if code > 1 {
			return "CrashLoopBackOff", output
		}
		if code != 0 {
			return "PodInitializing", output
		}
	}
	return "", ""
}
