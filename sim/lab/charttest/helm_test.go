package charttest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// helmReads reads a record with the code that `helm list` reads it with.
func helmReads(t *testing.T, s *corev1.Secret) *release.Release {
	t.Helper()
	rel, err := driver.NewSecrets(fake.NewClientset(s).CoreV1().Secrets(s.Namespace)).Get(s.Name)
	require.NoError(t, err)
	return rel
}

// helmWrites writes a record with the code of `helm upgrade`.
func helmWrites(t *testing.T, rel *release.Release) *corev1.Secret {
	t.Helper()
	api := fake.NewClientset().CoreV1().Secrets(rel.Namespace)
	name := fmt.Sprintf("sh.helm.release.v1.%s.v%d", rel.Name, rel.Version)
	require.NoError(t, driver.NewSecrets(api).Create(name, rel))
	s, err := api.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels}, Type: s.Type, Data: s.Data}
}
