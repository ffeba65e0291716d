package kubesim

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/dra"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// publishDevices keeps the ResourceSlices of nodes as their DRA drivers have them. The kubelet deletes those of a
// driver that has gone.
func (c *machines) publishDevices() {
	runs := map[string]bool{}
	for _, e := range c.all("pods") {
		if p := entryAs[corev1.Pod](e); p.DeletionTimestamp == nil && control.Ready(p) && dra.IsDriver(p) {
			runs[p.Spec.NodeName] = true
		}
	}
	s := controllerStore{c: c.Cluster}
	for _, e := range c.all("nodes") {
		name := e.u().GetName()
		k := c.kubelets[name]
		if k == nil || !k.alive {
			continue
		}
		have := control.Get[resourcev1.ResourceSlice](s, "resourceslices.resource.k8s.io", "", dra.SliceName(name))
		want := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: dra.SliceName(name)}, Spec: dra.Slice(name, k.gpus())}
		switch has := runs[name] && len(want.Spec.Devices) > 0; {
		case has && have == nil:
			_ = s.Create(want)
		case has:
			want.ObjectMeta = have.ObjectMeta
			s.Update(want)
		case have != nil:
			now := int64(0)
			s.Delete(have, &now)
		}
	}
}
