package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube"
)

func storageClass(parameters map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Provisioner: "x.example", Parameters: parameters}
}

// An annotation stays when the object is applied again, and does not count as a difference.
func TestAnnotationsAreNobodyElses(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		sc := storageClass(map[string]string{"share": "/a"})
		_, err := w.Apply(t.Context(), sc)
		require.NoError(t, err)
		require.NoError(t, w.Annotate(t.Context(), storageClass(nil), map[string]string{"example.org/tried": "yes"}))
		d, err := w.Diff(t.Context(), sc)
		require.NoError(t, err)
		assert.Empty(t, d)
		changes, err := w.Apply(t.Context(), sc)
		require.NoError(t, err)
		assert.Equal(t, kube.Unchanged, changes[0].Result)
		live := storageClass(nil)
		require.NoError(t, w.Get(t.Context(), live))
		assert.Equal(t, "yes", live.Annotations["example.org/tried"])
		assert.Equal(t, "/a", live.Parameters["share"])

		require.NoError(t, w.Annotate(t.Context(), live, map[string]string{"example.org/tried": ""}))
		live = storageClass(nil)
		require.NoError(t, w.Get(t.Context(), live))
		assert.NotContains(t, live.Annotations, "example.org/tried")
		err = w.Annotate(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "none"}}, map[string]string{"a": "b"})
		require.ErrorIs(t, err, kube.ErrNotFound)
	})
}

func TestApplyAnew(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		first := storageClass(map[string]string{"share": "/a"})
		change, err := w.ApplyOrRecreate(t.Context(), first)
		require.NoError(t, err)
		assert.Equal(t, "storageclass c created", change.String())
		change, err = w.ApplyOrRecreate(t.Context(), first)
		require.NoError(t, err)
		assert.Equal(t, kube.Unchanged, change.Result)

		second := storageClass(map[string]string{"share": "/b"})
		_, err = w.Apply(t.Context(), second)
		require.ErrorIs(t, err, kube.ErrInvalid)
		change, err = w.ApplyOrRecreate(t.Context(), second)
		require.NoError(t, err)
		assert.Equal(t, kube.Configured, change.Result)
		live := storageClass(nil)
		require.NoError(t, w.Get(t.Context(), live))
		assert.Equal(t, "/b", live.Parameters["share"])
	})
}

func TestClaimAndPodSayWhatTheyWaitFor(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w world) {
		claim, err := w.ClaimState(t.Context(), "default", "c")
		require.NoError(t, err)
		assert.Equal(t, kube.Claim{}, claim)
		pod, err := w.PodState(t.Context(), "default", "p")
		require.NoError(t, err)
		assert.Equal(t, kube.Pod{}, pod)

		class, now := "c", metav1.Now()
		event := func(kind, name, verdict, reason, message string) *corev1.Event {
			return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name + "." + strings.ToLower(reason), Namespace: "default"}, Type: verdict, Reason: reason, Message: message,
				InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "default", Name: name}, LastTimestamp: now}
		}
		_, err = w.Apply(t.Context(), storageClass(nil),
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"},
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}},
			event("PersistentVolumeClaim", "c", corev1.EventTypeNormal, "ExternalProvisioning", "waiting for a volume to be created"),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "main", Image: "busybox", Args: []string{"exit", "3", "broken"}}}}})
		require.NoError(t, err)
		claim, err = w.ClaimState(t.Context(), "default", "c")
		require.NoError(t, err)
		assert.True(t, claim.Found)
		assert.NotEmpty(t, claim.UID)
		assert.False(t, claim.Bound)
		assert.Equal(t, "ExternalProvisioning: waiting for a volume to be created", claim.Reason)
		_, err = w.Apply(t.Context(), event("PersistentVolumeClaim", "c", corev1.EventTypeWarning, "ProvisioningFailed", "no route to host"))
		require.NoError(t, err)
		claim, err = w.ClaimState(t.Context(), "default", "c")
		require.NoError(t, err)
		assert.Equal(t, "ProvisioningFailed: no route to host", claim.Reason, "a warning says more")

		time.Sleep(time.Minute)
		pod, err = w.PodState(t.Context(), "default", "p")
		require.NoError(t, err)
		assert.True(t, pod.Ended())
		assert.Equal(t, corev1.PodFailed, pod.Phase)
		require.Len(t, pod.Ends, 1)
		assert.Equal(t, 3, pod.Ends[0].ExitCode)
		assert.Contains(t, pod.Ends[0].Message, "broken")
	})
}

// A pod that has ended has its phase as the only reason; a phase of tomorrow is none.
func TestEnded(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		corev1.PodSucceeded: true, corev1.PodFailed: true,
		corev1.PodPending: false, corev1.PodRunning: false, corev1.PodUnknown: false, "": false, "Resting": false,
	} {
		assert.Equal(t, want, kube.PodEnded(phase), phase)
		assert.Equal(t, want, kube.Pod{Phase: phase}.Ended(), phase)
	}
}
