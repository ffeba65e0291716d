package operators

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// kustomization is what of a kustomization.yaml is played.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
}

// kustomized are the objects of a folder as kustomize builds it: those of the files and folders that its
// kustomization.yaml lists. A folder without one is not played, nor is one with more than resources.
func kustomized(repo fs.FS, dir string) ([]*unstructured.Unstructured, error) {
	if info, err := fs.Stat(repo, dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("kustomization path not found: stat %s: no such file or directory", dir)
	}
	out, err := kustomizedBelow(repo, dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize build failed: %w", err)
	}
	seen := map[string]bool{}
	for _, u := range out {
		if u.GetName() == "" || u.GetKind() == "" || u.GetAPIVersion() == "" {
			return nil, fmt.Errorf("failed to decode Kubernetes apiVersion, kind and name from: %v", u.Object)
		}
		id := inventoryID(u)
		if seen[id] {
			return nil, fmt.Errorf("kustomize build failed: may not add resource with an already registered id: %s", id)
		}
		seen[id] = true
	}
	return out, nil
}

func kustomizedBelow(repo fs.FS, dir string) ([]*unstructured.Unstructured, error) {
	text, err := fs.ReadFile(repo, path.Join(dir, "kustomization.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: the Flux of the lab does not play this: a folder without kustomization.yaml", dir)
	}
	if err != nil {
		return nil, err
	}
	var k kustomization
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		return nil, fmt.Errorf("%s/kustomization.yaml: the Flux of the lab plays resources only: %w", dir, err)
	}
	var out []*unstructured.Unstructured
	for _, name := range k.Resources {
		at := path.Join(dir, name)
		info, err := fs.Stat(repo, at)
		if err != nil || strings.Contains(name, "://") {
			return nil, fmt.Errorf("accumulating resources from '%s': open %s: no such file or directory", name, at)
		}
		more, err := []*unstructured.Unstructured(nil), error(nil)
		if info.IsDir() {
			more, err = kustomizedBelow(repo, at)
		} else if text, err = fs.ReadFile(repo, at); err == nil {
			more, err = object.Documents(text)
		}
		if err != nil {
			return nil, fmt.Errorf("accumulating resources from '%s': %w", name, err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// inventoryID names an object as the inventory does (kustomize-controller api/v1/inventory_types.go).
func inventoryID(u *unstructured.Unstructured) string {
	return strings.Join([]string{u.GetNamespace(), strings.ReplaceAll(u.GetName(), ":", "__"), u.GroupVersionKind().Group, u.GetKind()}, "_")
}

// inventoryObject is the object of an ID, nil if it is none. Only the name may have underscores, in pairs.
func inventoryObject(id, version string) *unstructured.Unstructured {
	namespace, rest, _ := strings.Cut(id, "_")
	kind := strings.LastIndex(rest, "_")
	if kind < 0 {
		return nil
	}
	group := strings.LastIndex(rest[:kind], "_")
	if group < 0 {
		return nil
	}
	apiVersion := strings.TrimPrefix(rest[group+1:kind]+"/"+version, "/")
	return object.New(apiVersion, rest[kind+1:], namespace, strings.ReplaceAll(rest[:group], "__", ":"), nil)
}
