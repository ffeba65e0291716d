package operators_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
)

// TestDatabases: a database of the file has servers on nodes apart, each with a volume, and a login; they grow
// and shrink, and go with it.
func TestDatabases(t *testing.T) {
	s := newSite(t)
	part := func(instances int) {
		t.Helper()
		s.part(t, addon.Postgres{Postgres: &spec.Postgres{Databases: []spec.Database{{Name: "hub", Namespace: "databases", Instances: instances, Size: spec.GiB}}}})
	}
	want := func(n int) {
		t.Helper()
		eventually(t, 30*time.Second, fmt.Sprintf("%d servers", n), func(ctx context.Context) error {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": addon.PostgresAPI, "kind": addon.PostgresKind}}
			o.SetNamespace("databases")
			o.SetName("hub")
			if why, ok, err := s.kube.Ready(ctx, o); err != nil || !ok {
				return errors.Join(errors.New(why), err)
			}
			pods, err := s.core.CoreV1().Pods("databases").List(ctx, metav1.ListOptions{LabelSelector: addon.PostgresLabel + "=hub"})
			if err != nil {
				return err
			}
			claims, err := s.core.CoreV1().PersistentVolumeClaims("databases").List(ctx, metav1.ListOptions{LabelSelector: addon.PostgresLabel + "=hub"})
			if err != nil {
				return err
			}
			nodes := map[string]bool{}
			for _, p := range pods.Items {
				nodes[p.Spec.NodeName] = true
			}
			if len(pods.Items) != n || len(claims.Items) != n || len(nodes) != n {
				return fmt.Errorf("%d pods on %d nodes, %d claims", len(pods.Items), len(nodes), len(claims.Items))
			}
			return nil
		})
	}
	part(1)
	want(1)
	login, err := s.core.CoreV1().Secrets("databases").Get(t.Context(), "hub-app", metav1.GetOptions{})
	require.NoError(t, err)
	part(3)
	want(3)
	part(2)
	want(2)
	again, err := s.core.CoreV1().Secrets("databases").Get(t.Context(), "hub-app", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, login.Data, again.Data, "the password stays")
	assert.Equal(t, "postgresql://hub:"+string(login.Data["password"])+"@hub-rw.databases:5432/hub", string(login.Data["uri"]))
	require.NoError(t, s.dynamic.Resource(schema.GroupVersionResource{Group: "postgresql.cnpg.io", Version: "v1", Resource: "clusters"}).Namespace("databases").Delete(t.Context(), "hub", metav1.DeleteOptions{}))
	// The garbage collector looks for new kinds every 30 s, and waits longer after each owner of a kind that it does not know.
	eventually(t, 3*time.Minute, "everything of it is gone", func(ctx context.Context) error {
		claims, err := s.core.CoreV1().PersistentVolumeClaims("databases").List(ctx, metav1.ListOptions{})
		if err == nil && len(claims.Items) > 0 {
			return fmt.Errorf("%d claims", len(claims.Items))
		}
		return err
	})
}
