package cluster_test

import (
	"context"
	"strings"
	"syscall"
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
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia/check"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const volumePlatform = `
storage:
  default: nfs
  nfs: {server: 10.0.0.5, export: /export/k3s}
  scratch: {}
hub:
  hostname: hub.lab.example
  auth: dummy
  scratch: {size: 50GiB}
`

// Volumes like those of users are written on every node with GPUs: one that is full, read-only,
// slow or missing is a row, and nothing is left.
func TestVerifyVolumes(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, withPlatform(t, "eight-a100", volumePlatform))
		w.up(t, spec)
		claims := w.kube.Clusters()[0].Names("persistentvolumeclaims")
		for node, f := range map[string]guest.Faults{
			"wk-gpu1": {VolumesRefuse: syscall.ENOSPC}, "wk-gpu2": {VolumesRefuse: syscall.EROFS}, "wk-gpu3": {VolumesAreSlow: true},
		} {
			w.sim.SetGuestFaults(w.vm(t, node).ID, f)
		}
		all, err := w.verifyAll(t, spec)
		require.Error(t, err)
		details := map[string]string{}
		for _, c := range all {
			if c.Name == check.Scratch || c.Name == check.Home {
				details[c.Node+" "+c.Name] = string(c.Verdict) + ": " + c.Detail
				switch c.Node {
				case "wk-gpu1", "wk-gpu2":
					assert.Empty(t, c.Measures)
				default:
					speeds := map[string][2]float64{"wk-gpu3": {16, 32}, "wk-gpu4": {800, 1600}}[c.Node]
					require.Len(t, c.Measures, 2)
					assert.Equal(t, c.Name+" write", c.Measures[0].Name)
					assert.InEpsilon(t, speeds[0], c.Measures[0].Value, 0.01)
					assert.InEpsilon(t, speeds[1], c.Measures[1].Value, 0.01)
				}
			}
		}
		assert.Equal(t, map[string]string{
			"wk-gpu1 scratch": "failed: class scratch: the pod ended with exit status 1: dd: error writing '/probe/data': No space left on device",
			"wk-gpu1 home":    "failed: class nfs: the pod ended with exit status 1: dd: error writing '/probe/data': No space left on device",
			"wk-gpu2 scratch": "failed: class scratch: the pod ended with exit status 1: dd: can't open '/probe/data': Read-only file system",
			"wk-gpu2 home":    "failed: class nfs: the pod ended with exit status 1: dd: can't open '/probe/data': Read-only file system",
			"wk-gpu3 scratch": "passed: class scratch: 128 MiB written and read back",
			"wk-gpu3 home":    "passed: class nfs: 128 MiB written and read back",
			"wk-gpu4 scratch": "passed: class scratch: 128 MiB written and read back",
			"wk-gpu4 home":    "passed: class nfs: 128 MiB written and read back",
		}, details)
		assert.Equal(t, claims, w.kube.Clusters()[0].Names("persistentvolumeclaims"))
		assert.Empty(t, w.plan(t, spec), "the verification leaves nothing")

		w.interrupt(t, spec)
		assert.Equal(t, claims, w.kube.Clusters()[0].Names("persistentvolumeclaims"), "an interrupted run leaves nothing, too")

		// One run was killed, another class is gone, and a claim is somebody else's.
		left := func(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
			return &corev1.PersistentVolumeClaim{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: addon.ProbeNamespace, Labels: labels},
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
			}
		}
		_, err = w.api(t).Apply(t.Context(), left("speed-nfs-wk-gpu4", map[string]string{"app.kubernetes.io/managed-by": "homelab"}), left("speed-nfs-wk-gpu3", nil))
		require.NoError(t, err)
		require.NoError(t, w.api(t).Delete(t.Context(), &storagev1.StorageClass{
			TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: metav1.ObjectMeta{Name: "scratch"}}))
		all, err = w.verifyAll(t, spec)
		require.ErrorContains(t, err, "volumes/wk-gpu4: wk-gpu4: scratch: there is no storage class scratch")
		require.ErrorContains(t, err, "wk-gpu3: home: class nfs: claim homelab-probe/speed-nfs-wk-gpu3 is not homelab's, so it is not touched")
		assert.Equal(t, check.Passed, verdicts(all, check.Home)["wk-gpu4"])
		names := w.kube.Clusters()[0].Names("persistentvolumeclaims")
		assert.Contains(t, names, "homelab-probe/speed-nfs-wk-gpu3")
		assert.Len(t, names, len(claims)+1)
	})
}

// interrupt verifies, and gives up while volumes are written.
func (w *world) interrupt(t *testing.T, spec *spec.Spec) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := w.cluster(t, spec)
	defer c.Close()
	graph, v := c.GPUVerify(cluster.VerifyFull, 0)
	_, err := graph.Run(ctx, func(e converge.Event) {
		if e.Kind == converge.Acting && strings.HasPrefix(e.Step, "volumes/") {
			time.AfterFunc(time.Second, cancel)
		}
	})
	require.Error(t, err)
	require.NoError(t, v.Clean(t.Context()))
}
