package charttest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// helmReads reads a record with the code that `helm list` reads it with.
func helmReads(t *testing.T, s *corev1.Secret) *release.Release {
	t.Helper()
	rel, err := driver.NewSecrets(fake.NewClientset(s).CoreV1().Secrets(s.Namespace)).Get(s.Name)
	require.NoError(t, err)
	return rel
}
