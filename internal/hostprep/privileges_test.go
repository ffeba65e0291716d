package hostprep

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// GPUs of external machines are none of Proxmox's.
func TestWhoWantsGPUs(t *testing.T) {
	for want, nodes := range map[bool][]spec.Node{
		true:  {{Name: "cp1"}, {Name: "a", GPUs: spec.GPURequest{Count: 1}}},
		false: {{Name: "cp1"}, {Name: "x", External: true, GPUs: spec.GPURequest{Count: 1}}},
	} {
		assert.Equal(t, want, wantsGPUs((&spec.Spec{Nodes: nodes})))
	}
}
