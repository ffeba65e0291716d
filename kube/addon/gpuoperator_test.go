package addon_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
)

// readByTemplates are keys that the operator's templates read and its values.yaml does not list
// (NVIDIA/gpu-operator, deployments/gpu-operator/templates, v26.7.0).
const readByTemplates = `ccManager.args ccManager.env dcgm.imagePullSecrets dcgmExporter.args dcgmExporter.config dcgmExporter.hpcJobMapping
dcgmExporter.imagePullSecrets dcgmExporter.podLabelAllowlistRegex driver.args driver.licensingConfig.configMapName driver.livenessProbe
driver.readinessProbe fullnameOverride gfd.args hostPaths.kubeletRootDir kataManager.args kataManager.image kataManager.repository
kataManager.version migManager.args nameOverride nodeStatusExporter.args nodeStatusExporter.env nodeStatusExporter.version
operator.defaultGPUMode operator.labels operator.metrics.serviceMonitor operator.version validator.cuda.env validator.driver.env
validator.toolkit.env validator.version validator.vfioPCI.env validator.vgpuDevices.env validator.vgpuManager.env vfioManager.args
vgpuDeviceManager.args vgpuDeviceManager.resources vgpuManager.args`

// The chart inside the chart checks its own values.
const insideOperator = "node-feature-discovery"

// The keys that the library knows are those of the chart.
func TestGPUOperatorKeysAreTheCharts(t *testing.T) {
	want := strings.Fields(readByTemplates)
	var walk func(m map[string]any, at string)
	walk = func(m map[string]any, at string) {
		for key, v := range m {
			below, isMap := v.(map[string]any)
			switch {
			case at == "" && key == insideOperator:
				want = append(want, key)
			case isMap && len(below) > 0:
				walk(below, at+key+".")
			default:
				want = append(want, at+key)
			}
		}
	}
	walk(factsOf(t, "gpu-operator").Keys, "")
	slices.Sort(want)
	text := strings.Join(slices.Compact(want), "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile("gpuoperator.keys", []byte(text), 0o600))
	}
	have, err := os.ReadFile("gpuoperator.keys")
	require.NoError(t, err)
	assert.Equal(t, text, string(have), "write it with -update")
}

// N10: the chart accepts these, and they do nothing.
func TestInertValuesAreSeen(t *testing.T) {
	found := addon.CheckGPUOperatorValues(map[string]any{
		"nodeSelector": map[string]any{"gpu": "true"},
		"devicePlugin": map[string]any{"migStrategy": "mixed", "resources": map[string]any{"limits": map[string]any{"cpu": "1"}}},
		"toolkit":      map[string]any{"env": []any{map[string]any{"name": "CONTAINERD_SOCKET", "value": "/run/containerd/containerd.sock"}}},
		"dcgmExporter": map[string]any{"serviceMonitor": map[string]any{"interval": "30s"}},
	})
	whats := map[string]string{}
	for _, f := range found {
		whats[f.Path] = f.What
	}
	assert.Equal(t, map[string]string{
		"nodeSelector":             "the operator's chart has no key nodeSelector at the top, and would ignore it",
		"devicePlugin.migStrategy": "the operator's chart has no key migStrategy under devicePlugin, and would ignore it",
		"toolkit.env":              "toolkit.env cannot be set: it says where K3s keeps its containerd, and a list replaces ours",
	}, whats)
}

// N9: the paths of K3s' containerd follow from K3s, and nothing restarts it behind our back.
func TestToolkitOfTheOperatorFindsK3s(t *testing.T) {
	p := must(t, operatorWith(spec.DriverOperator), addon.Site{})
	env := map[string]string{}
	toolkit := p.Release.Values["toolkit"].(map[string]any)
	for _, e := range toolkit["env"].([]any) {
		one := e.(map[string]any)
		env[one["name"].(string)] = one["value"].(string)
	}
	assert.Equal(t, "/run/k3s/containerd/containerd.sock", env["CONTAINERD_SOCKET"])
	assert.Equal(t, "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", env["CONTAINERD_CONFIG"])
	assert.Equal(t, "none", env["RUNTIME_RESTART_MODE"])
	host := must(t, operatorWith(spec.DriverNone), addon.Site{})
	assert.Equal(t, map[string]any{"enabled": false}, host.Release.Values["toolkit"], "the nodes have it")
	assert.Equal(t, map[string]any{"enabled": false}, host.Release.Values["driver"])
}

// Keys of ours that a user must not replace are among the chart's, so that a typo in our own list
// is seen.
func TestOwnedKeysExist(t *testing.T) {
	var all []string
	text, err := os.ReadFile("gpuoperator.keys")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		all = append(all, strings.TrimSpace(line))
	}
	for _, f := range addon.CheckGPUOperatorValues(must(t, operatorWith(spec.DriverOperator), addon.Site{}).Release.Values) {
		assert.NotEmpty(t, f.Cure, "%s is ours and not the chart's", f.Path)
		assert.True(t, slices.ContainsFunc(all, func(k string) bool { return k == f.Path || strings.HasPrefix(k, f.Path+".") }), f.Path)
	}
}

func operatorWith(driver string) addon.GPUOperator {
	return addon.GPUOperator{NVIDIA: spec.NVIDIA{Stack: spec.StackOperator, Driver: spec.Driver{DriverMode: driver, Branch: "580-server", Flavour: "auto"}}, Nodes: make([]spec.Node, 1)}
}
