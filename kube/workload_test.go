package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
)

const gpu = "nvidia.com/gpu"

// job is a Job that ends with an exit status, and says which GPUs it was given.
func job(name string, code int, gpus *int64) []runtime.Object {
	limits := corev1.ResourceList{}
	if gpus != nil {
		limits[gpu] = *resource.NewQuantity(*gpus, resource.DecimalSI)
	}
	none := int32(0)
	return []runtime.Object{&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: batchv1.JobSpec{BackoffLimit: &none, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "busybox", Args: []string{"exit", fmt.Sprint(code), "said"},
				Resources: corev1.ResourceRequirements{Limits: limits}}},
		}}},
	}}
}

func devicePlugin() []runtime.Object {
	labels := map[string]string{"app": "plugin"}
	class := "nvidia"
	return []runtime.Object{&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "plugin", Namespace: "kube-system"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{RuntimeClassName: &class, NodeSelector: map[string]string{"gpu": "yes"},
				Tolerations: []corev1.Toleration{{Key: gpu, Operator: corev1.TolerationOpExists}},
				Containers:  []corev1.Container{{Name: "plugin", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.20.1"}}},
		}},
	}}
}

// withGPUs makes the GPUs of the workers allocatable.
func withGPUs(t *testing.T, w world, workers ...string) {
	t.Helper()
	for _, name := range workers {
		require.NoError(t, w.Mark(t.Context(), name, kube.Marks{Labels: map[string]string{"gpu": "yes"}}))
	}
	_, err := w.Apply(t.Context(), devicePlugin()...)
	require.NoError(t, err)
	reason, ok, err := w.Ready(t.Context(), devicePlugin()[0])
	require.NoError(t, err)
	assert.False(t, ok)
	assert.Contains(t, reason, "daemonset kube-system/plugin: ")
	time.Sleep(15 * time.Second)
	reason, ok, err = w.Ready(t.Context(), devicePlugin()[0])
	require.NoError(t, err)
	require.True(t, ok, reason)
	w.writes.take()
}

func TestNodes(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w world) {
		nodes, err := w.Nodes(t.Context())
		require.NoError(t, err)
		require.Len(t, nodes, 5)
		assert.Equal(t, "cp1", nodes[0].Name)
		assert.Equal(t, "server", nodes[0].Role)
		assert.Equal(t, "agent", nodes[4].Role)
		assert.Equal(t, "10.0.1.12", nodes[4].InternalIP.String())
		assert.Equal(t, "v1.36.5+k3s1", nodes[4].Version)
		for _, n := range nodes {
			assert.True(t, n.Ready, "%s: %s", n.Name, n.Reason)
		}
		w.sim.Leave("wk2")
		time.Sleep(time.Minute)
		n, err := w.Node(t.Context(), "wk2")
		require.NoError(t, err)
		assert.False(t, n.Ready)
		assert.Contains(t, n.Reason, "its kubelet has not reported since")
		_, err = w.Node(t.Context(), "wk9")
		require.ErrorIs(t, err, kube.ErrNotFound)
	})
}

func TestNewNodeSaysWhyItIsNotReady(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		w.join(t, worker("wk1", 0, 0))
		n, err := w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.False(t, n.Ready)
		assert.Contains(t, n.Reason, "KubeletNotReady: container runtime network not ready")
	})
}

func TestGPUsBecomeAllocatableWithThePlugin(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w world) {
		withGPUs(t, w, "wk1", "wk2")
		nodes, err := w.Nodes(t.Context())
		require.NoError(t, err)
		assert.Zero(t, nodes[0].Count(gpu))
		assert.EqualValues(t, 2, nodes[3].Count(gpu))
		assert.EqualValues(t, 2, nodes[4].Count(gpu))
		require.NoError(t, w.Delete(t.Context(), devicePlugin()...))
		time.Sleep(15 * time.Second)
		n, err := w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.Zero(t, n.Count(gpu))
	})
}

func TestJob(t *testing.T) {
	two, three := int64(2), int64(3)
	bubble(t, 1, func(t *testing.T, w world) {
		withGPUs(t, w, "wk1")
		state := func(name string) kube.Job {
			s, err := w.JobState(t.Context(), "default", name)
			require.NoError(t, err)
			return s
		}
		assert.Equal(t, kube.JobMissing, state("good").Phase)
		_, err := w.Apply(t.Context(), job("good", 0, &two)...)
		require.NoError(t, err)
		assert.Equal(t, kube.JobPending, state("good").Phase)
		time.Sleep(10 * time.Second)
		assert.Equal(t, kube.Job{Phase: kube.JobSucceeded, Nodes: []string{"wk1"}}, state("good"))
		_, ok, err := w.Ready(t.Context(), job("good", 0, &two)[0])
		require.NoError(t, err)
		assert.True(t, ok)
		ends, err := w.PodTermination(t.Context(), "default", batchv1.JobNameLabel+"=good")
		require.NoError(t, err)
		require.Len(t, ends, 1)
		assert.Equal(t, "said GPU-wk1-0,GPU-wk1-1", ends[0].Message)
		assert.Equal(t, "wk1", ends[0].Node)

		_, err = w.Apply(t.Context(), append(job("bad", 7, nil), job("big", 0, &three)...)...)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		bad := state("bad")
		assert.Equal(t, kube.JobFailed, bad.Phase)
		assert.Contains(t, bad.Reason, "ended with exit status 7: said")
		big := state("big")
		assert.Equal(t, kube.JobPending, big.Phase)
		assert.Contains(t, big.Reason, "Unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu. no new claims")
	})
}

