package operators_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// TestDatabaseBackups: nothing is done for a database before the plugin is there; then its changes are archived
// and it is copied at once. A database whose folder has another's is not ready; one with a folder of its own,
// restored from the other's, is, and has a login.
func TestDatabaseBackups(t *testing.T) {
	s := newSite(t)
	store := &spec.Backup{Bucket: "backups", Prefix: "lab", Region: "us-east-1", Schedule: "0 3 * * *", Retention: 30 * 24 * time.Hour}
	file := &spec.Postgres{Backup: true, Databases: []spec.Database{{Name: "hub", Namespace: "databases", Instances: 1, Size: spec.GiB}}}
	// is waits until a database is ready, or is not for a reason that begins like that.
	is := func(name, want string) {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": addon.PostgresAPI, "kind": addon.PostgresKind}}
		o.SetNamespace("databases")
		o.SetName(name)
		eventually(t, time.Minute, name, func(ctx context.Context) error {
			why, ok, err := s.kube.Ready(ctx, o.DeepCopy())
			if err == nil && (ok != (want == "") || !strings.Contains(why, want)) {
				return errors.New(why)
			}
			return err
		})
	}
	s.part(t, certificates())
	s.part(t, addon.PostgresBackup{Postgres: file, Store: store})
	s.part(t, addon.Postgres{Postgres: file, Store: store})
	is("hub", "")
	stores := s.dynamic.Resource(schema.GroupVersionResource{Group: "barmancloud.cnpg.io", Version: "v1", Resource: "objectstores"}).Namespace("databases")
	eventually(t, time.Minute, "the first backup", func(ctx context.Context) error {
		o, err := stores.Get(ctx, "database-backups", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if last, _, _ := unstructured.NestedString(o.Object, "status", "serverRecoveryWindow", "hub", "lastSuccessfulBackupTime"); last == "" {
			return fmt.Errorf("%v", o.Object["status"])
		}
		return nil
	})
	file.Databases = append(file.Databases,
		spec.Database{Name: "again", Namespace: "databases", Instances: 1, Size: spec.GiB, Archive: "hub"},
		spec.Database{Name: "restored", Namespace: "databases", Instances: 1, Size: spec.GiB, Restore: &spec.Restore{Archive: "hub"}})
	s.part(t, addon.Postgres{Postgres: file, Store: store})
	is("restored", "")
	is("again", "its changes do not get into the bucket")
	login, err := s.core.CoreV1().Secrets("databases").Get(t.Context(), "restored-app", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "restored", string(login.Data["username"]))
}
