package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
)

// On an external machine the file is compared with what its owner divided, and nothing is done:
// a GPU in MIG mode that the file wants whole would be offered whole, and no program could use it.
func TestExternalMachineIsDividedByItsOwner(t *testing.T) {
	c := &machines{}
	whole := spec.Node{Name: "box", External: true, GPUs: spec.GPURequest{Count: 1}}
	seen := driverState{DriverState: nvidia.DriverState{
		Loaded: "580.173.02", Runtime: "/usr/bin/nvidia-container-runtime",
		SMI: nvidia.SMI{GPUs: []nvidia.SMIGPU{{MIG: true, Instances: make([]nvidia.MIGDevice, 2)}}},
	}}
	step := c.externalDriverStep(whole)
	assert.Equal(t, "GPU 0: in MIG mode, with 2 instances → whole [the machine is external: switch the MIG mode off there, or write sharing: {strategy: mig, …}]", step.Diff(seen).String())
	assert.Nil(t, step.Apply)

	divided := whole
	divided.GPUs.Sharing = spec.Sharing{Strategy: spec.SharingMIG, Layouts: []spec.MIGLayout{{Profiles: map[string]int{"3g.20gb": 2}}}}
	assert.Empty(t, c.externalDriverStep(divided).Diff(seen), "its own step looks at that")
	assert.Nil(t, c.migStep(divided).Apply)
	assert.Nil(t, c.migStep(divided).Costs)
}
