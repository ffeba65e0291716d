package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cps-gpu/homelab/converge"
)

// fieldManager is the field manager under which this package applies objects. Fields that it set
// earlier and no longer sets are removed; all other fields stay.
const fieldManager = "homelab"

// Result is the outcome of applying an object.
type Result string

// The results.
const (
	Created    Result = "created"
	Configured Result = "configured"
	Unchanged  Result = "unchanged"
)

// Change is an object and the outcome of applying it.
type Change struct {
	Ref    Ref    `json:"object"`
	Result Result `json:"result"`
}

// String returns e.g. "daemonset kube-system/x configured".
func (c Change) String() string { return c.Ref.String() + " " + string(c.Result) }

// parallel is how many objects are read or written at a time.
const parallel = 8

// Apply applies objs by server-side apply and reports the outcome for each, in the given
// order. It does not write unchanged objects. Namespaces and definitions of kinds are written
// first, then what pods refer to, then the rest.
func (c *Client) Apply(ctx context.Context, objs ...runtime.Object) ([]Change, error) {
	changes := make([]Change, len(objs))
	err := eachOrdered(ctx, objs, func(ctx context.Context, i int, u *unstructured.Unstructured) error {
		s, err := c.compare(ctx, u)
		if err != nil {
			return namingObject("apply", u, err)
		}
		changes[i] = Change{Ref: s.ref, Result: s.result()}
		if changes[i].Result == Unchanged {
			return nil
		}
		_, err = c.ssa(ctx, s.path, u, false)
		return err
	})
	return changes, err
}

// Diff says how the cluster differs from objs: it asks the API server for a server-side apply
// as a dry run.
func (c *Client) Diff(ctx context.Context, objs ...runtime.Object) (converge.Diff, error) {
	diffs := make([]converge.Diff, len(objs))
	err := eachOrdered(ctx, objs, func(ctx context.Context, i int, u *unstructured.Unstructured) error {
		s, err := c.compare(ctx, u)
		var noKind *NoKindError
		switch {
		case errors.As(err, &noKind):
			diffs[i] = converge.Diff{{Path: refOf(u).path(), Want: "new", Effect: converge.Create, Note: err.Error()}}
			return nil
		case errors.Is(err, ErrInvalid) && s.live != nil:
			diffs[i] = converge.Diff{{Path: s.ref.path(), Have: "live object", Want: "wanted object", Effect: converge.Replace, Note: reason(err)}}
			return nil
		case err != nil:
			return namingObject("compare", u, err)
		}
		diffs[i] = s.diff()
		return nil
	})
	var all converge.Diff
	for _, d := range diffs {
		all = append(all, d...)
	}
	return all, err
}

// namingObject names the object of an error, unless the error already does.
func namingObject(doing string, u *unstructured.Unstructured, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s %s: %w", doing, refOf(u), err)
}

// comparison is an object as it is, and as it would be once applied.
type comparison struct {
	ref         Ref
	path        string
	manager     string
	live, after *unstructured.Unstructured // live is nil when it is not there
}

