package kubesim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/admission"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/defaults"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/schedule"
)

const (
	settleAlone    = 20 * time.Millisecond // changes come in bursts
	lookAgainAlone = time.Minute
	eventTime      = time.Hour // an event is kept: --event-ttl
	crdCleanup     = "customresourcecleanup.apiextensions.k8s.io"
)

func (c *Cluster) scheduler() schedule.Scheduler {
	return schedule.Scheduler{Store: controllerStore{c: c, component: corev1.DefaultSchedulerName}}
}

// admission checks new objects. The lock is held.
func (c *Cluster) admission() admission.Admission {
	return admission.Admission{Store: controllerStore{c: c}, Services: networks(c.cfg.ServiceCIDR, c.cfg.SecondCIDRs[0])}
}

// controllerStore is what the controllers see of a cluster. The lock is held.
type controllerStore struct {
	c         *Cluster
	component string // who writes events; empty: the controller of what they are about
}

// All implements control.Store.
func (s controllerStore) All(resource string, fresh func() any) []any {
	list := s.c.all(resource)
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = e.asType(fresh)
	}
	return out
}

// Get implements control.Store.
func (s controllerStore) Get(resource, namespace, name string, fresh func() any) any {
	e := s.c.objects[resource][key(namespace, name)]
	if e == nil {
		return nil
	}
	return e.asType(fresh)
}

func (s controllerStore) find(obj metav1.Object) (kind, *entry) {
	gvks, _, err := scheme.Scheme.ObjectKinds(obj.(runtime.Object))
	if err != nil {
		panic(fmt.Sprintf("kubesim: %T: %v", obj, err)) // a type of our own choice
	}
	k, _ := find(builtin, func(k kind) bool { return k.GroupVersionKind == gvks[0] })
	return k, s.c.get(k, obj.GetNamespace(), obj.GetName())
}

// Create implements control.Store.
func (s controllerStore) Create(obj metav1.Object) error {
	k, e := s.find(obj)
	if e != nil {
		return apierrors.NewAlreadyExists(k.resource(), obj.GetName())
	}
	if p, pod := obj.(*corev1.Pod); pod {
		if err := s.c.guardGPUs(p); err != nil {
			return err
		}
	}
	if s.c.outside.Admit != nil {
		u := &unstructured.Unstructured{Object: toMap(obj)}
		if err := s.c.admitOutside(k, u); err != nil {
			return err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			return err
		}
	}
	defaults.Set(obj)
	if err := s.c.home(k, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": obj.GetNamespace()}}}); err != nil {
		return err
	}
	if err := s.c.admission().New(obj); err != nil {
		return err
	}
	e = s.c.put(k, toMap(obj))
	return runtime.DefaultUnstructuredConverter.FromUnstructured(e.obj, obj)
}

// Update implements control.Store.
func (s controllerStore) Update(obj metav1.Object) {
	k, e := s.find(obj)
	if e == nil || e.uid != string(obj.GetUID()) || equality.Semantic.DeepEqual(e.as, obj) {
		return
	}
	m := toMap(obj)
	m["apiVersion"], m["kind"], m["status"] = e.obj["apiVersion"], e.obj["kind"], e.obj["status"]
	if prune(m); !same(e.obj, m) {
		s.c.store(k, m)
	}
}

// Status implements control.Store.
func (s controllerStore) Status(obj metav1.Object) {
	if _, e := s.find(obj); e != nil && e.uid == string(obj.GetUID()) && !equality.Semantic.DeepEqual(e.as, obj) {
		status, _ := toMap(obj)["status"].(map[string]any)
		s.c.putField(e, "status", status)
	}
}

// Delete implements control.Store.
func (s controllerStore) Delete(obj metav1.Object, grace *int64) {
	if _, e := s.find(obj); e != nil && e.uid == string(obj.GetUID()) {
		s.c.erase(e, metav1.DeleteOptions{GracePeriodSeconds: grace})
	}
}

// Event implements control.Store.
func (s controllerStore) Event(about metav1.Object, kind, reason, message string) {
	if k, e := s.find(about); e != nil {
		component := map[string]string{"Deployment": "deployment-controller", "ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller",
			"DaemonSet": "daemonset-controller", "Job": "job-controller", "CronJob": "cronjob-controller", "PersistentVolumeClaim": "persistentvolume-controller",
			"Node": "node-controller", "Pod": "taint-eviction-controller"}[k.Kind]
		if s.component != "" {
			component = s.component
		}
		s.c.note(e, component, kind, reason, message)
	}
}

