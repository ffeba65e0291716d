package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// claimVolume is a volume as Proxmox CSI names them: with a number of the driver's own
// (DefaultControllerVMID, pkg/config/config.go).
const claimVolume = "vmdata:vm-9999-pvc-4f1d3a52-7c1e-4bb0-9a39-5d0f0c1f7a11"

// attachClaim has Proxmox CSI make a volume, if there is none, and hot-plug it as it does (attachVolume,
// pkg/csi/utils.go): the first free SCSI slot from 1, with a wwn and no serial.
func (w *world) attachClaim(t testing.TB, node string) (slot string) {
	t.Helper()
	user, token := w.sim.Token()
	if !w.hasClaim() {
		storage, name, _ := strings.Cut(claimVolume, ":")
		require.Equal(t, 200, request(t, w.sim.Client(), "POST", "/nodes/pve1/storage/"+storage+"/content", user+"="+token,
			fmt.Sprintf(`{"vmid":"9999","filename":%q,"size":"10485760"}`, name)))
	}
	machine := w.vm(t, node)
	lun := 1
	for machine.Config[fmt.Sprintf("scsi%d", lun)] != "" {
		lun++
	}
	slot = fmt.Sprintf("scsi%d", lun)
	w.set(t, machine.ID, fmt.Sprintf(`{%q:"%s,backup=0,iothread=1,replicate=0,wwn=0x%x"}`, slot, claimVolume, fmt.Sprintf("PVC-ID%02d", lun)))
	w.sim.Settle()
	require.Contains(t, w.vm(t, node).Config[slot], claimVolume+",")
	return slot
}

func (w *world) hasClaim() bool {
	for _, v := range w.sim.Volumes() {
		if v.ID == claimVolume {
			return v.Owner == 9999 && v.Size == 10<<30
		}
	}
	return false
}

const claims = `
name: claims
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
nodes:
  cp1: {role: server, address: 10.0.0.11}
  wk1: {address: 10.0.0.21, memory: 4GiB, disks: {scratch: {size: 10GiB, mount: /scratch}}}
`

// A disk that Proxmox CSI attached to a machine causes no change, is in no list of what would be lost, keeps its slot
// whatever the file changes, and outlives its machine.
func TestVolumesOfClaims(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, claims)
		w.up(t, spec)
		slot := w.attachClaim(t, "wk1")
		assert.Equal(t, "scsi2", slot)
		assert.Empty(t, w.plan(t, spec), "nothing to change")

		// A restart and a further disk: both stay beside it.
		more := parse(t, replace(t, replace(t, claims, "memory: 4GiB", "memory: 6GiB"), "disks: {", "disks: {more: {size: 5GiB, mount: /more, role: scratch}, "))
		w.up(t, more)
		config := w.vm(t, "wk1").Config
		assert.Contains(t, config[slot], claimVolume+",")
		assert.Contains(t, config["scsi3"], "serial=more")
		assert.Equal(t, "6144", config["memory"])
		assert.Empty(t, w.plan(t, more))
		assert.Empty(t, w.examine(t, more))

		require.NoError(t, w.verb(t, more, replacements(t.Context(), "wk1", false)), "nothing would be lost")
		assert.True(t, w.hasClaim())
		assert.NotContains(t, fmt.Sprint(w.vm(t, "wk1").Config), claimVolume)
		assert.Contains(t, w.output.String(), claimVolume+" stays")

		w.attachClaim(t, "wk1")
		w.keepsClaim(t, spec.Name, w.cluster(t, parse(t, strings.Split(claims, "  wk1:")[0])).Up())
		w.up(t, parse(t, strings.Split(claims, "  wk1:")[0])) // the machine is no longer in the file
		assert.True(t, w.hasClaim())
		w.up(t, spec)

		w.attachClaim(t, "wk1")
		down, err := w.cluster(t, spec).Down(t.Context())
		require.NoError(t, err)
		w.keepsClaim(t, spec.Name, down)
		w.down(t, spec)
		assert.True(t, w.hasClaim())
	})
}

// keepsClaim checks that no step would destroy the volume.
func (w *world) keepsClaim(t testing.TB, what string, g *converge.Graph) {
	t.Helper()
	plan, err := g.Plan(t.Context())
	require.NoError(t, err, what)
	for _, it := range plan.Items {
		for _, cost := range it.Costs {
			assert.NotContains(t, fmt.Sprint(cost), "9999", what)
			assert.NotContains(t, fmt.Sprint(cost), "does not name", what)
		}
	}
}
