package kubesim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/admission"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/authority"
)

// namespaces gives each its account and the authority's certificate, and empties those that end.
func (c *Cluster) namespaces() {
	for _, e := range c.all("namespaces") {
		name := e.u().GetName()
		if e.u().GetDeletionTimestamp() != nil {
			if c.emptied(name) && len(e.u().GetFinalizers()) == 0 {
				c.remove(e)
			}
			continue
		}
		s := controllerStore{c: c}
		if c.get(mustKind("serviceaccounts"), name, "default") == nil {
			_ = s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: name}})
		}
		if c.get(mustKind("configmaps"), name, admission.RootConfigMap) == nil {
			_ = s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: admission.RootConfigMap, Namespace: name, Annotations: map[string]string{
				"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or " +
					"kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."}},
				Data: map[string]string{"ca.crt": string(authority.Encode("CERTIFICATE", c.auth.Cert.Raw))}})
		}
	}
}

// emptied deletes what is in a namespace, and reports whether nothing is left.
func (c *Cluster) emptied(namespace string) bool {
	left := false
	seen := map[string]bool{}
	for _, k := range c.kinds {
		if !k.namespaced || seen[k.id()] {
			continue
		}
		seen[k.id()] = true
		for _, e := range c.all(k.id()) {
			if e.u().GetNamespace() != namespace {
				continue
			}
			if e.u().GetDeletionTimestamp() == nil {
				e = c.erase(e, metav1.DeleteOptions{})
			}
			left = left || e != nil
		}
	}
	return !left
}

// garbage is the garbage collector: what has lost all its owners goes, and an owner that waits for
// its dependents goes after them, or without them. Definitions go after their objects.
func (c *Cluster) garbage() {
	owners := map[string]*entry{}
	dependents := map[string][]*entry{} // by UID of an owner
	for _, resource := range slices.Sorted(maps.Keys(c.objects)) {
		for _, e := range c.all(resource) {
			owners[e.uid] = e
			for _, o := range e.owners {
				dependents[o] = append(dependents[o], e)
			}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(dependents)) {
		if owners[uid] != nil {
			continue
		}
		for _, e := range dependents[uid] {
			if e.u().GetDeletionTimestamp() == nil && !slices.ContainsFunc(e.owners, func(o string) bool { return owners[o] != nil }) {
				c.erase(e, metav1.DeleteOptions{})
			}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(owners)) {
		if e := owners[uid]; e.u().GetDeletionTimestamp() != nil {
			c.letGo(e, dependents[uid])
		}
	}
}

// letGo takes the next step for an object that waits for others to go.
func (c *Cluster) letGo(e *entry, dependents []*entry) {
	finalizers := e.u().GetFinalizers()
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		for _, d := range dependents {
			u := d.u().DeepCopy()
			u.SetOwnerReferences(slices.DeleteFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return string(o.UID) == e.uid }))
			c.put(d.kind, u.Object)
		}
		c.release(e, metav1.FinalizerOrphanDependents)
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		foreground := metav1.DeletePropagationForeground
		left := false
		for _, d := range dependents {
			if d.u().GetDeletionTimestamp() == nil {
				d = c.erase(d, metav1.DeleteOptions{PropagationPolicy: &foreground})
			}
			left = left || d != nil && c.get(d.kind, d.u().GetNamespace(), d.u().GetName()) != nil
		}
		if !left {
			c.release(e, metav1.FinalizerDeleteDependents)
		}
	case slices.Contains(finalizers, crdCleanup):
		left := false
		for _, d := range c.all(e.u().GetName()) {
			if d.u().GetDeletionTimestamp() == nil {
				d = c.erase(d, metav1.DeleteOptions{})
			}
			left = left || d != nil
		}
		if !left {
			c.release(e, crdCleanup)
		}
	}
}

// release takes a finalizer from an object.
func (c *Cluster) release(e *entry, finalizer string) {
	u := e.u().DeepCopy()
	u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == finalizer }))
	c.store(e.kind, u.Object)
}
