package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube"
)

// A kubeconfig may come from another machine: what it takes from this one is refused by
// name, and neither read nor run.
func TestAKubeconfigIsWholeByItself(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	file := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(file, []byte("of this machine"), 0o600))
	config := func(cluster, user string) []byte {
		return []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "https://127.0.0.1:6443"` + cluster + `}}], users: [{name: a, user: {` + user + `}}]}`)
	}
	for what, bytes := range map[string][]byte{
		"exec":    config("", `exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: ["`+ran+`"]}`),
		"auth":    config("", `auth-provider: {name: oidc}`),
		"token":   config("", `tokenFile: `+file),
		"cert":    config("", `client-certificate: `+file),
		"key":     config("", `client-key: `+file),
		"ca":      config(`, certificate-authority: `+file, `token: a`),
		"another": []byte(strings.Replace(string(config("", "token: a")), "users: [", `users: [{name: b, user: {tokenFile: `+file+`}}, `, 1)),
	} {
		_, err := kube.New(kube.Config{Kubeconfig: bytes})
		require.ErrorContains(t, err, "this machine", what)
		require.ErrorContains(t, err, "--flatten", what)
	}
	assert.NoFileExists(t, ran)
	_, err := kube.New(kube.Config{Kubeconfig: config("", "token: a")})
	require.NoError(t, err)
}
