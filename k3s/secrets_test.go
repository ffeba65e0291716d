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