func TestJobWithoutItsRuntimeClass(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		class := "nvidia-cdi"
		j := job("a", 0, nil)
		j[0].(*batchv1.Job).Spec.Template.Spec.RuntimeClassName = &class
		_, err := w.Apply(t.Context(), j...)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		s, err := w.JobState(t.Context(), "default", "a")
		require.NoError(t, err)
		assert.Contains(t, s.Reason, `RuntimeClass "nvidia-cdi" not found`)
	})
}

func TestWhoHolds(t *testing.T) {
	one := int64(1)
	bubble(t, 2, func(t *testing.T, w world) {
		withGPUs(t, w, "wk1", "wk2")
		hold := job("hold", 0, &one)
		hold[0].(*batchv1.Job).Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways // runs forever here
		hold[0].(*batchv1.Job).Spec.Template.Spec.NodeName = "wk2"
		_, err := w.Apply(t.Context(), hold...)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		holders, err := w.Holders(t.Context(), gpu, "")
		require.NoError(t, err)
		require.Len(t, holders, 1)
		assert.Regexp(t, `^default/hold-\w{5} holds 1 on wk2$`, holders[0].String())
		holders, err = w.Holders(t.Context(), gpu, "wk1")
		require.NoError(t, err)
		assert.Empty(t, holders)
	})
}

func TestSecondRunWritesNothing(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w world) {
		withGPUs(t, w, "wk1", "wk2")
		_, err := w.Apply(t.Context(), devicePlugin()...)
		require.NoError(t, err)
		require.NoError(t, w.Mark(t.Context(), "wk1", kube.Marks{Labels: map[string]string{"gpu": "yes"}}))
		require.NoError(t, w.Uncordon(t.Context(), "wk1"))
		assert.Empty(t, w.writes.take())
		for _, r := range w.sim.Requests()[len(w.sim.Requests())-3:] {
			assert.False(t, r.Mutating(), "%+v", r)
		}
	})
}

// TestManyNodes: a hundred nodes join and get ready, and a thousand are read, in more pages than one.
func TestManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bare(t)
		for i := range 100 {
			w.join(t, worker(fmt.Sprintf("wk%03d", i), i, 2))
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		nodes, err := w.Nodes(t.Context())
		require.NoError(t, err)
		require.Len(t, nodes, 100)
		for _, n := range nodes {
			assert.True(t, n.Ready)
		}
	})

	synctest.Test(t, func(t *testing.T) {
		w := bare(t)
		for i := range 1000 {
			w.join(t, guest.Node{Name: fmt.Sprintf("n%04d", i), Role: "agent", CPUs: 1, Memory: 1 << 30})
		}
		time.Sleep(10 * time.Second)
		nodes, err := w.Nodes(t.Context())
		require.NoError(t, err)
		require.Len(t, nodes, 1000)
	})
}

// TestRestartUsers: anyone who reads a Secret at its start, in any of the ways that there are,
// is restarted, and nobody else.
func TestRestartUsers(t *testing.T) {
	ways := map[string]string{
		"volume":       `volumes: [{name: v, secret: {secretName: SECRET}}], containers: [{name: c, image: c}]`,
		"projected":    `volumes: [{name: v, projected: {sources: [{configMap: {name: x}}, {secret: {name: SECRET}}]}}], containers: [{name: c, image: c}]`,
		"all-of-it":    `containers: [{name: c, image: c, envFrom: [{configMapRef: {name: x}}, {secretRef: {name: SECRET}}]}]`,
		"a-key-of-it":  `containers: [{name: c, image: c, env: [{name: A, value: b}, {name: F, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: B, valueFrom: {secretKeyRef: {name: SECRET, key: k}}}]}]`,
		"before-start": `initContainers: [{name: i, image: i, envFrom: [{secretRef: {name: SECRET}}]}], containers: [{name: c, image: c}]`,
	}
	bubble(t, 0, func(t *testing.T, w world) {
		for _, secret := range []string{"ours", "theirs"} {
			for way, spec := range ways {
				_, err := w.Apply(t.Context(), decode(t, strings.NewReplacer("NAME", secret+"-"+way, "SPEC", strings.ReplaceAll(spec, "SECRET", secret)).Replace(
					`{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME}, spec: {selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {SPEC}}}}`))...)
				require.NoError(t, err)
			}
		}
		refs, err := w.RestartSecretUsers(t.Context(), "default", "ours", "nobody-s")
		require.NoError(t, err)
		var want, got []string
		for way := range ways {
			want = append(want, "ours-"+way)
		}
		for _, r := range refs {
			got = append(got, r.Name)
		}
		assert.ElementsMatch(t, want, got)
	})
}

// TestLongValuesAreCut: a difference shows sixty characters of a value, and says where it
// leaves some out.
func TestLongValuesAreCut(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		object := func(value string) []runtime.Object {
			return decode(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: long}, data: {a: "+value+"}}")
		}
		_, err := w.Apply(t.Context(), object("x")...)
		require.NoError(t, err)
		for n, want := range map[int]string{59: strings.Repeat("é", 59), 60: strings.Repeat("é", 60), 61: strings.Repeat("é", 60) + "…"} {
			d, err := w.Diff(t.Context(), object(strings.Repeat("é", n))...)
			require.NoError(t, err)
			require.Len(t, d, 1)
			assert.Equal(t, want, d[0].Want)
		}
	})
}
