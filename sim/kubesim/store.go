package kubesim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// entry is one stored object. It is never changed: a write stores another. Thus
// it may be read, and sent, without the lock.
type entry struct {
	kind   kind
	obj    map[string]any
	as     any // obj as its Go type, made at need under the lock
	uid    string
	owner  string   // UID of the object's controller
	owners []string // of all its owners
}

func (e *entry) u() *unstructured.Unstructured { return &unstructured.Unstructured{Object: e.obj} }

// entryAs returns an entry as its Go type, which must not be changed.
func entryAs[T any](e *entry) *T {
	if v, ok := e.as.(*T); ok {
		return v
	}
	v := new(T)
	// Stored objects of these kinds were checked on their way in.
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(e.obj, v)
	e.as = v
	return v
}

// objectStore has the objects of a cluster, and what was written last. Its caller holds the lock of the cluster.
type objectStore struct {
	objects  map[string]map[string]*entry // by resource, then by namespace and name
	past     map[string]*history          // by resource
	kinds    []kind
	managers map[schema.GroupVersionKind]*managedfields.FieldManager
	version  int64         // of the whole store, as etcd counts
	serial   int64         // of generated names
	kicked   chan struct{} // something was written
}

func newStore() objectStore {
	return objectStore{kicked: make(chan struct{}, 1), objects: map[string]map[string]*entry{}, past: map[string]*history{},
		managers: map[schema.GroupVersionKind]*managedfields.FieldManager{}, kinds: slices.Clone(builtin)}
}

func key(namespace, name string) string { return namespace + "/" + name }

func (c *objectStore) get(k kind, namespace, name string) *entry {
	return c.objects[k.id()][key(namespace, name)]
}

// all returns the entries of a resource, by namespace and name.
func (c *objectStore) all(resource string) []*entry {
	m := c.objects[resource]
	out := make([]*entry, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[key])
	}
	return out
}

// put stores obj, which it takes over, and returns its entry. The store gives the
// object what only it may: identity, versions, and the generation of its spec.
func (c *objectStore) put(k kind, obj map[string]any) *entry {
	u := &unstructured.Unstructured{Object: obj}
	old := c.get(k, u.GetNamespace(), u.GetName())
	c.stamp(k, old, u)
	c.version++
	u.SetResourceVersion(strconv.FormatInt(c.version, 10))
	if c.objects[k.id()] == nil {
		c.objects[k.id()] = map[string]*entry{}
	}
	if k.Kind == "CustomResourceDefinition" {
		establish(obj)
	}
	e := &entry{kind: k, obj: obj, uid: string(u.GetUID())}
	for _, o := range u.GetOwnerReferences() {
		e.owners = append(e.owners, string(o.UID))
		if o.Controller != nil && *o.Controller {
			e.owner = string(o.UID)
		}
	}
	c.objects[k.id()][key(u.GetNamespace(), u.GetName())] = e
	c.record(change{version: c.version, old: old, now: e})
	if k.Kind == "CustomResourceDefinition" {
		c.define(obj)
	}
	c.kick()
	return e
}

// stamp sets what the API server sets on every write.
func (c *objectStore) stamp(k kind, old *entry, u *unstructured.Unstructured) {
	u.SetGroupVersionKind(k.GroupVersionKind)
	if old == nil {
		if u.GetUID() == "" {
			u.SetUID(uuid.NewUUID())
		}
		u.SetCreationTimestamp(metav1.NewTime(time.Now().UTC().Truncate(time.Second)))
		u.SetGeneration(1)
		if !k.counted() {
			u.SetGeneration(0)
		}
		return
	}
	o := old.u()
	u.SetUID(o.GetUID())
	u.SetCreationTimestamp(o.GetCreationTimestamp())
	u.SetGeneration(o.GetGeneration())
	dying := o.GetDeletionTimestamp() == nil && u.GetDeletionTimestamp() != nil
	if k.counted() && (dying || changed(o.Object, u.Object)) {
		u.SetGeneration(o.GetGeneration() + 1)
	}
}

// remove takes an object out of the store.
func (c *objectStore) remove(e *entry) {
	u := e.u()
	c.version++
	delete(c.objects[e.kind.id()], key(u.GetNamespace(), u.GetName()))
	c.record(change{version: c.version, old: e})
	c.kick()
}

// putStatus stores an object with another status, unless it has it already.
func (c *objectStore) putStatus(e *entry, status any) *entry {
	return c.putField(e, "status", toMap(status))
}

// putField stores an object with another value of a top-level field.
func (c *objectStore) putField(e *entry, field string, value map[string]any) *entry {
	if reflect.DeepEqual(e.obj[field], value) || len(value) == 0 && e.obj[field] == nil {
		return e
	}
	obj := maps.Clone(e.obj)
	obj["metadata"] = maps.Clone(e.obj["metadata"].(map[string]any))
	obj[field] = value
	return c.put(e.kind, obj)
}

// putTyped stores a typed object.
func (c *objectStore) putTyped(k kind, v any) *entry { return c.put(k, toMap(v)) }

// toMap turns a pointer to a typed object into the mapping that is stored.
func toMap(v any) map[string]any {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		panic(fmt.Sprintf("kubesim: %T: %v", v, err)) // an object of our own making
	}
	return prune(m)
}

// prune takes out the nulls that typed objects leave.
func prune(m map[string]any) map[string]any {
	for k, v := range m {
		if v == nil {
			delete(m, k)
		} else if inner, ok := v.(map[string]any); ok {
			prune(inner)
		}
	}
	return m
}

// suffix returns the next five letters for a generated name.
func (c *objectStore) suffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	c.serial++
	n := c.serial * 7919 // so that neighbours look different
	var b [5]byte
	for i := range b {
		b[i] = letters[n%int64(len(letters))]
		n /= int64(len(letters))
	}
	return string(b[:])
}

// kick wakes the loop. The caller may hold the lock.
func (c *objectStore) kick() {
	select {
	case c.kicked <- struct{}{}:
	default:
	}
}
