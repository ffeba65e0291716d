package platform_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/internal/platform"
)

// What the kubelet keeps for itself, and how many pods it takes, notebooks cannot have.
func TestProfilesFitWhatTheKubeletLeaves(t *testing.T) {
	for args, want := range map[string]int{
		"":                                     95,
		"max-pods=32":                          17,
		"max-pods=250":                         235,
		"kube-reserved=memory=64Gi":            191, // of 1 GiB each
		"max-pods=400, system-reserved=cpu=60": 37,  // of 0.1 cores each
		"max-pods=400, \"reserved-cpus=0-59\"": 37,
		"max-pods=400, eviction-hard=memory.available<200Gi": 55,
	} {
		pods := ", max-pods=1000"
		if args == "" || args[0] == 'm' {
			pods = ""
		}
		file, err := clusterfile.Parse("cluster.yaml", []byte(`name: t
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {agent: {kubelet-arg: [`+args+pods+`]}}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11], cores: 64, memory: 260GiB, taints: ["a=b:NoSchedule"]}
  w: {count: 1, addresses: [10.0.0.21], cores: 64, memory: 260GiB}
hub: {hostname: hub.lab.example, auth: {kind: dummy}, profiles: {small: {cpu: 0.1, memory: 1GiB}}}
`))
		require.NoError(t, err, args)
		assert.Equal(t, want, platform.Fit(file).Rows[0].Total, args)
	}
}
