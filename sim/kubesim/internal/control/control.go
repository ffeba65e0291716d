// Package control is what kube-controller-manager does with workloads, nodes, volumes and
// Services: each controller compares what is wanted with what is there and takes the next step.
// It knows no API server: it works on a [Store].
package control

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Store is where the objects are. What it returns must not be changed.
type Store interface {
	// All returns the objects of a resource and its group, such as "jobs.batch", each of the type that
	// fresh returns.
	All(resource string, fresh func() any) []any
	Get(resource, namespace, name string, fresh func() any) any // nil: there is none
	Create(obj metav1.Object) error
	Update(obj metav1.Object)               // all but the status
	Status(obj metav1.Object)               // only the status
	Delete(obj metav1.Object, grace *int64) // grace 0: at once
	Event(about metav1.Object, kind, reason, message string)
	WakeAfter(d time.Duration) // look again then
	Suffix() string            // of the next generated name
}

// Controllers are those of one cluster.
type Controllers struct {
	Store
	Pods []netip.Prefix // of all nodes, one or one of each family; empty: nodes get none

	ready  map[string]bool      // nodes that were, when last looked at
	absent map[string]time.Time // since when pods are bound to nodes that are not there
}

// Run takes the next step of everything.
func (c *Controllers) Run() {
	pods := c.pods()
	c.cronJobs()
	c.jobs(pods)
	c.deployments()
	c.replicaSets(pods)
	c.statefulSets(pods)
	c.daemonSets(pods)
	c.claims(pods)
	c.nodes(pods)
	c.endpoints(pods)
}

// All returns the objects of a resource.
func All[T any](s Store, resource string) []*T {
	list := s.All(resource, func() any { return new(T) })
	out := make([]*T, len(list))
	for i := range list {
		out[i] = list[i].(*T)
	}
	return out
}

// Get returns an object, or nil.
func Get[T any](s Store, resource, namespace, name string) *T {
	v, _ := s.Get(resource, namespace, name, func() any { return new(T) }).(*T)
	return v
}

// podIndex has the pods by the object that controls them, and by their nodes.
type podIndex struct {
	all     []*corev1.Pod
	byOwner map[types.UID][]*corev1.Pod
	onNode  map[string][]*corev1.Pod
}

func (c *Controllers) pods() podIndex {
	x := podIndex{all: All[corev1.Pod](c, "pods"), byOwner: map[types.UID][]*corev1.Pod{}, onNode: map[string][]*corev1.Pod{}}
	for _, p := range x.all {
		if o := metav1.GetControllerOfNoCopy(p); o != nil {
			x.byOwner[o.UID] = append(x.byOwner[o.UID], p)
		}
		if p.Spec.NodeName != "" {
			x.onNode[p.Spec.NodeName] = append(x.onNode[p.Spec.NodeName], p)
		}
	}
	return x
}

// Ended reports whether all containers of a pod have ended for good.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// active reports whether a pod counts: it has not ended, and nobody ends it.
func active(p *corev1.Pod) bool { return !Ended(p) && p.DeletionTimestamp == nil }

func readyCondition(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodReady {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// Ready reports whether a pod is.
func Ready(p *corev1.Pod) bool {
	cond := readyCondition(p)
	return cond != nil && cond.Status == corev1.ConditionTrue
}

// available reports whether a pod has been ready for a while.
func (c *Controllers) available(p *corev1.Pod, seconds int32) bool {
	if !Ready(p) {
		return false
	}
	if left := time.Until(readyCondition(p).LastTransitionTime.Add(time.Duration(seconds) * time.Second)); seconds > 0 && left > 0 {
		c.WakeAfter(left)
		return false
	}
	return true
}

// hashOf is a short name for a template's content.
func hashOf(t *corev1.PodTemplateSpec) string {
	h := fnv.New32a()
	b, _ := t.Marshal() // to memory
	_, _ = h.Write(b)
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

func controlledBy(owner metav1.Object, apiVersion, kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes}}
}

// newPod is a pod of a template.
func newPod(owner metav1.Object, apiVersion, kind, name string, t *corev1.PodTemplateSpec) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.GetNamespace(), Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations),
		Finalizers: slices.Clone(t.Finalizers), OwnerReferences: controlledBy(owner, apiVersion, kind)}, Spec: *t.Spec.DeepCopy()}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	return p
}

// create makes a pod, and says so.
func (c *Controllers) create(owner metav1.Object, p *corev1.Pod) bool {
	if err := c.Create(p); err != nil {
		c.Event(owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: "+err.Error())
		return false
	}
	c.Event(owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+p.Name)
	return true
}

func (c *Controllers) delete(owner metav1.Object, p *corev1.Pod) {
	c.Delete(p, nil)
	c.Event(owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+p.Name)
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

// firstToGo orders pods by how little is lost with them: not on a node, not running, not ready,
// the newest (ActivePodsWithRanks of pkg/controller/controller_utils.go).
func firstToGo(a, b *corev1.Pod) int {
	rank := func(p *corev1.Pod) int {
		switch {
		case p.Spec.NodeName == "":
			return 0
		case p.Status.Phase == corev1.PodPending:
			return 1
		case !Ready(p):
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
}

// Selects reports whether a selector matches labels. One that is not valid matches none.
func Selects(s *metav1.LabelSelector, set map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && sel.Matches(labels.Set(set))
}
