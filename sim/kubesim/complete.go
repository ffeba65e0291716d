package kubesim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/admission"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/defaults"
)

// rewrite stores an object instead of e as a control plane does: status and the rest are written
// apart, defaults are filled in, and an object that was only waiting for its finalizers goes.
func (c server) rewrite(t target, e *entry, u *unstructured.Unstructured) (any, int, error) {
	u.SetName(t.name)
	u.SetNamespace(t.namespace)
	was := e.u()
	u.SetDeletionTimestamp(was.GetDeletionTimestamp())
	u.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
	switch {
	case t.sub == "status":
		obj := maps.Clone(e.obj)
		obj["metadata"], obj["status"] = u.Object["metadata"], u.Object["status"]
		u.Object = obj
	case c.hasStatus(t.kind):
		u.Object["status"] = e.obj["status"]
	}
	prune(u.Object)
	if t.sub == "" {
		if err := c.admitChange(t.kind, e, u.Object); err != nil {
			return nil, 0, err
		}
	}
	if err := c.admit(t, e, u); err != nil {
		return nil, 0, err
	}
	obj := u.Object
	if t.sub == "" {
		obj = c.withManagedFields(t.kind, e.obj, obj, t.manager())
	} else if managed := was.GetManagedFields(); len(managed) > 0 {
		u.SetManagedFields(managed)
	}
	switch {
	case t.dryRun:
		return obj, http.StatusOK, nil
	case same(e.obj, obj):
		return e.obj, http.StatusOK, nil
	}
	return c.store(t.kind, obj).obj, http.StatusOK, nil
}

// store is put for what a client writes: an object that waited for its last finalizer goes.
func (c *Cluster) store(k kind, obj map[string]any) *entry {
	e := c.put(k, obj)
	u := e.u()
	grace := u.GetDeletionGracePeriodSeconds()
	if u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0 && (grace == nil || *grace == 0) && k.id() != "namespaces" {
		c.purge(e)
	}
	return e
}

// hasStatus reports whether a kind's status is written apart from the rest.
func (c *objectStore) hasStatus(k kind) bool {
	if !k.custom {
		typ, ok := scheme.Scheme.AllKnownTypes()[k.GroupVersionKind]
		if !ok || k.Kind == "CSINode" { // the types are of 1.37, where it has a status; the API is of 1.36
			return false
		}
		_, has := typ.FieldByName("Status")
		return has
	}
	e := c.get(crds[0], "", k.id())
	if e == nil {
		return true
	}
	versions, _ := dig(e.obj, "spec", "versions").([]any)
	for _, v := range versions {
		if dig(v, "name") == k.Version {
			return dig(v, "subresources", "status") != nil
		}
	}
	return false
}

// complete checks an object and fills in what the API server and its admission fill in.
func (c server) complete(t target, live *entry, u *unstructured.Unstructured) error {
	k := t.kind
	if live == nil && c.hasStatus(k) && k.Kind != "Node" && k.Kind != "CustomResourceDefinition" {
		delete(u.Object, "status")
	}
	if live == nil {
		if err := c.admitOutside(k, u); err != nil {
			return err
		}
	}
	if k.custom {
		if live != nil {
			return nil
		}
		return validName(k, u.GetName())
	}
	typ, err := scheme.Scheme.New(k.GroupVersionKind)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, typ, t.query.Get("fieldValidation") == metav1.FieldValidationStrict); err != nil {
		if runtime.IsStrictDecodingError(err) {
			return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", k.Kind, k.Version, k.Kind, err))
		}
		if b, e := json.Marshal(u.Object); e == nil {
			if e := json.Unmarshal(b, typ); e != nil {
				err = e // it says where
			}
		}
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", k.Kind, k.Version, k.Kind, err))
	}
	defaults.Set(typ)
	if live == nil {
		if err := validName(k, u.GetName()); err != nil {
			return err
		}
		if p, pod := typ.(*corev1.Pod); pod {
			if err := c.guardGPUs(p); err != nil {
				return err
			}
		}
		if err := c.admission().New(typ); err != nil {
			return err
		}
	} else if s, ok := typ.(*corev1.Service); ok {
		if err := c.admission().Allocate(s, entryAs[corev1.Service](live)); err != nil {
			return err
		}
	}
	errs := admission.WellFormed(typ)
	u.Object = toMap(typ)
	u.SetGroupVersionKind(k.GroupVersionKind)
	if live != nil && t.sub == "" && !waiting(live) {
		errs = append(errs, immutable(k, live.obj, u)...)
	}
	claim, is := typ.(*corev1.PersistentVolumeClaim)
	if !is || live == nil || t.sub != "" {
		return invalid(k, u.GetName(), errs)
	}
	was := entryAs[corev1.PersistentVolumeClaim](live)
	if err := invalid(k, u.GetName(), append(errs, admission.SizeErrors(claim, was)...)); err != nil {
		return err
	}
	return c.admission().Grow(claim, was)
}

// waiting reports whether a Job is suspended and was never started: it may still be changed, see
// Kueue (validationOptionsForJob of pkg/registry/batch/job/strategy.go).
func waiting(e *entry) bool {
	if e.kind.Kind != "Job" {
		return false
	}
	j := entryAs[batchv1.Job](e)
	return j.Spec.Suspend != nil && *j.Spec.Suspend && j.Status.StartTime == nil
}

// admitOutside asks those who play webhooks and policies.
func (c *Cluster) admitOutside(k kind, u *unstructured.Unstructured) error {
	if c.outside.Admit == nil {
		return nil
	}
	u.SetGroupVersionKind(k.GroupVersionKind)
	err := c.outside.Admit(u.Object, func(resource, namespace, name string) map[string]any {
		if e := c.objects[resource][key(namespace, name)]; e != nil {
			return e.obj
		}
		return nil
	})
	if err != nil {
		return apierrors.NewForbidden(k.resource(), u.GetName(), err)
	}
	return nil
}

// admitChange asks those who play webhooks about a change, or a deletion.
func (c *Cluster) admitChange(k kind, e *entry, obj map[string]any) error {
	if c.outside.AdmitChange == nil {
		return nil
	}
	if err := c.outside.AdmitChange(e.obj, obj); err != nil {
		return apierrors.NewForbidden(k.resource(), e.u().GetName(), err)
	}
	return nil
}

func validName(k kind, name string) error {
	if k.Group == "rbac.authorization.k8s.io" || k.custom && k.Kind != "CustomResourceDefinition" {
		return nil
	}
	if name == "" {
		return apierrors.NewInvalid(k.GroupKind(), "", field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")})
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return apierrors.NewInvalid(k.GroupKind(), name, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, strings.Join(problems, ", "))})
	}
	return nil
}

func invalid(k kind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(k.GroupKind(), name, errs)
}

// counted reports whether a kind's objects have a generation: those whose strategy sets one
// (pkg/registry), and custom ones.
func (k kind) counted() bool {
	switch k.Group {
	case "":
		return k.Kind == "Pod"
	case "rbac.authorization.k8s.io", "coordination.k8s.io", "node.k8s.io", "storage.k8s.io":
		return false
	}
	return true
}

// changed reports whether two versions of an object differ in more than metadata and status.
func changed(a, b map[string]any) bool {
	rest := func(m map[string]any) map[string]any {
		m = maps.Clone(m)
		for _, k := range []string{"metadata", "status", "apiVersion", "kind"} {
			delete(m, k)
		}
		return m
	}
	return !reflect.DeepEqual(rest(a), rest(b))
}
