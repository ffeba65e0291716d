package platform_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/addon"
)

// What a GitOps tool deploys comes from the mirror too, or is refused if the tool could not read that.
func TestGitOpsFromTheMirror(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o600))
	const file = `name: x
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}
monitoring: {hostname: grafana.lab.example}
TOOL: {repo: "https://git.lab/x.git", username: u, password: env:P}
charts: {via: {monitoring: TOOL}}
`
	for _, tool := range []string{"fleet", "flux", "argocd"} {
		text := strings.ReplaceAll(file, "TOOL", tool)
		s, err := clusterfile.Parse(filepath.Join(dir, "cluster.yaml"), []byte(text+"mirror: {registry: https://r.lab:5000/v2/lab, folder: mirror}\n"), platform.Check)
		require.NoError(t, err, tool)
		tree, _, err := platform.FleetTree(s)
		require.NoError(t, err, tool)
		all := ""
		for _, content := range tree {
			all += string(content)
		}
		assert.Contains(t, all, "oci://r.lab:5000/lab/charts", tool)
		assert.NotContains(t, all, "https://prometheus-community.github.io/helm-charts", tool)
		for mirror, why := range map[string]string{
			"mirror: {registry: http://r.lab:5000}":                                                                           "no TLS",
			"mirror: {registry: https://r.lab, ca: ca.pem}":                                                                   "an authority of its own",
			"mirror: {registry: https://r.lab, username: u, password: env:P}":                                                 "a login",
			"mirror: {registry: https://r.lab, username: u, password: env:P, insecure: true}":                                 "a login and an authority of its own",
			"mirror: {registry: \"https://r.lab:5000\"}\nk3s: {registries: {\"r.lab:5000\": {username: u, password: env:P}}}": "a login",
			"mirror: {registry: https://r.lab}\nk3s: {registries: {r.lab: {ca: ca.pem}}}":                                     "an authority of its own",
		} {
			_, err := clusterfile.Parse(filepath.Join(dir, "cluster.yaml"), []byte(text+mirror+"\n"), platform.Check)
			require.ErrorContains(t, err, " would fetch charts from the mirror, which has ", mirror)
			require.ErrorContains(t, err, why+", and homelab does not give it that; deploy them directly, charts: {via: {monitoring: direct}}, or use a mirror that everybody can read", mirror)
		}
	}
}

// What the mirror does not have is said, and Rancher takes its charts from its own image.
func TestOutsideTheMirror(t *testing.T) {
	const file = `name: x
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 2, addresses: [10.0.0.21-10.0.0.22], memory: 64GiB, gpus: {count: 1, model: A100-SXM4-80GB}}
storage: {nfs: "nas:/export"}
tls: self-signed
rancher: {hostname: rancher.lab.example}
models: {qwen: {source: Qwen/Qwen3-8B, context: 16384}}
`
	const (
		short    = "mirror: {registry: https://r.lab}"
		folder   = "mirror: {registry: https://r.lab, folder: mirror}"
		weights  = "the weights of qwen come from huggingface.co, and the mirror does not have them"
		toolkit  = "nodes with GPUs get NVIDIA's container toolkit from nvidia.github.io, and the mirror does not have it"
		driver   = "nodes with GPUs get NVIDIA's driver from https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/, and the mirror does not have it"
		debian   = "\nimage: debian-13\nnvidia: {driver: {mode: dkms}}"
		template = "\nimage: {template: mine}"
	)
	for more, want := range map[string][]string{
		"": nil, short: {weights, toolkit}, folder: {weights}, short + template: {weights},
		short + debian: {weights, toolkit, driver}, folder + debian: {weights, driver},
		short + debian + "\nguest: {apt: {httpsProxy: \"http://proxy.lab:3128\"}}": {weights},
	} {
		s, err := clusterfile.Parse("cluster.yaml", []byte(file+more+"\n"), platform.Check)
		require.NoError(t, err, more)
		var said []string
		for _, w := range s.Warnings {
			if strings.Contains(w.What, "the mirror does not have") {
				said = append(said, w.What)
			}
		}
		assert.ElementsMatch(t, want, said, more)
		pieces, err := platform.Pieces(s, false)
		require.NoError(t, err)
		i := slices.IndexFunc(pieces, func(r addon.Recipe) bool { return r.Name == "rancher" })
		assert.Equal(t, s.Mirror != nil, pieces[i].Release.Values["useBundledSystemChart"] == true, more)
	}
}
