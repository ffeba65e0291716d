package parts

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Storage classes cannot be changed and are recreated; what was not applied for them is
// applied then.
func TestStorageClassesAreRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, sim, _ := failing(t)
		ctx := t.Context()
		class := func(of string) *storagev1.StorageClass {
			return &storagev1.StorageClass{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: of}
		}
		settings := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}, Data: map[string]string{"a": "b"}}
		require.NoError(t, applyClasses(ctx, client, []runtime.Object{class("one"), settings}, errors.New("why")))
		got := &corev1.ConfigMap{TypeMeta: settings.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}}
		require.NoError(t, client.Get(ctx, got))
		assert.Equal(t, "b", got.Data["a"])
		require.EqualError(t, applyClasses(ctx, client, []runtime.Object{settings}, errors.New("why")), "why", "no class was in its way")
		_ = sim.Close()
		synctest.Wait()
	})
}
