package plane

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestOptionalVariable: a variable of a key that is missing and optional is the one of envFrom, if there is one
// (k8s.io/kubernetes, pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables).
func TestOptionalVariable(t *testing.T) {
	secrets := map[string]map[string][]byte{"shared": {"KEY": []byte("of all")}, "keys": {"ada": []byte("of ada")}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		data, ok := secrets[path.Base(r.URL.Path)]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			return
		}
		_ = json.NewEncoder(w).Encode(corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, Data: data})
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	k := &kubelet{client: client}
	of := func(secret, key string, optional bool) (map[string]string, error) {
		return k.environment(t.Context(), nil, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}, corev1.Container{
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "shared"}}}},
			Env: []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key, Optional: &optional}}}},
		})
	}
	for at, want := range map[[2]string]string{{"keys", "ada"}: "of ada", {"keys", "eve"}: "of all", {"none", "ada"}: "of all"} {
		env, err := of(at[0], at[1], true)
		require.NoError(t, err)
		assert.Equal(t, want, env["KEY"], at)
	}
	_, err = of("keys", "eve", false)
	require.ErrorContains(t, err, "couldn't find key eve")
}
