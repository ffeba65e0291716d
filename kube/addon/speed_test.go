package addon_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube/addon"
)

// A volume is measured on the node that is asked for, by what dd says, and nothing is left. A
// class that is missing, and a claim that waits, say so.
func TestMeasure(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		p := addon.Probe{Class: "nfs", Tolerations: addon.Tolerations([]corev1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"}}), Timeout: time.Minute}
		_, err := p.Measure(t.Context(), s.Client, "gpu")
		require.EqualError(t, err, "there is no storage class nfs")

		_, err = s.Apply(t.Context(), nfsClass(t), &corev1.Event{ // nobody provisions, as this says
			ObjectMeta: metav1.ObjectMeta{Name: "why", Namespace: addon.ProbeNamespace}, Reason: "ProvisioningFailed", Message: "mount.nfs: access denied by server", Type: "Warning",
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: addon.ProbeNamespace, Name: "speed-nfs-gpu"}, LastTimestamp: metav1.Now(),
		}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: addon.ProbeNamespace}})
		require.NoError(t, err)
		_, err = p.Measure(t.Context(), s.Client, "gpu")
		require.ErrorContains(t, err, "claim homelab-probe/speed-nfs-gpu has no volume: ProvisioningFailed: mount.nfs: access denied by server")
		s.clean(t)

		s.provide(t, nfsClass(t))
		speed, err := p.Measure(t.Context(), s.Client, "gpu")
		require.NoError(t, err)
		assert.InEpsilon(t, 500, speed.Write, 0.001)
		assert.InEpsilon(t, 2000, speed.Read, 0.001)
		assert.Equal(t, []string{"speed gpu"}, s.ran)
		s.clean(t)

		for words, want := range map[string]string{
			"cached\n1000000 bytes copied, 1 s\n1000000 bytes copied, 1e-9 s": "", "": `left no result, but ""`, "direct\na\nb": `dd said "a"`,
		} {
			s.lies.Store(&words)
			speed, err = p.Measure(t.Context(), s.Client, "gpu")
			if want == "" {
				require.NoError(t, err)
				assert.Equal(t, addon.Speed{Write: 1}, speed)
				continue
			}
			require.ErrorContains(t, err, want)
		}
		s.clean(t)
	})
}
