package k3s_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/sim/facts"
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

	out, err := k3s.RewriteKubeconfig([]byte(kubeconfig), k3s.KubeconfigAccess{Server: "https://10.0.0.10:6443", ProxyURL: "socks5://127.0.0.1:1080"})
	require.NoError(t, err)
	assert.Contains(t, string(out), "proxy-url: socks5://127.0.0.1:1080")
	assert.Contains(t, string(out), "current-context: default")
	_, err = k3s.RewriteKubeconfig([]byte("clusters: []"), k3s.KubeconfigAccess{})
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
			_, err := k3s.RewriteKubeconfig([]byte(strings.Replace(kubeconfig, at, at+key, 1)), k3s.KubeconfigAccess{Server: "https://10.0.0.10:6443"})
			name, _, _ := strings.Cut(strings.TrimSpace(key), ":")
			require.ErrorContains(t, err, name, key)
		}
	}
	out, err := k3s.RewriteKubeconfig([]byte(strings.Replace(kubeconfig, "    server:", "    proxy-url: http://stranger\n    server:", 1)), k3s.KubeconfigAccess{Server: "https://10.0.0.10:6443"})
	require.NoError(t, err)
	assert.NotContains(t, string(out), "stranger")
	_, err = k3s.RewriteKubeconfig([]byte(kubeconfig+"preferences: {}\n"), k3s.KubeconfigAccess{Server: "https://10.0.0.10:6443"})
	assert.NoError(t, err, "K3s wrote this once")
}

func FuzzRewriteKubeconfig(f *testing.F) {
	f.Add(kubeconfig, "https://10.0.0.10:6443", "lab")
	f.Add("clusters: [{cluster: {}}]\nusers: [{}]\ncontexts: [{context: 1}]", "https://[::1]:6443", "")
	f.Fuzz(func(t *testing.T, config, server, name string) {
		out, err := k3s.RewriteKubeconfig([]byte(config), k3s.KubeconfigAccess{Server: server, Cluster: name})
		if err != nil {
			return
		}
		again, err := k3s.RewriteKubeconfig(out, k3s.KubeconfigAccess{Server: server, Cluster: name})
		require.NoError(t, err)
		assert.Equal(t, string(out), string(again), "rewriting is done once")
	})
}

// vipFacts is what is kept of what kube-vip's own generator writes.
type vipFacts struct {
	DaemonSet map[string]any            `json:"daemonSet"` // see environment
	Others    map[string]map[string]any `json:"others"`    // by kind: rules, roleRef, metadata
}

// TestKubeVIPIsTheGeneratedOne compares with what kube-vip's own generator wrote.
func TestKubeVIPIsTheGeneratedOne(t *testing.T) {
	text := facts.Load(t, filepath.Join("testdata", "facts", "kube-vip.yaml"), *update, func(full fs.FS) ([]byte, error) {
		var all []byte
		for _, file := range []string{"daemonset.yaml", "rbac.yaml"} {
			b, err := fs.ReadFile(full, "values/kube-vip/"+file)
			if err != nil {
				return nil, err
			}
			all = append(append(all, "---\n"...), b...)
		}
		return yaml.Marshal(factsOfVIP(t, all))
	})
	m, err := k3s.KubeVIP(testVIP)
	require.NoError(t, err)
	ours, err := yaml.Marshal(factsOfVIP(t, m))
	require.NoError(t, err)
	assert.YAMLEq(t, string(text), string(ours))
}

func factsOfVIP(t *testing.T, manifest []byte) vipFacts {
	t.Helper()
	out := vipFacts{Others: map[string]map[string]any{}}
	for _, doc := range strings.Split(string(manifest), "---\n") {
		var o map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
		switch kind, _ := o["kind"].(string); kind {
		case "":
		case "DaemonSet":
			out.DaemonSet = environment(o)
		default:
			out.Others[kind] = map[string]any{}
			for _, key := range []string{"rules", "roleRef", "metadata"} {
				if v, there := o[key]; there {
					out.Others[kind][key] = v
				}
			}
		}
	}
	return out
}

// What a kubeconfig trusts is read from the one cluster that it has.
func TestAuthority(t *testing.T) {
	ca, err := k3s.KubeconfigAuthority([]byte("clusters: [{name: home, cluster: {server: https://a:6443, certificate-authority-data: Y2E=}}]"))
	require.NoError(t, err)
	assert.Equal(t, "ca", string(ca))
	for _, text := range []string{
		"", "clusters: [", "clusters: [{name: home, cluster: {server: https://a:6443}}]",
		"clusters: [{cluster: {certificate-authority-data: Y2E=}}, {cluster: {certificate-authority-data: Y2I=}}]",
	} {
		_, err := k3s.KubeconfigAuthority([]byte(text))
		require.ErrorContains(t, err, "kubeconfig: ", text)
	}
}
