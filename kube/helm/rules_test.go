package helm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An object is a release's where both its name and its namespace say so: releases of one
// name are in several namespaces.
func TestOnlyOursIsOurs(t *testing.T) {
	names := []string{"", "site", "other"}
	for _, name := range names {
		for _, namespace := range names {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetAnnotations(map[string]string{noteName: name, noteNamespace: namespace})
			assert.Equal(t, name == "site" && namespace == "other", ownedBy(u, "site", "other"), "%q in %q", name, namespace)
		}
	}
}

// The number of replicas is left to who scales, in whatever order the holders of the field
// are listed, until Helm, we or a person hold it too.
func TestReplicasAreTheScalers(t *testing.T) {
	held := func(who, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: who, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}
	}
	scaler, status := held("kube-controller-manager", "scale"), held("operator", "")
	people := []metav1.ManagedFieldsEntry{held(manager, ""), held("kubectl-edit", "")}
	idle := metav1.ManagedFieldsEntry{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`)}
	yields := func(holders ...metav1.ManagedFieldsEntry) bool {
		want := &unstructured.Unstructured{Object: map[string]any{"kind": "Deployment", "spec": map[string]any{"replicas": int64(2)}}}
		live := want.DeepCopy()
		live.SetManagedFields(holders)
		dropControllerFields(want, live)
		_, kept, _ := unstructured.NestedFieldNoCopy(want.Object, "spec", "replicas")
		return !kept
	}
	for _, other := range []metav1.ManagedFieldsEntry{scaler, status, idle} {
		assert.True(t, yields(scaler, other), other.Manager)
		assert.True(t, yields(other, scaler), other.Manager)
		assert.False(t, yields(status, idle))
		for _, person := range people {
			assert.False(t, yields(scaler, other, person), person.Manager)
			assert.False(t, yields(person, other, scaler), person.Manager)
		}
	}
}

type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// A server that fails is asked again, and one that refuses is not.
func TestOnlyFailuresAreAskedAgain(t *testing.T) {
	u := &url.URL{Scheme: "https", Host: "charts.example.com", Path: "/index.yaml"}
	for status := http.StatusBadRequest; status < 600; status++ {
		synctest.Test(t, func(t *testing.T) {
			asked, want := 0, 1
			if status >= http.StatusInternalServerError {
				want = tries
			}
			client := &http.Client{Transport: answers(func(r *http.Request) *http.Response {
				asked++
				return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Body: io.NopCloser(strings.NewReader("")), Request: r}
			})}
			_, err := get(t.Context(), client, u, 1)
			require.ErrorContains(t, err, fmt.Sprintf("%s answers %d", u, status))
			require.Equal(t, want, asked, status)
		})
	}
}

// Redirects without end end where net/http's own rule ends them: with the tenth.
func TestRedirectsEnd(t *testing.T) {
	for _, rule := range []func(*http.Request, []*http.Request) error{checkRedirect, nil} {
		asked := 0
		client := &http.Client{CheckRedirect: rule, Transport: answers(func(r *http.Request) *http.Response {
			asked++
			to := http.Header{"Location": {fmt.Sprintf("/%d", asked)}}
			return &http.Response{StatusCode: http.StatusFound, Header: to, Body: http.NoBody, Request: r}
		})}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://charts.example.com/", nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.ErrorContains(t, err, "10 redirects")
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 10, asked)
	}
}
