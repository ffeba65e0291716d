package schedule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// misfit says why a pod cannot run on a node, in the scheduler's words.
func misfit(p *corev1.Pod, n *corev1.Node, used map[corev1.ResourceName]int64, d devices) string {
	cordon := []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	if _, kept := Repels(cordon, p.Spec.Tolerations); kept && n.Spec.Unschedulable {
		return "node(s) were unschedulable"
	}
	if t, kept := Repels(n.Spec.Taints, p.Spec.Tolerations); kept {
		return fmt.Sprintf("node(s) had untolerated taint {%s: %s}", t.Key, t.Value)
	}
	if !Selects(&p.Spec, n) {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	for name, want := range Needs(p) {
		q := n.Status.Allocatable[name]
		if d.claimed(name, n) {
			if want > int64(len(d.free[n.Name][d.drivers[name]])) {
				return noDevices
			}
			continue
		}
		if want > amount(name, q.Value(), q.MilliValue())-used[name] {
			return "Insufficient " + string(name)
		}
	}
	return ""
}

// Selects reports whether a node selector and a required affinity allow a node.
func Selects(spec *corev1.PodSpec, n *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(n)
	return ok && err == nil
}

// Repels returns the first of a node's taints that keeps a pod off it.
func Repels(taints []corev1.Taint, tolerations []corev1.Toleration) (corev1.Taint, bool) {
	hard := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	return scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, taints, tolerations, hard, true)
}

// Needs is what a pod requests: CPUs in thousandths, everything else in whole units.
func Needs(p *corev1.Pod) map[corev1.ResourceName]int64 {
	sum := map[corev1.ResourceName]int64{}
	for name, q := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
		sum[name] = amount(name, q.Value(), q.MilliValue())
	}
	return sum
}

func amount(name corev1.ResourceName, whole, milli int64) int64 {
	if name == corev1.ResourceCPU {
		return milli
	}
	return whole
}

// Take counts what a pod that has not ended holds.
func Take(used map[corev1.ResourceName]int64, p *corev1.Pod) {
	if control.Ended(p) {
		return
	}
	for name, n := range Needs(p) {
		used[name] += n
	}
}

// Free is the memory that nobody asked for.
func Free(n *corev1.Node, used map[corev1.ResourceName]int64) int64 {
	q := n.Status.Allocatable[corev1.ResourceMemory]
	return q.Value() - used[corev1.ResourceMemory]
}
