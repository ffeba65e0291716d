package kube_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
)

func TestDecode(t *testing.T) {
	for manifest, want := range map[string]string{
		"":                           "",
		"---\n---\n# nothing\n---\n": "",
		"{apiVersion: v1, kind: A}":  "A",
		"---\n{apiVersion: v1, kind: A}\n---\n\n---\n{apiVersion: v1, kind: B}\n":                                                     "A B",
		`{"apiVersion": "v1", "kind": "A"}{"apiVersion": "v1", "kind": "B"}`:                                                          "A B",
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A}, {apiVersion: v1, kind: B}]}\n---\n{apiVersion: v1, kind: C}": "A B C",
		"{apiVersion: v1, kind: A, metadata: {name: a, namespace: }}\n---\n{apiVersion: v1, kind: A, metadata: }":                     "A A",
		"{apiVersion: v1, kind: List, items: []}":                                                                                     "",
	} {
		objs, err := kube.Decode([]byte(manifest))
		require.NoError(t, err, manifest)
		var got []string
		for _, o := range objs {
			got = append(got, o.GetObjectKind().GroupVersionKind().Kind)
		}
		assert.Equal(t, want, strings.Join(got, " "), manifest)
	}
	for manifest, want := range map[string]string{
		"{apiVersion: v1, kind: A}\n---\n{":                "manifest, document 2: ",
		"{apiVersion: v1, kind: A}\n---\n{apiVersion: v1}": "manifest, document 2: it is not a Kubernetes object: apiVersion and kind must be set",
		"---\n{kind: A}": "manifest, document 1: it is not a Kubernetes object: apiVersion and kind must be set",
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1}]}":                                  "manifest, document 1: it is not a Kubernetes object: apiVersion and kind must be set",
		"{apiVersion: v1, kind: List, items: [text]}":                                              "manifest, document 1: items member is not an object",
		"{apiVersion: v1, kind: A, metadata: {name: x, namespace: n}}":                             "manifest, document 1: metadata.namespace of the A is not text: quote it",
		"{apiVersion: v1, kind: A, metadata: {name: 12}}":                                          "manifest, document 1: metadata.name of the A is not text: quote it",
		"{apiVersion: v1, kind: A, metadata: what}":                                                "manifest, document 1: metadata.name of the A is not text: quote it",
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A, metadata: {name: true}}]}": "metadata.name of the A is not text: quote it",
		"[{apiVersion: v1, kind: A}]":                                                              "manifest, document 1: ",
	} {
		objs, err := kube.Decode([]byte(manifest))
		require.ErrorContains(t, err, want, manifest)
		assert.Nil(t, objs)
	}
}

func TestRefs(t *testing.T) {
	assert.Equal(t, "daemonset kube-system/kube-vip-ds", kube.Ref{Kind: "DaemonSet", Namespace: "kube-system", Name: "kube-vip-ds"}.String())
	assert.Equal(t, "daemonset/kube-system/kube-vip-ds", kube.Ref{Kind: "DaemonSet", Namespace: "kube-system", Name: "kube-vip-ds"}.Path())
	assert.Equal(t, "node a", kube.Ref{Kind: "Node", Name: "a"}.String())
}

// TestPlain: what is sent has a kind, and neither a status nor empty fields, at any depth.
func TestPlain(t *testing.T) {
	u, err := kube.ToUnstructured(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:   appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}},
		Status: appsv1.DeploymentStatus{Replicas: 3}})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"selector": nil, "strategy": map[string]any{}, "template": map[string]any{"metadata": map[string]any{},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "resources": map[string]any{}}}}}}},
		withNulls(u.Object, "selector"))
	given := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"},
		"status": "x", "list": []any{map[string]any{"b": nil, "c": []any{map[string]any{"d": nil}}}}, "none": nil}}
	before := given.DeepCopy()
	u, err = kube.ToUnstructured(given)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"},
		"list": []any{map[string]any{"c": []any{map[string]any{}}}}}, u.Object)
	assert.Equal(t, before, given, "what was given stays as it was")

	for want, o := range map[string]runtime.Object{
		"ConfigMap object without a name":         &corev1.ConfigMap{},
		"has no kind: ":                           &unstructured.Unstructured{Object: map[string]any{"kind": "A", "metadata": map[string]any{"name": "a"}}},
		"object *kube_test.stranger has no kind:": &stranger{},
	} {
		_, err := kube.ToUnstructured(o)
		assert.ErrorContains(t, err, want)
	}
	_, err = kube.ToUnstructured(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a", "namespace": true}}})
	require.EqualError(t, err, "metadata.namespace of the A is not text: quote it")
	_, err = kube.ToUnstructured(&stranger{Numbers: map[int]complex64{1: 1}})
	assert.ErrorContains(t, err, "object *kube_test.stranger: ")
}

