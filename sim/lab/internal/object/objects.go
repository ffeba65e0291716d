package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Normalized is a value as JSON would have it.
func Normalized(v map[string]any) (map[string]any, error) {
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

// Within reports whether have already has everything in a merge patch.
func Within(have, want any) bool {
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
		if there, has := h[key]; value == nil && has || value != nil && !Within(there, value) {
			return false
		}
	}
	return true
}

// Conditions sets one condition among those of an object, and keeps the time of the
// last transition where nothing changed. It returns the whole list.
func Conditions(obj *unstructured.Unstructured, generation bool, kind, status, reason, message string) []any {
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

// IsTrue reports whether a condition of an object holds.
func IsTrue(obj *unstructured.Unstructured, kind string) bool {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	return slices.ContainsFunc(list, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == kind && m["status"] == "True"
	})
}

// Text reads a string of an object; "" where there is none.
func Text(obj *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(obj.Object, path...)
	return s
}

// New makes an object with the fields of rest, and numbers as JSON has them.
func New(apiVersion, kind, namespace, name string, rest map[string]any) *unstructured.Unstructured {
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
	if plain, err := Normalized(obj.Object); err == nil {
		obj.Object = plain
	}
	return obj
}

// Documents reads a manifest.
func Documents(manifest []byte) ([]*unstructured.Unstructured, error) {
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

// OwnedBy makes owner the owner of obj, so that obj is deleted with it.
func OwnedBy(obj, owner *unstructured.Unstructured) {
	yes := true
	obj.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes,
	}})
}
