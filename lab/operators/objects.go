package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// client reaches one object.
func (c *Cluster) client(obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping, err := c.resource(obj)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.Dynamic.Resource(mapping.Resource).Namespace(obj.GetNamespace()), nil
	}
	return c.Dynamic.Resource(mapping.Resource), nil
}

// apply makes objects as they should be. One that is as it should be is not written
// twice with another result, so nothing is woken by it.
func (i *instance) apply(ctx context.Context, objs ...*unstructured.Unstructured) error {
	for _, obj := range objs {
		client, err := i.client(obj)
		if err != nil {
			return err
		}
		_, err = client.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: i.program.name, Force: true})
		if err != nil {
			return fmt.Errorf("%s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
	}
	return nil
}

// patchStatus merges into the status of an object where that changes something.
func (i *instance) patchStatus(ctx context.Context, obj *unstructured.Unstructured, status map[string]any) error {
	return i.patch(ctx, obj, map[string]any{"status": status}, "status")
}

// patch merges into an object, where that changes something.
func (i *instance) patch(ctx context.Context, obj *unstructured.Unstructured, change map[string]any, sub ...string) error {
	normal, err := normalized(change)
	if err != nil {
		return err
	}
	if within(obj.Object, normal) {
		return nil
	}
	data, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	client, err := i.client(obj)
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, obj.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: i.program.name}, sub...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
	}
	return nil
}

// normalized is a value as JSON would have it.
func normalized(v map[string]any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return out, nil
}

// within reports whether have says already what a merge patch asks for.
func within(have, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		a, errA := json.Marshal(have)
		b, errB := json.Marshal(want)
		return errA == nil && errB == nil && bytes.Equal(a, b)
	}
	h, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range w {
		if there, has := h[key]; value == nil && has || value != nil && !within(there, value) {
			return false
		}
	}
	return true
}

// condition sets one condition among those of an object, and keeps the time of the
// last transition where nothing changed. It returns the whole list.
func conditions(obj *unstructured.Unstructured, generation bool, kind, status, reason, message string) []any {
	old, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	entry := map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": metav1.Now().UTC().Format("2006-01-02T15:04:05Z")}
	if generation {
		entry["observedGeneration"] = obj.GetGeneration()
	}
	list := slices.Clone(old)
	for n, c := range list {
		m, ok := c.(map[string]any)
		if !ok || m["type"] != kind {
			continue
		}
		if m["status"] == status {
			entry["lastTransitionTime"] = m["lastTransitionTime"]
		}
		list[n] = entry
		return list
	}
	return append(list, entry)
}

// isTrue reports whether a condition of an object holds.
func isTrue(obj *unstructured.Unstructured, kind string) bool {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	return slices.ContainsFunc(list, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == kind && m["status"] == "True"
	})
}

// text reads a string of an object; "" where there is none.
func text(obj *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(obj.Object, path...)
	return s
}

// object makes one of a manifest in Go's own words.
func object(apiVersion, kind, namespace, name string, rest map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(obj.Object, rest)
	metadata, _ := obj.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = name
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	obj.Object["apiVersion"], obj.Object["kind"], obj.Object["metadata"] = apiVersion, kind, metadata
	if plain, err := normalized(obj.Object); err == nil {
		obj.Object = plain
	}
	return obj
}

// documents reads a manifest.
func documents(manifest []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		if len(obj.Object) > 0 {
			out = append(out, obj)
		}
	}
}

// ownedBy says that obj goes when owner does.
func ownedBy(obj, owner *unstructured.Unstructured) {
	yes := true
	obj.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
	}})
}
