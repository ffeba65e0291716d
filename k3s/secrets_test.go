package k3s_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/k3s"
)

const kubeconfig = `apiVersion: v1
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

func TestKubeconfig(t *testing.T) {
	m := newMachine(t)
	_, err := k3s.Kubeconfig(t.Context(), m, "https://10.0.0.10:6443", "lab")
	require.ErrorIs(t, err, k3s.ErrNoCluster)
	m.write("etc/rancher/k3s/k3s.yaml", kubeconfig)
	got, err := k3s.Kubeconfig(t.Context(), m, "https://10.0.0.10:6443", "lab")
	require.NoError(t, err)
	assert.Equal(t, strings.NewReplacer("https://127.0.0.1:6443", "https://10.0.0.10:6443", "default", "lab").Replace(kubeconfig), got.Reveal())

	out, err := k3s.RewriteKubeconfig([]byte(kubeconfig), k3s.Access{Server: "https://10.0.0.10:6443", ProxyURL: "socks5://127.0.0.1:1080"})
	require.NoError(t, err)
	assert.Contains(t, string(out), "proxy-url: socks5://127.0.0.1:1080")
	assert.Contains(t, string(out), "current-context: default")
	_, err = k3s.RewriteKubeconfig([]byte("clusters: []"), k3s.Access{})
	assert.EqualError(t, err, "kubeconfig: expected one entry in clusters, found 0")
}

func FuzzRewriteKubeconfig(f *testing.F) {
	f.Add(kubeconfig, "https://10.0.0.10:6443", "lab")
	f.Add("clusters: [{cluster: {}}]\nusers: [{}]\ncontexts: [{context: 1}]", "https://[::1]:6443", "")
	f.Fuzz(func(t *testing.T, config, server, name string) {
		out, err := k3s.RewriteKubeconfig([]byte(config), k3s.Access{Server: server, Cluster: name})
		if err != nil {
			return
		}
		again, err := k3s.RewriteKubeconfig(out, k3s.Access{Server: server, Cluster: name})
		require.NoError(t, err)
		assert.Equal(t, string(out), string(again), "rewriting is done once")
	})
}

// TestKubeVIPIsTheGeneratedOne compares with what kube-vip's own generator wrote.
func TestKubeVIPIsTheGeneratedOne(t *testing.T) {
	dir := filepath.Join("..", "..", "shared", "data", "values", "kube-vip")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("SKIPPED: there is no copy of kube-vip's generated manifests to compare with: ", err)
	}
	m, err := k3s.KubeVIP(testVIP)
	require.NoError(t, err)
	ours := map[string]map[string]any{}
	for _, doc := range strings.Split(string(m), "---\n")[1:] {
		var o map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
		ours[o["kind"].(string)] = o
	}
	for _, file := range []string{"daemonset.yaml", "rbac.yaml"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		for _, doc := range strings.Split(string(b), "---\n") {
			var theirs map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(doc), &theirs))
			if theirs == nil {
				continue
			}
			kind := theirs["kind"].(string)
			if kind == "DaemonSet" {
				assert.Equal(t, environment(theirs), environment(ours[kind]))
				continue
			}
			assert.Equal(t, theirs["rules"], ours[kind]["rules"])
			assert.Equal(t, theirs["roleRef"], ours[kind]["roleRef"])
			assert.Equal(t, theirs["metadata"], ours[kind]["metadata"])
		}
	}
}
