package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
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