func (c *api) compare(ctx context.Context, u *unstructured.Unstructured) (comparison, error) {
	p, err := c.place(ctx, u)
	s := comparison{ref: refOf(u), path: p, manager: c.manager}
	if err != nil {
		return s, err
	}
	live := &unstructured.Unstructured{}
	err = c.do(ctx, request{doing: "read " + s.ref.String(), path: p}, &live.Object)
	if errors.Is(err, ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.live = live
	s.after, err = c.ssa(ctx, p, u, true)
	return s, err
}

// ssa applies u, or asks the API server for the result of applying it.
func (c *api) ssa(ctx context.Context, path string, u *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	query := url.Values{"fieldManager": {c.manager}, "force": {"true"}}
	if dryRun {
		query.Set("dryRun", metav1.DryRunAll)
	}
	after := &unstructured.Unstructured{}
	err := c.do(ctx, request{doing: "apply " + refOf(u).String(), verb: http.MethodPatch, path: path, query: query,
		kind: string(types.ApplyYAMLPatchType), body: u.Object}, &after.Object)
	return after, err
}

func (s comparison) result() Result {
	switch {
	case s.live == nil:
		return Created
	case s.isUnchanged():
		return Unchanged
	}
	return Configured
}

// isUnchanged reports whether applying changes nothing: no field, and no ownership of a field.
// Ownership matters because a field that we do not own is not removed when we stop setting it.
func (s comparison) isUnchanged() bool {
	return reflect.DeepEqual(stableFields(s.live), stableFields(s.after)) && s.ownFields(s.live) == s.ownFields(s.after)
}

// stableFields returns u without the fields that change by themselves.
func stableFields(u *unstructured.Unstructured) map[string]any {
	m := runtime.DeepCopyJSON(u.Object)
	delete(m, "status")
	if meta, ok := m["metadata"].(map[string]any); ok {
		for _, k := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(meta, k)
		}
		if notes, ok := meta["annotations"].(map[string]any); ok {
			// The API server counts here too.
			delete(notes, appsv1.DeprecatedTemplateGeneration)
			if len(notes) == 0 {
				delete(meta, "annotations")
			}
		}
	}
	return m
}

// ownFields returns the fields of u that belong to the manager that we apply under.
func (s comparison) ownFields(u *unstructured.Unstructured) string {
	for _, e := range u.GetManagedFields() {
		if e.Manager == s.manager && e.Operation == metav1.ManagedFieldsOperationApply && e.FieldsV1 != nil {
			b, _ := json.Marshal(e.FieldsV1)
			return string(b)
		}
	}
	return ""
}

// eachOrdered calls do for every object, dependencies first.
func eachOrdered(ctx context.Context, objs []runtime.Object, do func(context.Context, int, *unstructured.Unstructured) error) error {
	stages := make([][]int, 3)
	plains := make([]*unstructured.Unstructured, len(objs))
	for i, o := range objs {
		u, err := plain(o)
		if err != nil {
			return err
		}
		plains[i] = u
		stages[stage(u.GetKind())] = append(stages[stage(u.GetKind())], i)
	}
	for _, indexes := range stages {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(parallel)
		for _, i := range indexes {
			g.Go(func() error { return do(ctx, i, plains[i]) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func stage(kind string) int {
	switch kind {
	case "Namespace", "CustomResourceDefinition":
		return 0
	case "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret",
		"StorageClass", "PersistentVolume", "PersistentVolumeClaim", "PriorityClass", "RuntimeClass", "Service",
		"ResourceQuota", "LimitRange":
		return 1
	}
	return 2
}

// Get reads the object with out's kind, namespace and name into out. The error is
// [ErrNotFound] if it does not exist.
func (c *Client) Get(ctx context.Context, out runtime.Object) error {
	u, err := plain(out)
	if err != nil {
		return err
	}
	p, err := c.place(ctx, u)
	if err != nil {
		return namingObject("read", u, err)
	}
	var live map[string]any
	if err := c.do(ctx, request{doing: "read " + refOf(u).String(), path: p}, &live); err != nil {
		return err
	}
	if to, ok := out.(*unstructured.Unstructured); ok {
		to.Object = live
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live, out); err != nil {
		return fmt.Errorf("read %s: %w", refOf(u), err)
	}
	return nil
}

// Delete deletes objs, the last one first, and afterwards what they own. A missing object or
// kind is not an error. It does not wait until they are gone.
func (c *Client) Delete(ctx context.Context, objs ...runtime.Object) error {
	for i := len(objs) - 1; i >= 0; i-- {
		u, err := plain(objs[i])
		if err != nil {
			return err
		}
		p, err := c.place(ctx, u)
		var noKind *NoKindError
		if errors.As(err, &noKind) {
			continue
		}
		if err != nil {
			return namingObject("delete", u, err)
		}
		background := metav1.DeletePropagationBackground
		err = c.do(ctx, request{doing: "delete " + refOf(u).String(), verb: http.MethodDelete, path: p,
			body: metav1.DeleteOptions{PropagationPolicy: &background}}, nil)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}
