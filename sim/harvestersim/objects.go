package harvestersim

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

type object = map[string]any

// store has the objects, as clients of the API see them.
type store struct{ api dynamic.Interface }

// at is what is at a path of nested mappings and, by position, lists; nil if nothing is.
func fieldAt(v any, path ...string) any {
	for _, k := range path {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

func textAt(v any, path ...string) string {
	s, _ := fieldAt(v, path...).(string)
	return s
}

func listAt(v any, path ...string) []any {
	l, _ := fieldAt(v, path...).([]any)
	return l
}

// list returns the objects of a resource; none on an error, after which the controller looks again.
func (s store) list(ctx context.Context, r schema.GroupVersionResource) []*unstructured.Unstructured {
	all, err := s.api.Resource(r).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	out := make([]*unstructured.Unstructured, len(all.Items))
	for i := range all.Items {
		out[i] = &all.Items[i]
	}
	return out
}

// get returns an object, or nil.
func (s store) get(ctx context.Context, r schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	u, err := s.api.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return u
}

func (s store) create(ctx context.Context, r schema.GroupVersionResource, obj object) error {
	u := &unstructured.Unstructured{Object: obj}
	_, err := s.api.Resource(r).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("harvestersim: %w", err)
	}
	return nil
}

// createWithStatus makes an object, of which the API keeps the status only when it is written apart.
func (s store) createWithStatus(ctx context.Context, r schema.GroupVersionResource, obj object) error {
	if err := s.create(ctx, r, obj); err != nil {
		return err
	}
	u := s.get(ctx, r, "", textAt(obj, "metadata", "name"))
	if u == nil {
		return fmt.Errorf("harvestersim: %s is gone", textAt(obj, "metadata", "name"))
	}
	u.Object["status"] = obj["status"]
	s.updateStatus(ctx, r, u)
	return nil
}

// update replaces an object. If somebody was quicker, the controller looks again.
func (s store) update(ctx context.Context, r schema.GroupVersionResource, u *unstructured.Unstructured) bool {
	after, err := s.api.Resource(r).Namespace(u.GetNamespace()).Update(ctx, u, metav1.UpdateOptions{})
	if err == nil {
		u.Object = after.Object
	}
	return err == nil
}

func (s store) updateStatus(ctx context.Context, r schema.GroupVersionResource, u *unstructured.Unstructured) bool {
	after, err := s.api.Resource(r).Namespace(u.GetNamespace()).UpdateStatus(ctx, u, metav1.UpdateOptions{})
	if err == nil {
		u.Object = after.Object
	}
	return err == nil
}

func (s store) remove(ctx context.Context, r schema.GroupVersionResource, u *unstructured.Unstructured) {
	uid, now := u.GetUID(), int64(0)
	_ = s.api.Resource(r).Namespace(u.GetNamespace()).Delete(ctx, u.GetName(),
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: &now})
}

// setStatus is a status field of an object.
func setStatus(u *unstructured.Unstructured, value any, path ...string) {
	_ = unstructured.SetNestedField(u.Object, value, append([]string{"status"}, path...)...)
}

// setCondition writes a condition of an object.
func setCondition(u *unstructured.Unstructured, kind string, is bool, reason, message string) {
	status := "False"
	if is {
		status = "True"
	}
	var out []any
	for _, c := range listAt(u.Object, "status", "conditions") {
		if textAt(c, "type") != kind {
			out = append(out, c)
		}
	}
	out = append(out, object{"type": kind, "status": status, "reason": reason, "message": message})
	setStatus(u, out, "conditions")
}

func dropCondition(u *unstructured.Unstructured, kind string) {
	out := []any{}
	for _, c := range listAt(u.Object, "status", "conditions") {
		if textAt(c, "type") != kind {
			out = append(out, c)
		}
	}
	setStatus(u, out, "conditions")
}

func hasCondition(u *unstructured.Unstructured, kind string) bool {
	for _, c := range listAt(u.Object, "status", "conditions") {
		if textAt(c, "type") == kind && textAt(c, "status") == "True" {
			return true
		}
	}
	return false
}

// populate makes what a Harvester cluster has from the beginning.
func (s *Sim) populate(ctx context.Context) error {
	for _, d := range []struct {
		group, version, kind, plural string
		namespaced, status           bool
	}{
		{"kubevirt.io", "v1", "VirtualMachine", "virtualmachines", true, true},
		{"kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances", true, true},
		{"harvesterhci.io", "v1beta1", "VirtualMachineImage", "virtualmachineimages", true, false},
		{"harvesterhci.io", "v1beta1", "Setting", "settings", false, false},
		{"harvesterhci.io", "v1beta1", "Addon", "addons", true, false},
		{"devices.harvesterhci.io", "v1beta1", "PCIDevice", "pcidevices", false, true},
		{"devices.harvesterhci.io", "v1beta1", "PCIDeviceClaim", "pcideviceclaims", false, true},
		{"k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions", true, false},
	} {
		version := object{"name": d.version, "served": true, "storage": true,
			"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
		if d.status {
			version["subresources"] = object{"status": object{}}
		}
		scope := map[bool]string{true: "Namespaced", false: "Cluster"}[d.namespaced]
		if err := s.create(ctx, gvr("apiextensions.k8s.io", "v1", "customresourcedefinitions"), object{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": d.plural + "." + d.group},
			"spec": object{"group": d.group, "scope": scope, "versions": []any{version},
				"names": object{"kind": d.kind, "plural": d.plural, "singular": strings.ToLower(d.kind)}},
		}); err != nil {
			return err
		}
	}
	for _, o := range []struct {
		r   schema.GroupVersionResource
		obj object
	}{
		{namespaces(), object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace}}},
		{settings(), object{"apiVersion": "harvesterhci.io/v1beta1", "kind": "Setting", "metadata": object{"name": "server-version"}, "value": s.cfg.Version}},
		{addons(), object{"apiVersion": "harvesterhci.io/v1beta1", "kind": "Addon", "metadata": object{"name": "pcidevices-controller", "namespace": namespace},
			"spec": object{"enabled": !s.cfg.NoAddon}}},
		{classes(), storageClass("harvester-longhorn", true)},
	} {
		if err := s.create(ctx, o.r, o.obj); err != nil {
			return err
		}
	}
	return nil
}

// longhorn is the provisioner of all volumes.
const longhorn = "driver.longhorn.io"

func storageClass(name string, isDefault bool) object {
	return object{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
		"metadata":    object{"name": name, "annotations": object{"storageclass.kubernetes.io/is-default-class": fmt.Sprint(isDefault)}},
		"provisioner": longhorn, "allowVolumeExpansion": true, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
		"parameters": object{"migratable": "true", "numberOfReplicas": "3"}}
}
