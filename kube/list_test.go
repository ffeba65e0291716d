package kube_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube"
)

func TestList(t *testing.T) {
	w := bare(t)
	for _, ns := range []string{"a", "b"} {
		_, err := w.Apply(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		require.NoError(t, err)
		for _, name := range []string{"one", "two"} {
			_, err := w.Apply(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"n": name}}})
			require.NoError(t, err)
		}
	}
	count := func(namespace, selector string) (names []string) {
		found, err := w.List(t.Context(), "v1", "ConfigMap", namespace, selector)
		require.NoError(t, err)
		for _, u := range found {
			assert.Equal(t, "ConfigMap", u.GetKind())
			assert.Equal(t, "v1", u.GetAPIVersion())
			names = append(names, u.GetNamespace()+"/"+u.GetName())
		}
		return names
	}
	assert.Subset(t, count("", ""), []string{"a/one", "a/two", "b/one", "b/two"})
	assert.ElementsMatch(t, []string{"a/one", "a/two"}, count("a", "n"))
	assert.ElementsMatch(t, []string{"a/two", "b/two"}, count("", "n=two"))
	assert.Empty(t, count("nowhere", ""))

	_, err := w.List(t.Context(), "example.com/v1", "Thing", "", "")
	var none *kube.NoKindError
	require.ErrorAs(t, err, &none)
	_, err = w.List(t.Context(), "a/b/c", "Thing", "", "")
	require.Error(t, err)
}

// TestListAsksForEveryPage: the API server gives so many objects at a time.
func TestListAsksForEveryPage(t *testing.T) {
	pages := map[string]string{
		"":  `{"metadata": {"continue": "x"}, "items": [{"metadata": {"name": "a"}}]}`,
		"x": `{"metadata": {}, "items": [{"metadata": {"name": "b"}}]}`,
	}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1" {
			fmt.Fprint(w, `{"resources": [{"name": "nodes", "kind": "Node"}]}`)
			return
		}
		assert.Equal(t, "/api/v1/nodes", r.URL.Path, "a kind of the whole cluster has no namespace")
		assert.Equal(t, "500", r.URL.Query().Get("limit"))
		fmt.Fprint(w, pages[r.URL.Query().Get("continue")])
	}))
	defer srv.Close()
	k, err := kube.New(kube.Config{Kubeconfig: fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`, srv.URL)})
	require.NoError(t, err)
	found, err := k.List(t.Context(), "v1", "Node", "ignored", "")
	require.NoError(t, err)
	require.Len(t, found, 2)
	assert.Equal(t, "b", found[1].GetName())
}

// Count asks for one object, and the API server says how many remain.
func TestCount(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1" {
			fmt.Fprint(w, `{"resources": [{"name": "secrets", "kind": "Secret", "namespaced": true}]}`)
			return
		}
		assert.Equal(t, "/api/v1/secrets?limit=1", r.URL.String(), "of all namespaces")
		fmt.Fprint(w, `{"metadata": {"continue": "x", "remainingItemCount": 41}, "items": [{"metadata": {"name": "a"}, "data": {"k": "dg=="}}]}`)
	}))
	defer srv.Close()
	k, err := kube.New(kube.Config{Kubeconfig: fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`, srv.URL)})
	require.NoError(t, err)
	n, err := k.Count(t.Context(), "v1", "Secret")
	require.NoError(t, err)
	assert.Equal(t, 42, n)
	_, err = k.Count(t.Context(), "v1", "Nothing")
	require.ErrorAs(t, err, new(*kube.NoKindError))
}
