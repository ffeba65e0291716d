package kubesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
)

func (c server) list(t target) (any, int, error) {
	which, err := t.selection()
	if err != nil {
		return nil, 0, err
	}
	page, err := t.page(c.version)
	if err != nil {
		return nil, 0, err
	}
	items, meta, rest := []any{}, map[string]any{"resourceVersion": text(page.Version)}, int64(0)
	for _, e := range c.all(t.kind.id()) {
		if !page.reached(e) || !which.has(e) {
			continue
		}
		if page.limit > 0 && len(items) == page.limit {
			rest++
			continue
		}
		page.Last = key(e.u().GetNamespace(), e.u().GetName())
		items = append(items, e.obj)
	}
	if rest > 0 {
		meta["continue"] = page.next()
		if t.query.Get("labelSelector") == "" && t.query.Get("fieldSelector") == "" { // with one it is not told
			meta["remainingItemCount"] = rest
		}
	}
	return map[string]any{
		"apiVersion": t.kind.GroupVersion().String(), "kind": t.kind.Kind + "List", "metadata": meta, "items": items,
	}, http.StatusOK, nil
}

// matches evaluates a field selector; the API server knows a few paths for each
// kind, we any.
func matches(s fields.Selector, obj map[string]any) bool {
	for _, r := range s.Requirements() {
		v := dig(obj, strings.Split(r.Field, ".")...)
		if v == nil {
			v = ""
		}
		equal := r.Operator != "!="
		if (text(v) == r.Value) != equal {
			return false
		}
	}
	return true
}

func (c server) create(t target, body []byte) (any, int, error) {
	obj, err := decode(body)
	if err != nil {
		return nil, 0, err
	}
	u := &unstructured.Unstructured{Object: obj}
	if t.namespace != "" {
		u.SetNamespace(t.namespace)
	}
	u.SetUID("") // given here
	u.SetResourceVersion("")
	if u.GetName() == "" && u.GetGenerateName() != "" {
		u.SetName(u.GetGenerateName() + c.suffix())
	}
	if c.get(t.kind, u.GetNamespace(), u.GetName()) != nil {
		return nil, 0, apierrors.NewAlreadyExists(t.kind.resource(), u.GetName())
	}
	if err := c.admit(t, nil, u); err != nil {
		return nil, 0, err
	}
	obj = c.withManagedFields(t.kind, nil, u.Object, t.manager())
	if t.dryRun {
		return obj, http.StatusCreated, nil
	}
	return c.put(t.kind, obj).obj, http.StatusCreated, nil
}

// replace stores obj instead of e: the end of an update and of a patch.
func (c server) replace(t target, e *entry, obj map[string]any) (any, int, error) {
	u := &unstructured.Unstructured{Object: obj}
	if rv := u.GetResourceVersion(); rv != "" && rv != e.u().GetResourceVersion() {
		return nil, 0, apierrors.NewConflict(t.kind.resource(), t.name, errStale)
	}
	if uid := u.GetUID(); uid != "" && uid != e.u().GetUID() {
		return nil, 0, apierrors.NewConflict(t.kind.resource(), t.name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, e.uid)) //nolint:staticcheck // the API server's words
	}
	return c.rewrite(t, e, u)
}

func (c server) delete(t target, e *entry, body []byte) (any, int, error) {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, 0, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != e.u().GetUID() {
		return nil, 0, apierrors.NewConflict(t.kind.resource(), t.name, errors.New("the UID in the precondition does not match"))
	}
	if err := c.admitChange(t.kind, e, nil); err != nil {
		return nil, 0, err
	}
	return c.serveDelete(t, e, options)
}

// same reports whether two versions of an object are alike.
func same(a, b map[string]any) bool {
	clean := func(m map[string]any) map[string]any {
		u := (&unstructured.Unstructured{Object: m}).DeepCopy()
		managed := u.GetManagedFields()
		for i := range managed {
			managed[i].Time = nil
		}
		u.SetManagedFields(managed)
		return u.Object
	}
	x, y := clean(a), clean(b)
	return maps.EqualFunc(x, y, func(v, w any) bool { return equal(v, w) })
}
