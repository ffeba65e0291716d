package plane

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// runOn lets a pod that has no end appear to run: its init containers have ended, the others are
// ready, and it has an address.
func (k *kubelet) runOn(ctx context.Context, m *member, pod *corev1.Pod) error {
	return k.runExcept(ctx, m, pod, nil)
}

// runExcept is runOn for a pod of which one container is not ready; nil: all are.
func (k *kubelet) runExcept(ctx context.Context, m *member, pod *corev1.Pod, unready *corev1.ContainerStatus) error {
	ip, err := k.address(m, pod)
	if err != nil {
		return err
	}
	now, yes := metav1.Now(), true
	ready, reason, message := corev1.ConditionTrue, "", ""
	if unready != nil {
		ready, reason, message = corev1.ConditionFalse, "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", unready.Name)
	}
	conditions := []any{
		condition(corev1.PodInitialized, corev1.ConditionTrue, "", ""),
		condition(corev1.ContainersReady, ready, reason, message),
		condition(corev1.PodReady, ready, reason, message),
	}
	for _, gate := range pod.Spec.ReadinessGates {
		conditions = append(conditions, condition(gate.ConditionType, corev1.ConditionTrue, "", ""))
	}
	running := func(c corev1.Container) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}
	}
	containers, inits := []corev1.ContainerStatus{}, []corev1.ContainerStatus{}
	for _, c := range pod.Spec.Containers {
		s := running(c)
		if unready != nil && unready.Name == c.Name {
			s = *unready
		}
		containers = append(containers, s)
	}
	for _, c := range pod.Spec.InitContainers {
		s := running(c)
		if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			s.Started = nil
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
		}
		inits = append(inits, s)
	}
	host := m.InternalIP.String()
	return k.patchStatus(ctx, pod, map[string]any{
		"phase": corev1.PodRunning, "startTime": now, "conditions": conditions,
		"containerStatuses": containers, "initContainerStatuses": inits,
		"hostIP": host, "hostIPs": []any{map[string]any{"ip": host}},
		"podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
	})
}

// address gives a pod an address of its node's range, which the controller of nodes has set, or of
// the whole cluster's; a pod in the node's network has the node's.
func (k *kubelet) address(m *member, pod *corev1.Pod) (string, error) {
	if pod.Status.PodIP != "" {
		return pod.Status.PodIP, nil
	}
	if pod.Spec.HostNetwork {
		return m.InternalIP.String(), nil
	}
	network := k.network
	if node, err := k.objects.Get(m.Name); err == nil {
		if own, err := netip.ParsePrefix(node.Spec.PodCIDR); err == nil {
			network = own
		}
	}
	all, err := k.pods.List(labels.Everything())
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if own := k.addresses[pod.UID]; own != "" { // of a copy of the pod from before it had one
		return own, nil
	}
	known, taken := map[types.UID]bool{}, map[string]bool{}
	for _, p := range all {
		known[p.UID], taken[p.Status.PodIP] = true, true
	}
	for uid, ip := range k.addresses {
		if known[uid] {
			taken[ip] = true
		} else {
			delete(k.addresses, uid) // its pod is gone
		}
	}
	first := network.Masked().Addr().Next() // the bridge of the node
	for ip := first.Next(); network.Contains(ip.Next()); ip = ip.Next() {
		if text := ip.String(); !taken[text] {
			k.addresses[pod.UID] = text
			return text, nil
		}
	}
	return "", fmt.Errorf("no address is left in %s", network)
}

// silenced reports whether the controller of nodes has set Ready of a running pod to False, as it
// does while a node is silent, and nothing else (MarkPodsNotReady, pkg/controller/util/node/controller_utils.go).
func silenced(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning {
		return false
	}
	is := map[corev1.PodConditionType]bool{}
	for _, c := range pod.Status.Conditions {
		is[c.Type] = c.Status == corev1.ConditionTrue
	}
	return is[corev1.ContainersReady] && !is[corev1.PodReady]
}

// readyAgain writes the kubelet's own status over that (needsReconcile, pkg/kubelet/status/status_manager.go).
// Before the Node is Ready, the controller would only repeat itself.
func (k *kubelet) readyAgain(ctx context.Context, m *member, pod *corev1.Pod) (time.Duration, error) {
	if node, err := k.objects.Get(m.Name); err != nil || !nodeReady(node) {
		return time.Second, nil //nolint:nilerr // of a Node that is gone
	}
	return 0, k.patchStatus(ctx, pod, map[string]any{"conditions": []any{condition(corev1.PodReady, corev1.ConditionTrue, "", "")}})
}

// remove deletes a pod whose containers have ended.
func (k *kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	at := int64(0)
	return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &at, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
}
