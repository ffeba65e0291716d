// Package gatewayapi has the definitions of the Gateway API that Cilium takes.
package gatewayapi

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Version is that of the definitions: the one in go.mod of the pinned Cilium.
const Version = "v1.6.1"

// served is the version that Cilium looks for in each of them (operator/pkg/gateway-api/helpers/schemes.go, RequiredGVKs).
const served = "v1"

// definitionsFile has config/crd/standard of kubernetes-sigs/gateway-api (Apache-2.0) without descriptions, of the kinds that
// Cilium does not do without.
//
//go:embed definitions.json.gz
var definitionsFile []byte

// Definitions are the definitions. With owner, a release of Helm in kube-system that brings them too may take them over
// (helm v3.22.0, pkg/action/validate.go, checkOwnership).
func Definitions(owner string) ([]*unstructured.Unstructured, error) {
	packed, err := gzip.NewReader(bytes.NewReader(definitionsFile))
	if err != nil {
		return nil, fmt.Errorf("definitions of the Gateway API: %w", err)
	}
	var all []*unstructured.Unstructured
	if err := json.NewDecoder(packed).Decode(&all); err != nil {
		return nil, fmt.Errorf("definitions of the Gateway API: %w", err)
	}
	if owner == "" {
		return all, nil
	}
	for _, d := range all {
		d.SetAnnotations(union(d.GetAnnotations(), map[string]string{"meta.helm.sh/release-name": owner, "meta.helm.sh/release-namespace": "kube-system"}))
		d.SetLabels(union(d.GetLabels(), map[string]string{"app.kubernetes.io/managed-by": "Helm"}))
	}
	return all, nil
}

func union(have, more map[string]string) map[string]string {
	maps.Copy(more, have)
	return more
}

// IsNewer reports whether a definition in the cluster is newer than ours, and serves what Cilium looks for.
func IsNewer(live *unstructured.Unstructured) bool {
	its, err := semver.NewVersion(live.GetAnnotations()["gateway.networking.k8s.io/bundle-version"])
	if err != nil || !its.GreaterThan(semver.MustParse(Version)) {
		return false
	}
	versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(v any) bool {
		m, _ := v.(map[string]any)
		return m["name"] == served && m["served"] == true
	})
}
