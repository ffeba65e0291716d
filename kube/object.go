package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Ref names an object.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"` // empty for objects of the whole cluster
	Name       string `json:"name"`
}

// String returns e.g. "daemonset kube-system/kube-vip-ds".
func (r Ref) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return strings.ToLower(r.Kind) + " " + name
}

// path returns r for the path of a difference.
func (r Ref) path() string { return strings.Replace(r.String(), " ", "/", 1) }

func refOf(u *unstructured.Unstructured) Ref {
	return Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// Decode reads a manifest of one or more YAML or JSON documents. Lists are
// unpacked and empty documents skipped.
func Decode(manifest []byte) ([]runtime.Object, error) {
	var objs []runtime.Object
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for i := 1; ; i++ {
		u := &unstructured.Unstructured{}
		err := d.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("manifest, document %d: %w", i, err)
		}
		if len(u.Object) == 0 {
			continue
		}
		items := []runtime.Object{u}
		if u.IsList() {
			items = items[:0]
			err = u.EachListItem(func(o runtime.Object) error { items = append(items, o); return complete(o) })
		}
		if err = errors.Join(err, complete(u)); err != nil {
			return nil, fmt.Errorf("manifest, document %d: %w", i, err)
		}
		objs = append(objs, items...)
	}
}

// complete says what an object lacks. A name that YAML reads as a number or a truth value,
// such as n or 12, would otherwise be lost, and the namespace be default.
func complete(o runtime.Object) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || u.GetKind() == "" || u.GetAPIVersion() == "" {
		return errors.New("it is not a Kubernetes object: apiVersion and kind must be set")
	}
	for _, field := range []string{"name", "namespace"} {
		v, _, err := unstructured.NestedFieldNoCopy(u.Object, "metadata", field)
		if _, text := v.(string); err != nil || v != nil && !text {
			return fmt.Errorf("metadata.%s of the %s is not text: quote it", field, u.GetKind())
		}
	}
	return nil
}

// plain returns o as the mapping that is sent to the API server: with its kind,
// and without what typed objects drag along: a status and empty times.
func plain(o runtime.Object) (*unstructured.Unstructured, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("object %T: %w", o, err)
	}
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(m)}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		kind, ok := builtIn(o)
		if !ok {
			return nil, fmt.Errorf("object %T has no kind: set its TypeMeta", o)
		}
		u.SetGroupVersionKind(kind)
	}
	if err := complete(u); err != nil {
		return nil, err
	}
	if u.GetName() == "" {
		return nil, fmt.Errorf("%s object without a name", u.GetKind())
	}
	delete(u.Object, "status")
	dropNulls(u.Object)
	return u, nil
}

// builtIn is the kind of an object of k8s.io/api, by its Go type. client-go's scheme knows that
// too, and brings the code of every kind there is: 11 MiB of a program.
func builtIn(o runtime.Object) (schema.GroupVersionKind, bool) {
	t := reflect.TypeOf(o)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	at, ok := strings.CutPrefix(t.PkgPath(), "k8s.io/api/")
	group, version, _ := strings.Cut(at, "/")
	switch group {
	case "core":
		group = ""
	case "apps", "autoscaling", "batch", "extensions", "policy":
	case "apiserverinternal":
		group = "internal.apiserver.k8s.io"
	case "flowcontrol":
		group = "flowcontrol.apiserver.k8s.io"
	case "rbac":
		group = "rbac.authorization.k8s.io"
	default:
		group += ".k8s.io"
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: t.Name()}, ok
}

func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
				continue
			}
			dropNulls(e)
		}
	case []any:
		for _, e := range v {
			dropNulls(e)
		}
	}
}

// place returns the path of an object, setting the namespace that the object's
// kind asks for.
func (c *api) place(ctx context.Context, u *unstructured.Unstructured) (string, error) {
	gvk := u.GroupVersionKind()
	res, err := c.resource(ctx, gvk)
	if err != nil {
		return "", err
	}
	switch {
	case !res.Namespaced:
		u.SetNamespace("")
	case u.GetNamespace() == "":
		u.SetNamespace(metav1.NamespaceDefault)
	}
	return path(gvk.GroupVersion(), u.GetNamespace(), res.Name, u.GetName()), nil
}

// path builds the path of an object, or of a collection where name is empty.
func path(gv schema.GroupVersion, namespace, resource, name string, sub ...string) string {
	parts := []string{"/apis", gv.Group, gv.Version}
	if gv.Group == "" {
		parts = []string{"/api", gv.Version}
	}
	if namespace != "" {
		parts = append(parts, "namespaces", url.PathEscape(namespace))
	}
	parts = append(parts, resource)
	if name != "" {
		parts = append(parts, url.PathEscape(name))
	}
	return strings.Join(append(parts, sub...), "/")
}

// resource finds the API server's name of a kind's resource, asking once for each group. A
// missing kind is looked up again the next time.
func (c *api) resource(ctx context.Context, gvk schema.GroupVersionKind) (metav1.APIResource, error) {
	gv := gvk.GroupVersion()
	for _, fresh := range []bool{false, true} {
		list, err := c.resources(ctx, gv, fresh)
		if err != nil {
			return metav1.APIResource{}, err
		}
		for _, r := range list {
			if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
				return r, nil
			}
		}
	}
	return metav1.APIResource{}, &NoKindError{APIVersion: gv.String(), Kind: gvk.Kind}
}

func (c *api) resources(ctx context.Context, gv schema.GroupVersion, fresh bool) ([]metav1.APIResource, error) {
	c.known.mu.Lock()
	cached, ok := c.known.kinds[gv.String()]
	c.known.mu.Unlock()
	if ok && !fresh {
		return cached, nil
	}
	var list metav1.APIResourceList
	err := c.do(ctx, request{doing: "ask for the kinds of " + gv.String(), path: strings.TrimSuffix(path(gv, "", "", ""), "/")}, &list)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	c.known.mu.Lock()
	defer c.known.mu.Unlock()
	if len(list.APIResources) > 0 {
		c.known.kinds[gv.String()] = list.APIResources
	}
	return list.APIResources, nil
}
