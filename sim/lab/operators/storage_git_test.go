package operators_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// storage are the parts with storage that is replicated or elsewhere, and gpu-guard, as they are in one of two files.
func storage(t *testing.T, tool fleet.Tool, monitor, fs, drain string) []chart.Part {
	t.Helper()
	t.Setenv("CEPH_KEY", "AQBSecretOfTheStore0000000000000000000000==")
	key, err := spec.ParseSecretRef("env:CEPH_KEY")
	require.NoError(t, err)
	out := []chart.Part{
		made(t, addon.GPUGuard{Guard: true}),
		made(t, addon.CephFS{CephFS: &spec.CephFS{Class: "cephfs", ClusterID: "b9127830-b0cc-4e34-aa47-9d1a2e9949a8", Monitors: []string{monitor}, FSName: fs, User: "k3s", Key: key}}),
	}
	longhorn := addon.Longhorn{Longhorn: &spec.Longhorn{Class: "longhorn", Replicas: 1, DataPath: "/var/lib/longhorn", DrainPolicy: drain}}
	if longhorn.Info().Never(string(tool)) == "" {
		out = append(out, made(t, longhorn))
	}
	return out
}

// storageByGit has these parts come by Git, change and leave it. All but gpu-guard have data, and stay.
func (s *site) storageByGit(t *testing.T, tool fleet.Tool, deploy func(...chart.Part)) {
	t.Helper()
	has := func(namespace, name, key, text string) {
		t.Helper()
		eventually(t, 30*time.Second, name+" has "+text, func(ctx context.Context) error {
			c, err := s.core.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && !strings.Contains(c.Data[key], text) {
				err = errors.New(c.Data[key])
			}
			return err
		})
	}
	for _, file := range []struct{ monitor, fs, drain string }{{"10.0.0.41:6789", "old", "block-if-contains-last-replica"}, {"10.0.0.42:6789", "new", "always-allow"}} {
		if classes := s.core.StorageV1().StorageClasses(); tool != fleet.ToolFlux && file.fs == "new" { // Flux recreates it itself
			require.NoError(t, classes.Delete(t.Context(), "cephfs", metav1.DeleteOptions{}))
		}
		deploy(storage(t, tool, file.monitor, file.fs, file.drain)...)
		class, err := s.core.StorageV1().StorageClasses().Get(t.Context(), "cephfs", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, file.fs, class.Parameters["fsName"])
		has("ceph-csi", "ceph-csi-config", "config.json", file.monitor)
		if tool != fleet.ToolArgo {
			has("longhorn-system", "longhorn-default-setting", "default-setting.yaml", file.drain)
		}
	}
	deploy(made(t, metallb()))
	for _, class := range []string{"cephfs", "longhorn"} {
		_, err := s.core.StorageV1().StorageClasses().Get(t.Context(), class, metav1.GetOptions{})
		assert.Equal(t, tool == fleet.ToolArgo && class == "longhorn", apierrors.IsNotFound(err), "%s: %v", class, err)
	}
	eventually(t, 30*time.Second, "gpu-guard leaves, if the tool deletes anything", func(ctx context.Context) error {
		_, err := s.core.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, "gpu-guard", metav1.GetOptions{})
		if apierrors.IsNotFound(err) == tool.Uninstalls() {
			return nil
		}
		return errors.Join(errors.New("not yet"), err)
	})
	for namespace, name := range map[string]string{"ceph-csi": "provisioner", "longhorn-system": "longhorn-ui"} {
		all, err := s.core.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		found := false
		for _, d := range all.Items {
			found = found || strings.Contains(d.Name, name)
		}
		assert.Equal(t, tool != fleet.ToolArgo || namespace != "longhorn-system", found, namespace)
	}
}
