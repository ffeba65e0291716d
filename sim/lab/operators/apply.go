package operators

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
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

// apply applies objects. Applying an up-to-date object changes nothing, so it triggers no
// watch.
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

// patchStatus merges into the status of an object, if that changes something.
func (i *instance) patchStatus(ctx context.Context, obj *unstructured.Unstructured, status map[string]any) error {
	return i.patch(ctx, obj, map[string]any{"status": status}, "status")
}

// patch merges into an object, if that changes something.
func (i *instance) patch(ctx context.Context, obj *unstructured.Unstructured, change map[string]any, sub ...string) error {
	normal, err := object.Normalized(change)
	if err != nil {
		return err
	}
	if object.Within(obj.Object, normal) {
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
