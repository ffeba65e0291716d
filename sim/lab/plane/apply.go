package plane

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// k3sManifest has the objects that K3s creates in every cluster and that ours may rely on.
//
//go:embed k3s.yaml
var k3sManifest []byte

// localStorageManifest is K3s' local-path class and its provisioner.
//
//go:embed k3s-local-storage.yaml
var localStorageManifest []byte

// fieldManager owns what K3s applies from its manifests folder.
const fieldManager = "deploy@k3s"

// Apply applies each document of a manifest, as K3s does with a file of its manifests folder.
// A refused one does not affect the others.
func (p *plane) Apply(ctx context.Context, manifest []byte) error {
	var errs []error
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		}
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("manifest: %w", err))...)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := p.applyObject(ctx, obj); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err))
		}
	}
}

func (p *plane) applyObject(ctx context.Context, obj *unstructured.Unstructured) error {
	mapping, err := p.mapping(ctx, obj)
	if err != nil {
		return err
	}
	var target dynamic.ResourceInterface = p.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := obj.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		target = p.dynamic.Resource(mapping.Resource).Namespace(namespace)
	}
	_, err = target.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// mapping finds the resource of a kind. A CustomResourceDefinition that was
// applied a moment ago takes a while to be served.
func (p *plane) mapping(ctx context.Context, obj *unstructured.Unstructured) (*meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		mapping, err := p.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err == nil || !meta.IsNoMatchError(err) {
			return mapping, err
		}
		p.mapper.Reset()
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}
