package plane

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/dra"
)

// publish keeps the ResourceSlice of a node as its DRA driver has it, while that runs. The kubelet deletes the slices
// of a driver that has gone.
func (k *kubelet) publish(ctx context.Context, m *member) error {
	api := k.client.ResourceV1().ResourceSlices()
	name, want := dra.SliceName(m.Name), dra.Slice(m.Name, m.usable())
	runs := len(want.Devices) > 0 && slices.ContainsFunc(k.podsOn(m.Name), func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && dra.IsDriver(p)
	})
	have, err := api.Get(ctx, name, metav1.GetOptions{})
	none := apierrors.IsNotFound(err)
	switch {
	case none && !runs:
		return nil
	case none:
		_, err = api.Create(ctx, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: want}, metav1.CreateOptions{})
	case err == nil && !runs:
		err = api.Delete(ctx, name, metav1.DeleteOptions{})
	case err == nil && !equality.Semantic.DeepEqual(have.Spec, want):
		have.Spec = want
		_, err = api.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("its ResourceSlice: %w", err)
	}
	return nil
}

// takeClaimed gives a pod the GPUs of the claim that the scheduler made for its requests.
func (k *kubelet) takeClaimed(ctx context.Context, m *member, pod *corev1.Pod) error {
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return nil
	}
	claim, err := k.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, status.ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look at the claim of %s: %w", pod.Name, err)
	}
	given := dra.GPUsOf(pod, claim, m.usable())
	k.mu.Lock()
	defer k.mu.Unlock()
	m.devices[pod.UID] = given
	return nil
}