// WakeAfter implements control.Store.
func (s controllerStore) WakeAfter(d time.Duration) { s.c.wake(time.Now().Add(d)) }

// Suffix implements control.Store.
func (s controllerStore) Suffix() string { return s.c.suffix() }

// asType is entryAs for a type that only fresh knows.
func (e *entry) asType(fresh func() any) any {
	if e.as == nil {
		v := fresh()
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(e.obj, v) // it was checked on its way in
		e.as = v
	}
	return e.as
}

// note writes an event about an object. The same again within a minute is not worth a word.
func (c *Cluster) note(about *entry, component, kind, reason, message string) {
	u := about.u()
	namespace := u.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, about.uid, component, reason, message)
	name := fmt.Sprintf("%s.%016x", u.GetName(), h.Sum64())
	now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	if e := c.get(mustKind("events"), namespace, name); e != nil {
		again := entryAs[corev1.Event](e).DeepCopy()
		if now.Sub(again.LastTimestamp.Time) >= time.Minute {
			again.Count++
			again.LastTimestamp = now
			c.putTyped(mustKind("events"), again)
		}
		return
	}
	if home := c.get(mustKind("namespaces"), "", namespace); home == nil || home.u().GetDeletionTimestamp() != nil {
		return
	}
	c.putTyped(mustKind("events"), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(),
			UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()},
		Reason: reason, Message: message, Type: kind, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
	})
}

func (c *Cluster) forgetEvents() {
	for _, e := range c.all("events") {
		last := entryAs[corev1.Event](e).LastTimestamp.Time
		if last.IsZero() {
			last = e.u().GetCreationTimestamp().Time
		}
		if time.Since(last) > eventTime {
			c.remove(e)
		}
	}
}

// budgets says how many pods of each disruption budget may go.
func (c *Cluster) budgets() {
	for _, e := range c.all("poddisruptionbudgets.policy") {
		b := entryAs[policyv1.PodDisruptionBudget](e).DeepCopy()
		healthy, needed := c.budget(b)
		s := &b.Status
		s.ObservedGeneration = b.Generation
		s.CurrentHealthy, s.DesiredHealthy = int32(healthy), int32(needed) //nolint:gosec // counts of pods
		s.DisruptionsAllowed = max(0, s.CurrentHealthy-s.DesiredHealthy)
		s.ExpectedPods = 0
		for _, pe := range c.all("pods") {
			if p := entryAs[corev1.Pod](pe); p.Namespace == b.Namespace && !control.Ended(p) && b.Spec.Selector != nil && control.Selects(b.Spec.Selector, p.Labels) {
				s.ExpectedPods++
			}
		}
		allow(b)
		c.putStatus(e, s)
	}
}

// allow says in words whether a pod of a budget may go.
func allow(b *policyv1.PodDisruptionBudget) {
	cond := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionTrue, Reason: policyv1.SufficientPodsReason, ObservedGeneration: b.Generation}
	if b.Status.DisruptionsAllowed <= 0 {
		cond.Status, cond.Reason = metav1.ConditionFalse, policyv1.InsufficientPodsReason
	}
	meta.SetStatusCondition(&b.Status.Conditions, cond)
}

// make creates an object of our own making.
func (c *Cluster) make(obj metav1.Object) { _ = controllerStore{c: c}.Create(obj) }

// populate makes what a control plane makes by itself, and with nodes what K3s brings.
func (c *Cluster) populate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		c.make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	c.namespaces()
	c.make(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2000001000,
		Description: "Used for system critical pods that must not be moved from their current node."})
	c.make(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-cluster-critical"}, Value: 2000000000,
		Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."})
	c.make(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}})
	c.make(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: metav1.NamespaceDefault,
		Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"}},
		Spec: corev1.ServiceSpec{ClusterIP: c.cfg.ServiceCIDR.Masked().Addr().Next().String(),
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(6443)}}}})
	if c.plays {
		c.populateK3s()
	}
}

func (c *Cluster) populateK3s() {
	if !slices.Contains(c.cfg.Disable, "local-storage") {
		wait, del := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
		c.make(&storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "local-path", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: localPath, VolumeBindingMode: &wait, ReclaimPolicy: &del,
		})
	}
	if !slices.Contains(c.cfg.Disable, "traefik") {
		c.make(&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "traefik"},
			Spec: networkingv1.IngressClassSpec{Controller: "traefik.io/ingress-controller"}})
	}
	for _, name := range []string{"nvidia", "nvidia-experimental"} {
		c.make(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name})
	}
}
