package addon_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// goldenObjects compares objects, as YAML documents, with a file.
func goldenObjects(t *testing.T, name string, objects []runtime.Object) {
	t.Helper()
	var got []byte
	for _, o := range objects {
		b, err := yaml.Marshal(o)
		require.NoError(t, err)
		got = append(append(got, "---\n"...), b...)
	}
	path := filepath.Join("testdata/plugin", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update")
	assert.Equal(t, string(want), string(got))
}

func TestDevicePlugin(t *testing.T) {
	gpuTaint := corev1.Taint{Key: nvidia.TaintKey, Value: nvidia.TaintValue, Effect: corev1.TaintEffectNoSchedule}
	pool := corev1.Taint{Key: "pool", Value: "a100", Effect: corev1.TaintEffectNoExecute}
	for name, o := range map[string]addon.PluginOptions{
		"exclusive":    {Taints: []corev1.Taint{pool, gpuTaint}},
		"time-slicing": {Sharing: spec.SharingTimeSlicing, Replicas: 4},
		"mps":          {Sharing: spec.SharingMPS, Replicas: 2, Namespace: "gpu"},
		"mig":          {MIG: nvidia.MIGMixed},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := addon.DevicePlugin(o)
			require.NoError(t, err)
			again, err := addon.DevicePlugin(o)
			require.NoError(t, err)
			assert.Equal(t, objects, again)
			goldenObjects(t, name+".yaml", objects)
			for _, object := range objects {
				assert.NotEmpty(t, object.GetObjectKind().GroupVersionKind().Kind)
				if ds, ok := object.(*appsv1.DaemonSet); ok {
					assertTolerates(t, ds.Spec.Template.Spec, append(o.Taints, gpuTaint)...)
					assert.Equal(t, nvidia.RuntimeClass, *ds.Spec.Template.Spec.RuntimeClassName)
				}
			}
		})
	}
}

// N5: a taint on the nodes that something we deploy does not tolerate.
func assertTolerates(t *testing.T, pod corev1.PodSpec, taints ...corev1.Taint) {
	t.Helper()
	for _, taint := range taints {
		var tolerated bool
		for _, tol := range pod.Tolerations {
			sameValue := tol.Operator == corev1.TolerationOpExists || tol.Value == taint.Value
			tolerated = tolerated || tol.Key == taint.Key && sameValue && (tol.Effect == "" || tol.Effect == taint.Effect)
		}
		assert.True(t, tolerated, "%v is not tolerated", taint)
	}
}

// A changed configuration must start new pods: the plugin reads it once.
func TestChangedConfigChangesThePods(t *testing.T) {
	four, err := addon.DevicePlugin(addon.PluginOptions{Sharing: spec.SharingTimeSlicing, Replicas: 4})
	require.NoError(t, err)
	five, err := addon.DevicePlugin(addon.PluginOptions{Sharing: spec.SharingTimeSlicing, Replicas: 5})
	require.NoError(t, err)
	assert.NotEqual(t, four[2].(*appsv1.DaemonSet).Spec.Template, five[2].(*appsv1.DaemonSet).Spec.Template)
}

func TestDevicePluginRefuses(t *testing.T) {
	for want, o := range map[string]addon.PluginOptions{
		"time-slicing with 1 replicas shares nothing":     {Sharing: spec.SharingTimeSlicing, Replicas: 1},
		"mps with 0 replicas":                             {Sharing: spec.SharingMPS},
		"4 replicas of a GPU that is not shared":          {Replicas: 4},
		`sharing "half": want time-slicing or mps`:        {Sharing: "half"},
		`MIG strategy "some": want none, single or mixed`: {MIG: "some"},
		"MPS does not work on instances":                  {Sharing: spec.SharingMPS, Replicas: 2, MIG: nvidia.MIGSingle},
	} {
		_, err := addon.DevicePlugin(o)
		assert.ErrorContains(t, err, want)
	}
}

// One share of a GPU is the whole of it, and no sharing.
func TestOneReplicaIsNoSharing(t *testing.T) {
	one, err := addon.DevicePlugin(addon.PluginOptions{Replicas: 1})
	require.NoError(t, err)
	whole, err := addon.DevicePlugin(addon.PluginOptions{})
	require.NoError(t, err)
	assert.Equal(t, whole, one)
}
