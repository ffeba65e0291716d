package kubeconfig_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/kubeconfig"
)

const sample = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://127.0.0.1:6443
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
kind: Config
users:
- name: default
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
`

func TestRewrite(t *testing.T) {
	out, err := kubeconfig.Rewrite([]byte(sample), kubeconfig.Access{Server: "https://10.0.0.10:6443", ProxyURL: "socks5://127.0.0.1:1080"})
	require.NoError(t, err)
	assert.Contains(t, string(out), "proxy-url: socks5://127.0.0.1:1080")
	assert.Contains(t, string(out), "current-context: default")
	_, err = kubeconfig.Rewrite([]byte("clusters: []"), kubeconfig.Access{})
	assert.EqualError(t, err, "kubeconfig: expected one entry in clusters, found 0")
}

// Anyone who is root on a server writes its kubeconfig, and we use it: it has us read no file
// of ours, run nothing, and trust nobody else.
func TestAKubeconfigOfAStranger(t *testing.T) {
	for at, keys := range map[string][]string{
		"    client-key-data: S0VZ\n": {
			"    exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, args: [-c, id]}\n", "    tokenFile: /root/.ssh/id_ed25519\n",
			"    auth-provider: {name: gcp}\n", "    client-key: /root/key\n", "    client-certificate: /root/cert\n", "    as: root\n",
		},
		"    server: https://127.0.0.1:6443\n": {"    certificate-authority: /root/ca\n", "    insecure-skip-tls-verify: true\n", "    tls-server-name: other\n"},
		"kind: Config\n":                       {"extensions: [{name: a, extension: {}}]\n"},
	} {
		for _, key := range keys {
			_, err := kubeconfig.Rewrite([]byte(strings.Replace(sample, at, at+key, 1)), kubeconfig.Access{Server: "https://10.0.0.10:6443"})
			name, _, _ := strings.Cut(strings.TrimSpace(key), ":")
			require.ErrorContains(t, err, name, key)
		}
	}
	out, err := kubeconfig.Rewrite([]byte(strings.Replace(sample, "    server:", "    proxy-url: http://stranger\n    server:", 1)), kubeconfig.Access{Server: "https://10.0.0.10:6443"})
	require.NoError(t, err)
	assert.NotContains(t, string(out), "stranger")
	_, err = kubeconfig.Rewrite([]byte(sample+"preferences: {}\n"), kubeconfig.Access{Server: "https://10.0.0.10:6443"})
	assert.NoError(t, err, "K3s wrote this once")
}

func FuzzRewrite(f *testing.F) {
	f.Add(sample, "https://10.0.0.10:6443", "lab")
	f.Add("clusters: [{cluster: {}}]\nusers: [{}]\ncontexts: [{context: 1}]", "https://[::1]:6443", "")
	f.Fuzz(func(t *testing.T, config, server, name string) {
		out, err := kubeconfig.Rewrite([]byte(config), kubeconfig.Access{Server: server, Cluster: name})
		if err != nil {
			return
		}
		again, err := kubeconfig.Rewrite(out, kubeconfig.Access{Server: server, Cluster: name})
		require.NoError(t, err)
		assert.Equal(t, string(out), string(again), "rewriting is done once")
	})
}

// What a kubeconfig trusts is read from the one cluster that it has.
func TestAuthority(t *testing.T) {
	ca, err := kubeconfig.Authority([]byte("clusters: [{name: home, cluster: {server: https://a:6443, certificate-authority-data: Y2E=}}]"))
	require.NoError(t, err)
	assert.Equal(t, "ca", string(ca))
	for _, text := range []string{
		"", "clusters: [", "clusters: [{name: home, cluster: {server: https://a:6443}}]",
		"clusters: [{cluster: {certificate-authority-data: Y2E=}}, {cluster: {certificate-authority-data: Y2I=}}]",
	} {
		_, err := kubeconfig.Authority([]byte(text))
		require.ErrorContains(t, err, "kubeconfig: ", text)
	}
}
