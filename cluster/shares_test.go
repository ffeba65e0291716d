package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestSharesOfNamespaces: shares of two servers are claims that are bound; a mount option changes in place; a share
// that leaves the file goes without asking, since its data stays; one that moves to another folder is refused.
func TestSharesOfNamespaces(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := withPlatform(t, "one-gpu", "\nstorage:\n  nfs: {server: 192.168.1.5, export: /export/k3s, shares: {SHARES}}\n")
		with := func(shares string) string { return replace(t, text, "SHARES", shares) }
		file := parse(t, with(`films: {export: "192.168.1.6:/films", readOnly: true, namespaces: [research, course]}, data: {export: /export/data, namespaces: [research]}`))
		w.up(t, file)
		assert.Empty(t, w.plan(t, file))
		k := w.api(t)
		for volume, source := range map[string][2]string{
			"homelab-share-research-films": {"192.168.1.6", "/films"}, "homelab-share-course-films": {"192.168.1.6", "/films"}, "homelab-share-research-data": {"192.168.1.5", "/export/data"},
		} {
			pv := &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: volume}}
			require.NoError(t, k.Get(t.Context(), pv))
			assert.Equal(t, corev1.VolumeBound, pv.Status.Phase, volume)
			assert.Equal(t, source, [2]string{pv.Spec.CSI.VolumeAttributes["server"], pv.Spec.CSI.VolumeAttributes["share"]})
		}

		c := func(spec *spec.Spec) *cluster.Cluster {
			c := w.cluster(t, spec)
			t.Cleanup(func() { c.Close() })
			return c
		}
		run := func(spec *spec.Spec) *converge.Report { // and nobody is asked
			report, err := c(spec).Up().Run(t.Context(), w.listen(t))
			require.NoError(t, err)
			return report
		}
		file = parse(t, with(`films: {export: "192.168.1.6:/films", namespaces: [research]}`))
		assert.Len(t, w.plan(t, file), 1)
		assert.Equal(t, []string{"objects/nfs"}, changedSteps(run(file)))
		assert.Empty(t, w.plan(t, file))
		now := w.stands(t)
		assert.Contains(t, now, "persistentvolumeclaims research/films")
		assert.NotContains(t, now, "persistentvolumeclaims course/films")
		assert.NotContains(t, now, "persistentvolumes /homelab-share-research-data")

		_, err := c(parse(t, with(`films: {export: "192.168.1.6:/other", namespaces: [research]}`))).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "spec.persistentvolumesource is immutable after creation")
		assert.Contains(t, w.stands(t), "persistentvolumeclaims research/films")
	})
}

// TestClassesOfNFS: a class of another server is one more that is tried; it goes without asking, its volumes stay, and
// the driver with them.
func TestClassesOfNFS(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		bare := withPlatform(t, "one-gpu", "")
		text := withPlatform(t, "one-gpu", "\nstorage:\n  nfs: {server: 192.168.1.5, export: /export/k3s, classes: {CLASSES}}\n")
		file := parse(t, replace(t, text, "CLASSES", `bulk: "192.168.1.6:/bulk", fast: /export/fast`))
		w.up(t, file)
		assert.Empty(t, w.plan(t, file))
		k := w.api(t)
		of := func(name string) *storagev1.StorageClass {
			sc := &storagev1.StorageClass{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
			require.NoError(t, k.Get(t.Context(), sc))
			assert.NotEmpty(t, sc.Annotations["homelab.cps-gpu.github.com/probed"], name)
			return sc
		}
		for name, want := range map[string][3]string{"nfs": {"192.168.1.5", "/export/k3s", "true"}, "bulk": {"192.168.1.6", "/bulk", "false"}, "fast": {"192.168.1.5", "/export/fast", "false"}} {
			sc := of(name)
			assert.Equal(t, want, [3]string{sc.Parameters["server"], sc.Parameters["share"], sc.Annotations["storageclass.kubernetes.io/is-default-class"]})
		}
		bulk := "bulk"
		claim := &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "films"},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &bulk, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
		_, err := k.Apply(t.Context(), claim)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return k.Get(t.Context(), claim) == nil && claim.Status.Phase == corev1.ClaimBound }, time.Minute, time.Second)

		run := func(spec *spec.Spec) (*converge.Report, error) { // and nobody is asked
			c := w.cluster(t, spec)
			t.Cleanup(func() { c.Close() })
			return c.Up().Run(t.Context(), w.listen(t))
		}
		file = parse(t, replace(t, text, "CLASSES", `fast: "192.168.1.6:/fast"`))
		assert.Contains(t, w.plan(t, file)[0], "storageclass/bulk: there → (none) [no longer in the file; its volumes stay")
		report, err := run(file)
		require.NoError(t, err)
		assert.Equal(t, []string{"objects/nfs", "storage/fast"}, changedSteps(report))
		assert.Empty(t, w.plan(t, file))
		assert.Equal(t, "192.168.1.6", of("fast").Parameters["server"])
		assert.NotContains(t, w.stands(t), "storageclasses.storage.k8s.io /bulk")
		require.NoError(t, k.Get(t.Context(), claim))
		assert.Equal(t, corev1.ClaimBound, claim.Status.Phase)

		_, err = run(parse(t, bare))
		require.ErrorContains(t, err, "part nfs is no longer in the file but stays: volumes of nfs, fast, bulk are in use and could not be mounted without it: default/films")
		require.NoError(t, k.Delete(t.Context(), claim))
		_, err = run(parse(t, bare))
		require.NoError(t, err)
		assert.NotContains(t, strings.Join(w.stands(t), "\n"), "csi-nfs")
	})
}
