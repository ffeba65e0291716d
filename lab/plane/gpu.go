package plane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/sim/guest"
)

// watchDevices sets each node's allocatable GPUs to what its device plugin would register: the
// GPUs that containers can use there, as long as the plugin runs.
func (k *kubelet) watchDevices(ctx context.Context) {
	tick := time.NewTicker(recheck / 2)
	defer tick.Stop()
	for {
		for _, m := range k.members() {
			if err := k.advertise(ctx, m); err != nil && ctx.Err() == nil {
				k.log.Info("GPUs of a node", "node", m.Name, "why", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// advertise writes the count to the Node if it differs.
func (k *kubelet) advertise(ctx context.Context, m *member) error {
	want, registered := int64(0), false
	if plugin := k.plugin(m); plugin != nil {
		times, err := k.shares(ctx, m, plugin)
		if err != nil {
			return fmt.Errorf("the device plugin's configuration: %w", err)
		}
		want, registered = int64(len(m.GPUs())*times), true
	}
	node, err := k.objects.Get(m.Name)
	if apierrors.IsNotFound(err) { // deleted while its kubelet runs; it is recreated at the next start
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at node: %w", err)
	}
	have, known := node.Status.Allocatable[gpuResource]
	if known && have.Value() == want || !known && (!registered || want == 0) {
		return nil
	}
	list := corev1.ResourceList{gpuResource: *resource.NewQuantity(want, resource.DecimalSI)}
	patch := map[string]any{"status": map[string]any{"capacity": list, "allocatable": list}}
	_, err = patchNode(ctx, k.client, m.Name, patch, "status")
	return err
}

// plugin returns the pod of NVIDIA's device plugin if it runs on the node and sees the driver,
// which requires the nvidia runtime.
func (k *kubelet) plugin(m *member) *corev1.Pod {
	if m.GPUs == nil {
		return nil
	}
	for _, pod := range k.podsOn(m.Name) {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || !usesNVIDIA(pod) {
			continue
		}
		for _, c := range pod.Spec.Containers {
			if strings.Contains(c.Image, "k8s-device-plugin") && !slices.Contains(c.Command, "mps-control-daemon") {
				return pod
			}
		}
	}
	return nil
}

func usesNVIDIA(pod *corev1.Pod) bool {
	return pod.Spec.RuntimeClassName != nil && *pod.Spec.RuntimeClassName == nvidiaRuntime
}

// requested is how many GPUs a container requests.
func requested(c corev1.Container) int {
	q := c.Resources.Limits[gpuResource]
	return int(q.Value())
}

// allocate allocates a pod's GPUs, as the kubelet does when it admits one. It returns how many
// were requested and free; false if there were too few.
func (k *kubelet) allocate(m *member, pod *corev1.Pod) (want, free int, ok bool) {
	for _, c := range pod.Spec.Containers {
		want += requested(c)
	}
	if want == 0 {
		return 0, 0, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, has := m.devices[pod.UID]; has {
		return want, 0, true
	}
	taken := map[string]int{}
	for _, uuids := range m.devices {
		for _, uuid := range uuids {
			taken[uuid]++
		}
	}
	times := max(1, m.shares.times)
	if times > 1 && want > 1 {
		return want, 1, false // failRequestsGreaterThanOne: two shares may be of one GPU
	}
	var list []string
	for _, gpu := range m.usable() {
		if taken[gpu.UUID] < times {
			list = append(list, gpu.UUID)
		}
	}
	if len(list) < want {
		return want, len(list), false
	}
	m.devices[pod.UID] = list[:want]
	return want, len(list), true
}

func (m *member) usable() []guest.GPU {
	if m.GPUs == nil {
		return nil
	}
	return m.GPUs()
}

// visible are the GPUs of a container, in the order of its pod's containers.
func (k *kubelet) visible(m *member, pod *corev1.Pod, index int) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := 0
	for _, c := range pod.Spec.Containers[:index] {
		first += requested(c)
	}
	n := requested(pod.Spec.Containers[index])
	if all := m.devices[pod.UID]; first+n <= len(all) {
		return all[first : first+n]
	}
	return nil
}

func admissionMessage(want, free int) string {
	return fmt.Sprintf("requested number of devices unavailable for %s. Requested: %d, Available: %d", gpuResource, want, free)
}
