package plane

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/sim/gpuoperator"
	"github.com/cps-gpu/homelab/sim/guest"
)

// toMachine does what a pod of the GPU operator does to its machine: it loads the driver, or
// installs the container toolkit. A positive duration says when to try again.
func (k *kubelet) toMachine(ctx context.Context, m *member, pod *corev1.Pod) (time.Duration, error) {
	for _, c := range pod.Spec.Containers {
		if why := gpuoperator.NoSuchImage(c.Image); why != "" {
			k.eventOn(pod, corev1.EventTypeWarning, "Failed", "%s", why)
			return recheck, k.refuseImage(ctx, pod, why)
		}
		if !gpuoperator.IsHost(c.Image) || m.Run == nil {
			continue
		}
		env := map[string]string{}
		for _, e := range c.Env {
			env[e.Name] = e.Value
		}
		if code, output, _ := m.Run(ctx, guest.Container{Image: c.Image, Env: env}); code != 0 {
			k.eventOn(pod, corev1.EventTypeWarning, "BackOff", "%s", strings.TrimSpace(output))
			return recheck, k.refuse(ctx, pod, "")
		}
	}
	return 0, nil
}

// refuseImage leaves a pod at an image that its registry does not have.
func (k *kubelet) refuseImage(ctx context.Context, pod *corev1.Pod, why string) error {
	if err := k.refuse(ctx, pod, ""); err != nil {
		return err
	}
	statuses := make([]corev1.ContainerStatus, len(pod.Spec.Containers))
	for i, c := range pod.Spec.Containers {
		statuses[i] = corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: why}}}
	}
	return k.patchStatus(ctx, pod, map[string]any{"containerStatuses": statuses})
}
