package nvidia

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// golden compares objects, as YAML documents, with a file.
func golden(t *testing.T, name string, objects []runtime.Object) {
	t.Helper()
	var got []byte
	for _, o := range objects {
		b, err := yaml.Marshal(o)
		require.NoError(t, err)
		got = append(append(got, "---\n"...), b...)
	}
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update")
	assert.Equal(t, string(want), string(got))
}

func TestDevicePlugin(t *testing.T) {
	pool := corev1.Taint{Key: "pool", Value: "a100", Effect: corev1.TaintEffectNoExecute}
	for name, o := range map[string]PluginOptions{
		"exclusive":    {Taints: []corev1.Taint{pool, Taint()}},
		"time-slicing": {Sharing: TimeSlicing, Replicas: 4},
		"mps":          {Sharing: MPS, Replicas: 2, Namespace: "gpu"},
		"mig":          {MIG: MIGMixed},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := DevicePlugin(o)
			require.NoError(t, err)
			again, err := DevicePlugin(o)
			require.NoError(t, err)
			assert.Equal(t, objects, again)
			golden(t, "plugin-"+name+".yaml", objects)
			for _, object := range objects {
				assert.NotEmpty(t, object.GetObjectKind().GroupVersionKind().Kind)
				if ds, ok := object.(*appsv1.DaemonSet); ok {
					assertTolerates(t, ds.Spec.Template.Spec, append(o.Taints, Taint())...)
					assert.Equal(t, RuntimeClass, *ds.Spec.Template.Spec.RuntimeClassName)
				}
			}
		})
	}
}

// N5: a taint on the nodes that something we deploy does not tolerate.
func assertTolerates(t *testing.T, spec corev1.PodSpec, taints ...corev1.Taint) {
	t.Helper()
	for _, taint := range taints {
		var tolerated bool
		for _, tol := range spec.Tolerations {
			sameValue := tol.Operator == corev1.TolerationOpExists || tol.Value == taint.Value
			tolerated = tolerated || tol.Key == taint.Key && sameValue && (tol.Effect == "" || tol.Effect == taint.Effect)
		}
		assert.True(t, tolerated, "%v is not tolerated", taint)
	}
}

// A changed configuration must start new pods: the plugin reads it once.
func TestChangedConfigChangesThePods(t *testing.T) {
	four, err := DevicePlugin(PluginOptions{Sharing: TimeSlicing, Replicas: 4})
	require.NoError(t, err)
	five, err := DevicePlugin(PluginOptions{Sharing: TimeSlicing, Replicas: 5})
	require.NoError(t, err)
	assert.NotEqual(t, four[2].(*appsv1.DaemonSet).Spec.Template, five[2].(*appsv1.DaemonSet).Spec.Template)
}

func TestDevicePluginRefuses(t *testing.T) {
	for want, o := range map[string]PluginOptions{
		"time-slicing with 1 replicas shares nothing":     {Sharing: TimeSlicing, Replicas: 1},
		"mps with 0 replicas":                             {Sharing: MPS},
		"4 replicas of a GPU that is not shared":          {Replicas: 4},
		`sharing "half": want time-slicing or mps`:        {Sharing: "half"},
		`MIG strategy "some": want none, single or mixed`: {MIG: "some"},
		"MPS does not work on instances":                  {Sharing: MPS, Replicas: 2, MIG: MIGSingle},
	} {
		_, err := DevicePlugin(o)
		assert.ErrorContains(t, err, want)
	}
}

func TestLabels(t *testing.T) {
	assert.Equal(t, map[string]string{"nvidia.com/gpu.present": "true"}, Labels())
}

// One share of a GPU is the whole of it, and no sharing.
func TestOneReplicaIsNoSharing(t *testing.T) {
	one, err := DevicePlugin(PluginOptions{Replicas: 1})
	require.NoError(t, err)
	whole, err := DevicePlugin(PluginOptions{})
	require.NoError(t, err)
	assert.Equal(t, whole, one)
}

// Every taint but our own, which is tolerated anyway, has its toleration.
func TestTolerationsOfEachTaint(t *testing.T) {
	a := corev1.Taint{Key: "pool", Value: "a100", Effect: corev1.TaintEffectNoExecute}
	b := corev1.Taint{Key: taintKey, Effect: corev1.TaintEffectNoExecute}
	c := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule}
	ours := corev1.Toleration{Key: taintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	assert.Equal(t, []corev1.Toleration{ours}, Tolerations(Taint()))
	assert.Equal(t, []corev1.Toleration{
		ours,
		{Key: "pool", Operator: corev1.TolerationOpEqual, Value: "a100", Effect: corev1.TaintEffectNoExecute},
		{Key: taintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: "other", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}, Tolerations(a, Taint(), b, c))
}
