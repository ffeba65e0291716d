package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// nvidiaRuntime is the handler that K3s configures in containerd if it finds NVIDIA's
// container toolkit at its start.
const nvidiaRuntime = "nvidia"

// sandboxReady reports whether the pod's sandbox was made: the kubelet's own
// condition for it.
func sandboxReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
}

// makeSandbox makes a pod's sandbox, admits its devices first, and sets the condition.
func (k *kubelet) makeSandbox(ctx context.Context, m *member, pod *corev1.Pod) (time.Duration, error) {
	if pod.Status.Phase != corev1.PodPending {
		return 0, nil
	}
	if err := k.takeClaimed(ctx, m, pod); err != nil {
		return 0, err
	}
	if refused := k.allocate(m, pod); refused != "" {
		k.eventOn(pod, corev1.EventTypeWarning, "UnexpectedAdmissionError", "Allocate failed due to %s", refused)
		return 0, k.patchStatus(ctx, pod, map[string]any{
			"phase": corev1.PodFailed, "reason": "UnexpectedAdmissionError",
			"message": "Pod was rejected: Allocate failed due to " + refused + ", which is unexpected",
		})
	}
	handler := pod.Spec.RuntimeClassName
	if handler != nil && !m.hasRuntime(*handler) {
		return recheck, k.refuseSandbox(ctx, pod, *handler)
	}
	if again, err := k.toMachine(ctx, m, pod); again > 0 || err != nil {
		return again, err
	}
	var missing *mountError
	if err := k.startable(ctx, m, pod); errors.As(err, &missing) {
		k.eventOn(pod, corev1.EventTypeWarning, missing.reason(), "%s", missing.Error())
		return recheck, k.refuse(ctx, pod, missing.reason())
	} else if err != nil {
		return 0, err
	}
	return 0, k.patchStatus(ctx, pod, map[string]any{"conditions": []any{condition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "")}})
}

// hasRuntime reports whether the node's containerd knows a handler. The only ones
// in the lab are the default and, where GPUs are usable, NVIDIA's.
func (m *member) hasRuntime(handler string) bool {
	return handler == nvidiaRuntime && m.GPUs != nil && len(m.GPUs()) > 0
}

// refuseSandbox leaves the pod at ContainerCreating, with the reason as an event.
func (k *kubelet) refuseSandbox(ctx context.Context, pod *corev1.Pod, handler string) error {
	why := fmt.Sprintf("Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for %q is configured", handler)
	k.eventOn(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "%s", why)
	return k.refuse(ctx, pod, "")
}

// refuse leaves the pod's containers waiting.
func (k *kubelet) refuse(ctx context.Context, pod *corev1.Pod, why string) error {
	state := "ContainerCreating"
	if why == configError {
		state = why
	}
	if len(pod.Status.ContainerStatuses) > 0 {
		return nil
	}
	names := make([]string, len(pod.Spec.Containers))
	statuses := make([]corev1.ContainerStatus, len(pod.Spec.Containers))
	for i, c := range pod.Spec.Containers {
		names[i] = c.Name
		statuses[i] = corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: state}}}
	}
	message := fmt.Sprintf("containers with unready status: %v", names)
	return k.patchStatus(ctx, pod, map[string]any{
		"containerStatuses": statuses, "startTime": metav1.Now(),
		"conditions": []any{
			condition(corev1.PodReadyToStartContainers, corev1.ConditionFalse, "", ""),
			condition(corev1.PodInitialized, corev1.ConditionTrue, "", ""),
			condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", message),
			condition(corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady", message),
		},
	})
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": metav1.Now()}
}

func (k *kubelet) patchStatus(ctx context.Context, pod *corev1.Pod, status map[string]any) error {
	return patchPod(ctx, k.client, pod, status)
}

// patchPod changes the status of a pod.
func patchPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, status map[string]any) error {
	// The uid protects a later pod of the same name.
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("pod status: %w", err)
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("pod status: %w", err)
	}
	return nil
}
