package kubesim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// manager is who writes: as the request says, or the program's name.
func (t target) manager() string {
	if m := t.query.Get("fieldManager"); m != "" {
		return m
	}
	name, _, _ := strings.Cut(t.agent, "/")
	return name
}

// apply is a server-side apply, worked out by the API server's own library.
func (c server) apply(t target, body []byte) (any, int, error) {
	if t.manager() == "" {
		return nil, 0, apierrors.NewBadRequest("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch")
	}
	obj, err := decode(body)
	if err != nil {
		return nil, 0, err
	}
	u := &unstructured.Unstructured{Object: obj}
	u.SetName(t.name)
	u.SetNamespace(t.namespace)
	live, code := c.get(t.kind, t.namespace, t.name), http.StatusOK
	before := &unstructured.Unstructured{Object: map[string]any{}}
	before.SetGroupVersionKind(t.kind.GroupVersionKind)
	if live == nil {
		code = http.StatusCreated
		if err := c.home(t.kind, u); err != nil {
			return nil, 0, err
		}
	} else {
		before = live.u().DeepCopy()
	}
	fm, err := c.fieldManager(t.kind)
	if err != nil {
		return nil, 0, err
	}
	merged, err := fm.Apply(before, u, t.manager(), t.query.Get("force") == "true")
	if err != nil {
		return nil, 0, err
	}
	after := merged.(*unstructured.Unstructured)
	if err := c.admit(t, live, after); err != nil {
		return nil, 0, err
	}
	switch {
	case live != nil && same(live.obj, after.Object):
		return live.obj, code, nil
	case t.dryRun:
		c.stamp(t.kind, live, after)
		return after.Object, code, nil
	}
	return c.store(t.kind, after.Object).obj, code, nil
}

// withManagedFields returns obj with its managed fields brought up to date after a write that
// was no apply.
func (c *objectStore) withManagedFields(k kind, before, obj map[string]any, manager string) map[string]any {
	fm, err := c.fieldManager(k)
	if err != nil {
		return obj
	}
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetGroupVersionKind(k.GroupVersionKind)
	if before != nil {
		live = (&unstructured.Unstructured{Object: before}).DeepCopy()
	}
	u := &unstructured.Unstructured{Object: obj}
	u.SetGroupVersionKind(k.GroupVersionKind)
	return fm.UpdateNoErrors(live, u, manager).(*unstructured.Unstructured).Object
}

// fieldManager works out who owns which field of a kind.
func (c *objectStore) fieldManager(k kind) (fm *managedfields.FieldManager, err error) {
	if fm = c.managers[k.GroupVersionKind]; fm != nil {
		return fm, nil
	}
	if k.custom {
		fm, err = managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(),
			plain{}, plain{}, plain{}, k.GroupVersionKind, k.GroupVersion(), "", nil)
	} else {
		fm, err = managedfields.NewDefaultFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme),
			plain{}, plain{}, plain{}, k.GroupVersionKind, k.GroupVersion(), "", nil)
	}
	if err == nil {
		c.managers[k.GroupVersionKind] = fm
	}
	return fm, err
}

// plain is the field manager's view of a server that stores every kind in one
// version and sets no defaults.
type plain struct{}

func (plain) Convert(_, _, _ any) error { return nil }

func (plain) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (plain) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (plain) Default(runtime.Object) {}

