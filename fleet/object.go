package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// newObject makes one of the objects of Flux or Argo CD; with a nil spec, a reference to one.
func newObject(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	if spec != nil {
		u.Object["spec"] = spec
	}
	return u
}

// withPart labels an object with the part that it belongs to.
func (b Bundle) withPart(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetLabels(map[string]string{PartLabel: b.Part})
	return u
}

// withAnnotations is a copy of an object with more annotations.
func withAnnotations(u *unstructured.Unstructured, more map[string]string) *unstructured.Unstructured {
	u = u.DeepCopy()
	notes := u.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	maps.Copy(notes, more)
	u.SetAnnotations(notes)
	return u
}

// kustomization lists the files of a folder, so that Flux does not look for them itself.
func kustomization(files []string) ([]byte, error) {
	return manifest(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": texts(files),
	}})
}

func texts(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// fullURL is the repository as a URL: Flux and Argo CD want one.
func (p place) fullURL() string {
	if p.scheme != "ssh" {
		return p.url
	}
	u := url.URL{Scheme: "ssh", User: url.User(p.user), Host: strings.TrimSuffix(p.addr, ":22"), Path: "/" + strings.TrimPrefix(p.path, "/")}
	return u.String()
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// rootName names what deploys a folder; no bundle's begins so.
func rootName(folder string) string {
	name := "homelab-" + strings.Trim(notInName.ReplaceAllString(strings.ToLower(folder), "-"), "-")
	if len(name) > maxName { // it becomes the value of a label
		sum := sha256.Sum256([]byte(folder))
		return name[:40] + hex.EncodeToString(sum[:6])
	}
	return name
}
