package operators

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // Fleet's choice, and no secret
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/fleetread"
	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// afterRender does what Fleet does to a chart's objects after Helm has rendered them (fleet
// v0.16.1 internal/helmdeployer/postrender.go): it adds the plain manifests of the bundle,
// marks all as the bundle's, keeps definitions of kinds when the release is deleted, and moves
// everything to a targetNamespace.
type afterRender struct {
	files   []*chart.File
	bundle  string
	release fleetread.Release
	mapper  meta.RESTMapper
}

// Run is called by Helm.
func (a *afterRender) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	objects, err := object.Documents(rendered.Bytes())
	if err != nil {
		return nil, err
	}
	for _, f := range a.files {
		if !strings.HasPrefix(f.Name, fleetread.Raw) {
			continue
		}
		more, err := object.Documents(f.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		for _, o := range more {
			if o.GetKind() != "" && o.GetAPIVersion() != "" { // others are passed over: rawyaml/resources.go
				objects = append(objects, o)
			}
		}
	}
	var out bytes.Buffer
	for _, o := range objects {
		if err := a.mark(o); err != nil {
			return nil, err
		}
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		fmt.Fprintf(&out, "---\n%s", data)
	}
	return &out, nil
}

func (a *afterRender) mark(o *unstructured.Unstructured) error {
	set := "default-" + a.bundle // internal/cmd/agent/deployer/desiredset/plan.go, GetSetID
	sum := sha1.Sum([]byte(set)) //nolint:gosec // see above
	labels, annotations := maps.Clone(o.GetLabels()), maps.Clone(o.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels["objectset.rio.cattle.io/hash"], annotations["objectset.rio.cattle.io/id"] = hex.EncodeToString(sum[:]), set
	if a.release.KeepDefinitions && o.GetKind() == "CustomResourceDefinition" {
		annotations[kube.ResourcePolicyAnno] = kube.KeepPolicy
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	if a.release.TargetNamespace == "" {
		return nil
	}
	kind := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return fmt.Errorf("invalid cluster scoped object [name=%s kind=%s apiVersion=%s] found", o.GetName(), o.GetKind(), o.GetAPIVersion())
	}
	o.SetNamespace(a.release.TargetNamespace)
	return nil
}
