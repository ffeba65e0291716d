package kueue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// queue is a ClusterQueue with one flavor.
type queue struct {
	object  *unstructured.Unstructured
	cohort  string
	flavor  string
	nominal map[string]int64
	limit   map[string]int64 // of borrowing; without an entry: none
	reclaim bool
	why     string // it is not active; "" if it is
	used    map[string]int64
	pending int64
}

// door is a LocalQueue.
type door struct {
	object *unstructured.Unstructured
	queue  string
	used   int64
}

// load is a Workload.
type load struct {
	object   *unstructured.Unstructured
	door     string // namespace/name of its LocalQueue
	queue    string // the ClusterQueue that has admitted it; "": none
	requests map[string]int64
	claims   []corev1.PodResourceClaim
	done     bool
}

func amount(v any) int64 {
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return 0 // the definition does not let it in
	}
	return q.Value()
}

func readQueue(u *unstructured.Unstructured, flavors map[string]bool) *queue {
	q := &queue{object: u, cohort: object.Text(u, "spec", "cohortName"), nominal: map[string]int64{}, limit: map[string]int64{}, used: map[string]int64{}}
	q.reclaim = object.Text(u, "spec", "preemption", "reclaimWithinCohort") == "Any"
	groups, _, _ := unstructured.NestedSlice(u.Object, "spec", "resourceGroups")
	for _, g := range groups {
		list, _, _ := unstructured.NestedSlice(g.(map[string]any), "flavors")
		for _, f := range list {
			q.flavor, _, _ = unstructured.NestedString(f.(map[string]any), "name")
			quotas, _, _ := unstructured.NestedSlice(f.(map[string]any), "resources")
			for _, r := range quotas {
				one := r.(map[string]any)
				name := fmt.Sprint(one["name"])
				q.nominal[name] = amount(one["nominalQuota"])
				if limit, has := one["borrowingLimit"]; has {
					q.limit[name] = amount(limit)
				}
			}
		}
	}
	switch {
	case u.GetDeletionTimestamp() != nil:
		q.why = "Can't admit new workloads; clusterQueue is terminating"
	case !flavors[q.flavor]:
		q.why = fmt.Sprintf("Can't admit new workloads: references missing ResourceFlavor(s): %s.", q.flavor)
	}
	return q
}

func readDoor(u *unstructured.Unstructured) *door {
	return &door{object: u, queue: object.Text(u, "spec", "clusterQueue")}
}

func readLoad(u *unstructured.Unstructured, w *world) *load {
	l := &load{object: u, door: u.GetNamespace() + "/" + object.Text(u, "spec", "queueName"), requests: map[string]int64{}}
	l.done = object.IsTrue(u, "Finished")
	if object.IsTrue(u, "QuotaReserved") {
		l.queue = object.Text(u, "status", "admission", "clusterQueue")
	}
	for _, owner := range u.GetOwnerReferences() {
		o := w.objects[string(owner.UID)]
		if o == nil {
			continue
		}
		template, count := podsOf(o)
		l.claims = template.ResourceClaims
		for name, n := range requestsOf(template) {
			if w.counted(name) {
				l.requests[name] = n * count
			}
		}
	}
	return l
}

// requestsOf is what a pod requests. A limit of an extended resource is its request.
func requestsOf(spec *corev1.PodSpec) map[string]int64 {
	out := map[string]int64{}
	for _, c := range spec.Containers {
		for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			for name, q := range list {
				out[string(name)] = max(out[string(name)], q.Value())
			}
		}
	}
	return out
}

// count adds up what the queues use.
func (w *world) count() {
	for _, l := range w.loads {
		q := w.queues[l.queue]
		if l.done || q == nil {
			continue
		}
		for name, n := range l.requests {
			q.used[name] += n
			if d := w.doors[l.door]; d != nil {
				d.used += n
			}
		}
	}
}

// left is what a cohort has of a resource, less what it uses.
func (w *world) left(q *queue, name string) (left, most int64) {
	for _, other := range w.queues {
		if other == q || q.cohort != "" && other.cohort == q.cohort {
			left += other.nominal[name] - other.used[name]
			most += other.nominal[name]
		}
	}
	if limit, limited := q.limit[name]; limited || q.cohort == "" {
		left = min(left, q.nominal[name]+limit-q.used[name])
		most = min(most, q.nominal[name]+limit)
	}
	return left, most
}

// fits says why a load does not fit into a queue, in Kueue's words; "" if it does. short is what it lacks
// of its queue's own part, by resource, where others have borrowed that.
func (w *world) fits(q *queue, l *load) (why string, short map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(l.requests)) {
		n := l.requests[name]
		if n == 0 {
			continue
		}
		if _, covered := q.nominal[name]; !covered {
			return "resource " + name + " unavailable in ClusterQueue", nil
		}
		left, most := w.left(q, name)
		switch {
		case n > most:
			return fmt.Sprintf("insufficient quota for %s in flavor %s, previously considered podsets requests (0) + current podset request (%d) > maximum capacity (%d)",
				name, q.flavor, n, most), nil
		case n > left:
			if q.used[name]+n <= q.nominal[name] {
				short = map[string]int64{name: n - left}
			}
			return fmt.Sprintf("insufficient unused quota for %s in flavor %s, %d more needed", name, q.flavor, n-left), short
		}
	}
	return "", nil
}

// borrows reports whether a load would take its queue above its own part.
func (q *queue) borrows(l *load) bool {
	for name, n := range l.requests {
		if q.used[name]+n > q.nominal[name] {
			return true
		}
	}
	return false
}

// waiting are the loads that wait, in the order in which their turn comes.
func (w *world) waiting() []*load {
	var out []*load
	for _, l := range w.loads {
		d := w.doors[l.door]
		if l.done || l.queue != "" || d == nil || w.queues[d.queue] == nil || l.object.GetDeletionTimestamp() != nil {
			continue
		}
		w.queues[d.queue].pending++
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *load) int {
		da, db := w.doors[a.door], w.doors[b.door]
		ta, tb := a.object.GetCreationTimestamp(), b.object.GetCreationTimestamp()
		return cmp.Or(later(w.queues[da.queue].borrows(a), w.queues[db.queue].borrows(b)), cmp.Compare(da.used, db.used), ta.Compare(tb.Time), cmp.Compare(key(a.object), key(b.object)))
	})
	return out
}

func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// victims are the loads of borrowers that end so that short is free, the newest first; none if they
// would not suffice.
func (w *world) victims(q *queue, short map[string]int64) []*load {
	var all, out []*load
	for _, l := range w.loads {
		if l.queue != "" && !l.done && w.queues[l.queue] != nil && w.queues[l.queue] != q {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *load) int {
		ta, tb := a.object.GetCreationTimestamp(), b.object.GetCreationTimestamp()
		return cmp.Or(tb.Compare(ta.Time), cmp.Compare(key(b.object), key(a.object)))
	})
	need, given := maps.Clone(short), map[string]int64{} // given: by queue and resource
	for _, l := range all {
		of := w.queues[l.queue]
		for name := range need {
			from := l.queue + " " + name
			if need[name] > 0 && l.requests[name] > 0 && of.used[name]-given[from] > of.nominal[name] {
				need[name] -= l.requests[name]
				given[from] += l.requests[name]
				out = append(out, l)
			}
		}
	}
	for _, n := range need {
		if n > 0 {
			return nil
		}
	}
	return out
}