func (plain) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// patch returns an entry's object, patched.
func patch(e *entry, contentType string, body []byte) (map[string]any, error) {
	var p map[string]any
	live := runtime.DeepCopyJSON(e.obj)
	contentType, _, _ = strings.Cut(contentType, ";")
	if contentType == "application/merge-patch+json" || contentType == "application/strategic-merge-patch+json" {
		if err := json.Unmarshal(body, &p); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	switch contentType {
	case "application/json-patch+json":
		return jsonPatch(e, body)
	case "application/merge-patch+json":
		return normal(mergePatch(live, p))
	case "application/strategic-merge-patch+json":
		// Of a definition only x-kubernetes-validations is merged as a list (apiextensions/v1/types_jsonschema.go),
		// and then the patch has directives.
		if e.kind.Group == "apiextensions.k8s.io" && !bytes.Contains(body, []byte(`"$`)) {
			return normal(mergePatch(live, p))
		}
		if e.kind.custom {
			break
		}
		typ, err := scheme.Scheme.New(e.kind.GroupVersionKind)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		m, err := strategicpatch.StrategicMergeMapPatch(live, p, typ)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return normal(m)
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", e.kind.resource(), "", "the body of the request was in an unknown format: "+contentType, 0, true)
}

// jsonPatch is RFC 6902.
func jsonPatch(e *entry, body []byte) (map[string]any, error) {
	p, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	was, err := json.Marshal(e.obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	is, err := p.Apply(was)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return decode(is)
}

// mergePatch is RFC 7386.
func mergePatch(to, p map[string]any) map[string]any {
	for k, v := range p {
		inner, isMap := v.(map[string]any)
		switch {
		case v == nil:
			delete(to, k)
		case isMap:
			old, ok := to[k].(map[string]any)
			if !ok {
				old = map[string]any{}
			}
			to[k] = mergePatch(old, inner)
		default:
			to[k] = v
		}
	}
	return to
}

// normal gives numbers the types that unstructured objects have.
func normal(m map[string]any) (map[string]any, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return decode(b)
}

// admit checks an object before it is stored; live is nil for a new one.
func (c server) admit(t target, live *entry, u *unstructured.Unstructured) error {
	if live == nil {
		if err := c.home(t.kind, u); err != nil {
			return err
		}
	}
	return c.complete(t, live, u)
}

// home checks that an object's namespace is there.
func (c *Cluster) home(k kind, u *unstructured.Unstructured) error {
	if !k.namespaced {
		return nil
	}
	e := c.get(mustKind("namespaces"), "", u.GetNamespace())
	if e == nil {
		return apierrors.NewNotFound(mustKind("namespaces").resource(), u.GetNamespace())
	}
	if e.u().GetDeletionTimestamp() != nil {
		err := apierrors.NewForbidden(k.resource(), u.GetName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", u.GetNamespace()))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace",
			Message: fmt.Sprintf("namespace %s is being terminated", u.GetNamespace())}}
		return err
	}
	return nil
}

// immutable refuses changes to what cannot be changed.
func immutable(k kind, live map[string]any, u *unstructured.Unstructured) (errs field.ErrorList) {
	paths := map[string][][]string{
		"DaemonSet": {{"spec", "selector"}}, "Deployment": {{"spec", "selector"}},
		"StatefulSet": {{"spec", "selector"}, {"spec", "serviceName"}},
		"Job":         {{"spec", "selector"}, {"spec", "template"}, {"spec", "completions"}},
		"Pod":         {{"spec", "nodeName"}}, "StorageClass": {{"provisioner"}, {"parameters"}},
	}[k.Kind]
	for _, p := range paths {
		have, want := dig(live, p...), dig(u.Object, p...)
		if !equal(have, want) {
			errs = append(errs, field.Invalid(field.NewPath(p[0], p[1:]...), want, "field is immutable"))
		}
	}
	if k.Kind == "PersistentVolume" && !equal(dig(live, "spec", "csi"), dig(u.Object, "spec", "csi")) { // pkg/apis/core/validation
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	return errs
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

func text(v any) string { return fmt.Sprint(v) }

// Apply does what K3s does with a file of its manifests folder.
func (c *Cluster) applyManifest(obj map[string]any) error {
	u := &unstructured.Unstructured{Object: obj}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := find(c.kinds, func(k kind) bool { return k.GroupVersionKind == u.GroupVersionKind() })
	if !ok {
		return fmt.Errorf("no matches for kind %q in version %q", u.GetKind(), u.GetAPIVersion())
	}
	if k.namespaced && u.GetNamespace() == "" {
		u.SetNamespace(metav1.NamespaceDefault)
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	t := target{kind: k, namespace: u.GetNamespace(), name: u.GetName(), agent: "deploy@k3s", query: map[string][]string{"force": {"true"}}}
	_, _, err = server{c}.apply(t, body)
	return err
}
