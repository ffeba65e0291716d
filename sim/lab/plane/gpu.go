package plane

import (
	"context"
	"fmt"
	"maps"
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
			if err := k.publish(ctx, m); err != nil && ctx.Err() == nil {
				k.log.Info("devices of a node", "node", m.Name, "why", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// advertise writes to the Node what its device plugin registers, where it differs.
func (k *kubelet) advertise(ctx context.Context, m *member) error {
	node, err := k.objects.Get(m.Name)
	if apierrors.IsNotFound(err) { // deleted while its kubelet runs; it is recreated at the next start
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at node: %w", err)
	}
	want, registered := map[corev1.ResourceName]int64{}, false
	if plugin := k.plugin(m); plugin != nil {
		how, err := k.shares(ctx, m, node, plugin)
		if err != nil {
			return fmt.Errorf("the device plugin's configuration: %w", err)
		}
		devices, err := guest.Offer(m.GPUs(), how.strategy)
		if err != nil {
			k.log.Info("the device plugin offers nothing", "node", m.Name, "why", err)
		}
		for name, uuids := range devices {
			want[corev1.ResourceName(name)] = int64(len(uuids))
		}
		want[gpuResource] *= int64(how.times)
		registered = true
	}
	list := corev1.ResourceList{}
	for name := range node.Status.Allocatable {
		if _, still := want[name]; !still && ofNVIDIA(name) { // its plugin is gone, or registers it no longer
			want[name] = 0
		}
	}
	for name, count := range want {
		have, known := node.Status.Allocatable[name]
		if known && have.Value() == count || !known && (!registered || count == 0) {
			continue
		}
		list[name] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	if len(list) == 0 {
		return nil
	}
	patch := map[string]any{"status": map[string]any{"capacity": list, "allocatable": list}}
	_, err = patchNode(ctx, k.client, m.Name, patch, "status")
	return err
}

// ofNVIDIA reports whether a resource is of NVIDIA's device plugin.
func ofNVIDIA(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), "nvidia.com/") }

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

// requested is how many GPUs and instances a container requests, by resource.
func requested(c corev1.Container) map[corev1.ResourceName]int {
	out := map[corev1.ResourceName]int{}
	for name, q := range c.Resources.Limits {
		if n := int(q.Value()); n > 0 && ofNVIDIA(name) {
			out[name] = n
		}
	}
	return out
}

// total is the number of devices of all resources.
func total(of map[corev1.ResourceName]int) (n int) {
	for _, count := range of {
		n += count
	}
	return n
}

// allocate allocates a pod's GPUs, as the kubelet does when it admits one. If too few are free,
// it returns the kubelet's words for that.
func (k *kubelet) allocate(m *member, pod *corev1.Pod) (refused string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, has := m.devices[pod.UID]; has {
		return ""
	}
	taken := map[string]int{}
	for _, uuids := range m.devices {
		for _, uuid := range uuids {
			taken[uuid]++
		}
	}
	devices, _ := guest.Offer(m.usable(), m.shares.strategy) // of a plugin that cannot, none
	var given []string
	for _, c := range pod.Spec.Containers {
		wants := requested(c)
		for _, name := range slices.Sorted(maps.Keys(wants)) {
			list, free, ok := m.pick(devices[string(name)], name, wants[name], taken)
			if !ok {
				return fmt.Sprintf("requested number of devices unavailable for %s. Requested: %d, Available: %d", name, wants[name], free)
			}
			given = append(given, list...)
			for _, uuid := range list {
				taken[uuid]++
			}
		}
	}
	if len(given) > 0 {
		m.devices[pod.UID] = given
	}
	return ""
}

// pick chooses devices that are free.
func (m *member) pick(devices []string, name corev1.ResourceName, want int, taken map[string]int) (list []string, free int, ok bool) {
	times := 1
	if name == gpuResource {
		times = max(1, m.shares.times)
	}
	if times > 1 && want > 1 {
		return nil, 1, false // failRequestsGreaterThanOne: two shares may be of one GPU
	}
	for _, uuid := range devices {
		if taken[uuid] < times {
			list = append(list, uuid)
		}
	}
	if len(list) < want {
		return nil, len(list), false
	}
	return list[:want], len(list), true
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
		first += total(requested(c))
	}
	n := total(requested(pod.Spec.Containers[index]))
	if all := m.devices[pod.UID]; first+n <= len(all) {
		return all[first : first+n]
	}
	return nil
}
