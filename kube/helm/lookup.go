package helm

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/cps-gpu/homelab/kube"
)

// lookup implements the template function lookup, with requests that end with ctx: the
// engine's own context never ends.
type lookup struct {
	ctx  context.Context
	kube *kube.Client
}

// GetClientFor implements engine.ClientProvider. A kind that is not served has no
// objects: templates ask about kinds that may not be there.
func (l lookup) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	namespaced, err := l.kube.Namespaced(l.ctx, apiVersion, kind)
	var noKind *kube.NoKindError
	if err != nil && !errors.As(err, &noKind) {
		return nil, false, err
	}
	return lookupKind{lookup: l, apiVersion: apiVersion, kind: kind}, namespaced, nil
}

// lookupKind serves one kind. The engine calls only the methods below.
type lookupKind struct {
	dynamic.NamespaceableResourceInterface
	lookup
	apiVersion, kind, namespace string
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (l lookupKind) Namespace(name string) dynamic.ResourceInterface {
	l.namespace = name
	return l
}

// Get implements dynamic.ResourceInterface.
func (l lookupKind) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(l.apiVersion)
	u.SetKind(l.kind)
	u.SetNamespace(l.namespace)
	u.SetName(name)
	err := l.kube.Get(l.ctx, u) //nolint:contextcheck // on purpose, see lookup
	var noKind *kube.NoKindError
	if errors.Is(err, kube.ErrNotFound) || errors.As(err, &noKind) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: l.kind}, name)
	}
	return u, err
}

// List implements dynamic.ResourceInterface.
func (l lookupKind) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	items, err := l.kube.List(l.ctx, l.apiVersion, l.kind, l.namespace, "") //nolint:contextcheck // on purpose, see lookup
	var noKind *kube.NoKindError
	if errors.As(err, &noKind) {
		err = nil
	}
	out := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": l.apiVersion, "kind": l.kind + "List"}, Items: items}
	return out, err
}
