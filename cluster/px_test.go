package cluster_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// What people lose days to between Proxmox and a running guest (PX1 to PX22), and
// where it is caught: a test, or the message that a person reads. The list is held
// against the files, so that none of them goes away unseen.
func TestEveryFailureOfProxmoxHasItsTest(t *testing.T) {
	for id, where := range map[string][]string{
		"PX1":  {"clusterfile/testdata/broken/root-only-hugepages.txt", "testdata/failures/refused-permission.txt", "permissions_test.go: TestEveryGrantIsNeeded"},
		"PX2":  {"testdata/failures/stale-mapping.txt", "../proxmox/preflight/testdata/mapping-stale.txt"},
		"PX3":  {"../proxmox/preflight/testdata/iommu-off.txt", "../proxmox/preflight/testdata/group-shared.txt"},
		"PX4":  {"clusterfile/testdata/broken/gpu-twice.txt", "testdata/failures/gpu-of-a-stopped-vm.txt"},
		"PX5":  {"testdata/failures/lock-timeout-for-ever.txt", "failures_test.go: TestTransientFailuresAreSurvived", "../proxmox/sim_fail_test.go: TestSevenAtOnce"},
		"PX6":  {"../proxmox/preflight/testdata/memory-of-zfs.txt", "../proxmox/start_test.go: TestStartTimeout"},
		"PX7":  {"../proxmox/preflight/testdata/machine-with-seabios.txt", "../proxmox/preflight/testdata/cpu-made-up.txt", "../nvidia/observe_test.go: TestDiffSaysWhatToDo"},
		"PX8":  {"nodeverbs_test.go: TestCycle"},
		"PX9":  {"../proxmox/preflight/testdata/host-driver-holds-the-card.txt"},
		"PX10": {"../proxmox/unit/unit_test.go: TestPCIAddress", "settings_test.go: TestGPUWithoutItsOtherFunctions"},
		"PX11": {"clusterfile/testdata/broken/dkms-secure-boot.txt", "px_test.go: TestWhatEveryNodeIsMadeOf"},
		"PX12": {"px_test.go: TestWhatEveryNodeIsMadeOf"},
		"PX13": {"px_test.go: TestWhatEveryNodeIsMadeOf"},
		"PX14": {"testdata/failures/storage-without-content.txt"},
		"PX15": {"testdata/failures/guest-never-answers.txt"},
		"PX16": {"px_test.go: TestWhatEveryNodeIsMadeOf"},
		"PX17": {"px_test.go: TestWhatEveryNodeIsMadeOf", "disks_test.go: TestDisksOfALivingNode"},
		"PX18": {"template_test.go: TestTwinsAreTold"},
		"PX19": {"../proxmox/preflight/testdata/module-that-is-gone.txt"},
		"PX20": {"../proxmox/preflight/testdata/version-too-old.txt", "../proxmox/preflight/testdata/version-too-new.txt", "testdata/permissions/8.txt", "testdata/permissions/9.txt"},
		"PX21": {"../proxmox/preflight/testdata/memory-beyond-the-host.txt", "../proxmox/preflight/testdata/disks-beyond-the-pool.txt"},
		"PX22": {"px_test.go: TestWhatEveryNodeIsMadeOf"},
	} {
		for _, w := range where {
			file, name, isTest := strings.Cut(w, ": ")
			b, err := os.ReadFile(file)
			if assert.NoError(t, err, id) && isTest {
				assert.True(t, strings.Contains(string(b), "func "+name+"(t "), "%s: %s is not in %s", id, name, file)
			}
		}
	}
}

// What is right in every node from the beginning needs no check of a host.
func TestWhatEveryNodeIsMadeOf(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		for _, n := range spec.Nodes {
			vm := w.vm(t, n.Name)
			assert.Equal(t, "ovmf", vm.Config["bios"])
			assert.Contains(t, vm.Config["efidisk0"], "efitype=4m", "PX12: it would forget what it boots from")
			assert.NotContains(t, vm.Config["efidisk0"], "pre-enrolled-keys=1", "PX11: unsigned modules would be rejected")
			assert.Equal(t, "socket", vm.Config["serial0"], "PX22")
			assert.Equal(t, "std", vm.Config["vga"], "PX22")
			assert.Contains(t, vm.Config["net0"], fmt.Sprintf("queues=%d", n.Cores), "PX16")
			assert.Empty(t, vm.Config["cicustom"], "PX13: we own the whole document")
			require.NotNil(t, vm.Guest)
			assert.Equal(t, n.Name, vm.Guest.Hostname(), "PX13")
			assertSerials(t, vm, n)
		}
	})
}

// assertSerials checks that a node's further disks have their names as serials (PX17).
func assertSerials(t *testing.T, vm pvesim.VMState, n spec.Node) {
	t.Helper()
	for _, d := range n.Disks {
		found := false
		for key, value := range vm.Config {
			found = found || strings.HasPrefix(key, "scsi") && strings.Contains(value, "serial="+d.Name)
		}
		assert.True(t, found, "%s: %s", n.Name, d.Name)
	}
}