// withNulls says that a field of spec is not there.
func withNulls(m map[string]any, absent string) map[string]any {
	spec := m["spec"].(map[string]any)
	if _, there := spec[absent]; !there {
		spec[absent] = nil
	}
	return m
}

// stranger is of a type that nobody has registered.
type stranger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Numbers           map[int]complex64 `json:"numbers,omitempty"`
}

func (s *stranger) DeepCopyObject() runtime.Object { return s }

// TestPaths: where an object is depends on its group, on whether its kind has namespaces, and on
// which of a group's resources is the kind itself; names are not taken as parts of a path.
func TestPaths(t *testing.T) {
	for manifest, want := range map[string]string{
		"{apiVersion: v1, kind: Node, metadata: {name: a, namespace: ignored}}":            "/api/v1/nodes/a",
		"{apiVersion: v1, kind: Pod, metadata: {name: a}}":                                 "/api/v1/namespaces/default/pods/a",
		"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: ns}}":                  "/api/v1/namespaces/ns/pods/a",
		"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, namespace: ns}}":       "/apis/apps/v1/namespaces/ns/daemonsets/a",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: '../../b', namespace: 'n?/'}}": "/api/v1/namespaces/n?//configmaps/../../b",
	} {
		c, s := scripted(t, map[string]any{"GET " + want: "{}"})
		require.NoError(t, c.Get(t.Context(), decode(t, manifest)[0]), manifest)
		assert.Equal(t, []string{"GET " + want}, s.calls())
	}
	c, _ := scripted(t, nil)
	var none *kube.NoKindError
	require.ErrorAs(t, c.Get(t.Context(), decode(t, "{apiVersion: v1, kind: Eviction, metadata: {name: a}}")[0]), &none, "it is a part of pods only")
	assert.Equal(t, "the API server has no kind Eviction of v1: its CustomResourceDefinition is missing or not established yet", none.Error())
}

// TestKindsAreAskedForOnce: and again where one is not among them.
func TestKindsAreAskedForOnce(t *testing.T) {
	const things = "/apis/example.com/v1"
	asked := func(s *script) (n int) {
		for _, c := range s.calls() {
			if c == "GET "+things {
				n++
			}
		}
		return n
	}
	c, s := scripted(t, map[string]any{"GET " + things: []answer{refusal(404, "not yet"), refusal(404, "not yet"),
		{body: `{"resources": [{"name": "things", "kind": "Thing"}]}`},
		{body: `{"resources": [{"name": "things", "kind": "Thing"}, {"name": "others", "kind": "Other", "namespaced": true}]}`},
		{body: `{"resources": []}`}, refusal(403, "no"), refusal(503, "no")}})
	is := func(kind string) (bool, error) { return c.Namespaced(t.Context(), "example.com/v1", kind) }
	var none *kube.NoKindError
	_, err := is("Thing")
	require.ErrorAs(t, err, &none)
	assert.Equal(t, 2, asked(s))
	for range 3 {
		namespaced, err := is("Thing")
		require.NoError(t, err)
		assert.False(t, namespaced)
	}
	assert.Equal(t, 3, asked(s), "what is known is not asked for again")
	namespaced, err := is("Other")
	require.NoError(t, err)
	assert.True(t, namespaced)
	assert.Equal(t, 4, asked(s), "what is not known is")
	_, err = is("Third")
	require.ErrorAs(t, err, &none)
	assert.Equal(t, 5, asked(s))
	_, err = is("Thing")
	require.NoError(t, err, "an empty answer does not delete what is known")
	assert.Equal(t, 5, asked(s))
	_, err = is("Third")
	require.ErrorIs(t, err, kube.ErrForbidden)
	assert.ErrorContains(t, err, "ask for the kinds of example.com/v1: ")
	_, err = is("Third")
	require.ErrorIs(t, err, kube.ErrUnreachable)
	assert.Equal(t, 7, asked(s))
}
