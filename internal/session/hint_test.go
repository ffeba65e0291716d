package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/examples"
)

// The lines of the hint are those of a pod that starts on the node: they tolerate all its taints.
func TestHintIsAPod(t *testing.T) {
	for name, text := range map[string]string{
		"one taint":    string(examples.EightA100),
		"a second one": strings.Replace(string(examples.WithoutPlatform(examples.EightA100)), "role: agent", "role: agent\n    taints: [\"team=ml:NoExecute\"]", 1),
		"without GPUs": "name: home\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\nnodes: {cp1: {role: server, address: 10.0.0.11}}\n",
	} {
		want, err := cluster.Parse("cluster.yaml", []byte(text))
		require.NoError(t, err, name)
		_, lines, found := strings.Cut(gpuHint(want), ":\n")
		nodes := want.GPUNodes()
		require.Equal(t, len(nodes) > 0, found, name)
		if !found {
			continue
		}
		var pod corev1.PodSpec
		require.NoError(t, yaml.UnmarshalStrict([]byte(lines), &pod), lines)
		assert.Equal(t, "nvidia", *pod.RuntimeClassName)
		limit := pod.Containers[0].Resources.Limits["nvidia.com/gpu"]
		assert.Equal(t, int64(1), limit.Value())
		for _, taint := range nodes[0].Taints {
			var tolerated bool
			for _, to := range pod.Tolerations {
				tolerated = tolerated || to.Key == taint.Key && string(to.Effect) == taint.Effect && to.Operator == corev1.TolerationOpExists
			}
			assert.True(t, tolerated, "%s of %s", taint, name)
		}
	}
}
