package kubesim

import (
	"maps"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// kept is how many changes of a resource can be watched from the past.
const kept = 1000

// change is one write: an object as it was, nil for a new one, and as it is, nil for one that
// was deleted.
type change struct {
	version  int64
	old, now *entry
}

// history has the last changes of a resource.
type history struct {
	changes []change
	lost    int64         // the version of the last change that is no longer here
	news    chan struct{} // closed by the next change; nil while nobody waits
}

func (c *objectStore) historyOf(resource string) *history {
	h := c.past[resource]
	if h == nil {
		h = &history{}
		c.past[resource] = h
	}
	return h
}

// record writes a change down, and wakes those who wait for it.
func (c *objectStore) record(ch change) {
	e := ch.now
	if e == nil {
		e = ch.old
	}
	h := c.historyOf(e.kind.id())
	if len(h.changes) >= 2*kept {
		h.lost = h.changes[kept-1].version
		h.changes = append([]change(nil), h.changes[kept:]...)
	}
	h.changes = append(h.changes, ch)
	if h.news != nil {
		close(h.news)
		h.news = nil
	}
}

// next is closed by the next change.
func (h *history) next() <-chan struct{} {
	if h.news == nil {
		h.news = make(chan struct{})
	}
	return h.news
}

// after returns the changes after a version; false if some are no longer known.
func (h *history) after(version int64) ([]change, bool) {
	if version < h.lost {
		return nil, false
	}
	i := len(h.changes)
	for i > 0 && h.changes[i-1].version > version {
		i--
	}
	return h.changes[i:], true
}

// selection says which objects of a resource a request is about.
type selection struct {
	namespace, name string
	labels          labels.Selector
	fields          fields.Selector
}

func (t target) selection() (s selection, err error) {
	s.namespace, s.name = t.namespace, t.name
	if s.labels, err = labels.Parse(t.query.Get("labelSelector")); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	if s.fields, err = fields.ParseSelector(t.query.Get("fieldSelector")); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	return s, nil
}

func (s selection) has(e *entry) bool {
	if e == nil {
		return false
	}
	u := e.u()
	return (s.namespace == "" || u.GetNamespace() == s.namespace) && (s.name == "" || u.GetName() == s.name) &&
		s.labels.Matches(labels.Set(u.GetLabels())) && matches(s.fields, e.obj)
}

// event is what a watcher of a selection sees of a change; false if nothing. An object that no
// longer matches is deleted for him, as it last was, at the version of the change.
func (s selection) event(ch change) (kind watch.EventType, obj map[string]any, seen bool) {
	before, after := s.has(ch.old), s.has(ch.now)
	switch {
	case before && after:
		return watch.Modified, ch.now.obj, true
	case after:
		return watch.Added, ch.now.obj, true
	case before:
		return watch.Deleted, withVersion(ch.old.obj, ch.version), true
	}
	return "", nil, false
}

// withVersion returns an object with another version.
func withVersion(obj map[string]any, version int64) map[string]any {
	obj = maps.Clone(obj)
	meta, _ := obj["metadata"].(map[string]any)
	obj["metadata"] = maps.Clone(meta)
	(&unstructured.Unstructured{Object: obj}).SetResourceVersion(strconv.FormatInt(version, 10))
	return obj
}

// bookmark says how far a watcher is.
func bookmark(k kind, version int64, last bool) map[string]any {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(k.GroupVersionKind)
	u.SetResourceVersion(strconv.FormatInt(version, 10))
	u.SetCreationTimestamp(metav1.Time{})
	if last {
		u.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return u.Object
}
