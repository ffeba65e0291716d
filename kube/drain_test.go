package kube_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/kube"
)

func sleepMinute() { time.Sleep(time.Minute) }

// notebooks is a StatefulSet that only runs on one node, with a budget that
// forbids to take it away.
const notebooks = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: hub}
spec:
  selector: {matchLabels: {app: hub}}
  serviceName: hub
  template:
    metadata: {labels: {app: hub}}
    spec:
      nodeSelector: {kubernetes.io/hostname: wk1}
      containers: [{name: hub, image: hub}]
`

const budget = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: hub}
spec: {minAvailable: 1, selector: {matchLabels: {app: hub}}}
`

// onWK1 returns the pods on wk1 that ask for CPUs.
func onWK1(t *testing.T, w world) []string {
	t.Helper()
	var names []string
	held, err := w.WhoHolds(t.Context(), "cpu", "wk1")
	require.NoError(t, err)
	for _, h := range held {
		names = append(names, h.Pod)
	}
	return names
}

func TestDrainEvictsAllButDaemons(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		withGPUs(t, w, "wk1")
		_, err := w.Apply(t.Context(), decode(t, strings.ReplaceAll(notebooks, "image: hub", "image: hub, resources: {requests: {cpu: 1}}"))...)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		assert.Len(t, onWK1(t, w), 1)
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{}))
		assert.Empty(t, onWK1(t, w))
		n, err := w.Node(t.Context(), "wk1")
		require.NoError(t, err)
		assert.True(t, n.Cordoned)
		assert.EqualValues(t, 2, n.Count(gpu), "the device plugin is a daemon and stays")
		w.writes.take()
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{}))
		assert.Empty(t, w.writes.take(), "draining an empty node writes nothing")
	})
}

func TestDrainHonoursBudgets(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		_, err := w.Apply(t.Context(), decode(t, notebooks+"---"+budget)...)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)

		var mu sync.Mutex
		var said []string
		ctx := progress.With(t.Context(), func(u progress.Update) { mu.Lock(); defer mu.Unlock(); said = append(said, u.Message) })
		began := time.Now()
		err = w.Drain(ctx, "wk1", kube.Drain{Timeout: 30 * time.Second})
		assert.WithinDuration(t, began.Add(30*time.Second), time.Now(), 3*time.Second)
		var drain *kube.DrainError
		require.ErrorAs(t, err, &drain)
		assert.Regexp(t, `^drain node wk1: 1 pods are still there: pod default/hub-\w+: PDB The disruption budget hub needs 1 healthy pods and has 1 currently$`, err.Error())
		mu.Lock()
		assert.Regexp(t, `^draining wk1: waiting for pod default/hub-\w+: PDB `, said[0])
		mu.Unlock()

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, w.Drain(ctx, "wk1", kube.Drain{}), context.DeadlineExceeded)

		// The budget goes while the drain waits for it.
		go func() {
			time.Sleep(10 * time.Second)
			_ = w.Delete(t.Context(), decode(t, budget)...)
		}()
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{}))
	})
}

func TestDrainRefusesToLoseData(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lone"}, Spec: corev1.PodSpec{
			NodeName: "wk1", Containers: []corev1.Container{{Name: "a", Image: "a"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}}
		_, err := w.Apply(t.Context(), pod)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		assert.ErrorContains(t, w.Drain(t.Context(), "wk1", kube.Drain{}), "pod default/lone belongs to nothing that would make it again")
		assert.ErrorContains(t, w.Drain(t.Context(), "wk1", kube.Drain{Force: true}), "has data in an emptyDir")
		require.NoError(t, w.Drain(t.Context(), "wk1", kube.Drain{Force: true, DeleteEmptyDir: true}))
		_, ok, err := w.Ready(t.Context(), pod)
		require.NoError(t, err)
		assert.False(t, ok)
	})
}

func TestDeleteNode(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "wk1.node-password.k3s"}}
		require.NoError(t, w.Get(t.Context(), secret))
		require.NoError(t, w.DeleteNode(t.Context(), "wk1"))
		require.NoError(t, w.DeleteNode(t.Context(), "wk1"), "twice is fine")
		require.ErrorIs(t, w.Get(t.Context(), secret), kube.ErrNotFound, "the name is free")
		assert.False(t, w.sim.HasNode("wk1"))
	})
}
