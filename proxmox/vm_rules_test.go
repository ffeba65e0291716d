package proxmox_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
)

// The page to which docs/nodes.md leads has the same table.
func TestRulesAreInTheDocs(t *testing.T) {
	page, err := os.ReadFile("testdata/effects.md")
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("| what differs | Proxmox's key | takes | why |\n|---|---|---|---|\n")
	for _, r := range proxmox.Rules() {
		takes := map[converge.Effect]string{converge.Update: "nothing: live", converge.Restart: "a restart", converge.Replace: "a replacement"}[r.Effect]
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Thing, r.Key, takes, r.Reason)
	}
	assert.True(t, strings.Contains(string(page), b.String()), "testdata/effects.md wants this table:\n%s", b.String())
}

// A disk is found by its serial, wherever it is: another order in the file, or one
// disk less, must not make one out to be another.
func TestDisksBySerial(t *testing.T) {
	s, vm := worker(), seen()
	data := proxmox.Disk{Slot: "scsi2", Storage: "vmdata", Size: 100 * proxmox.GiB, Serial: "data"}
	vm.Disks = append(vm.Disks, data)
	data.Slot = "scsi1"
	scratch := s.Disks[1]
	scratch.Slot = "scsi2"
	s.Disks = []proxmox.Disk{s.Disks[0], data, scratch}
	assert.Empty(t, s.Diff(vm), "in another order")

	s.Disks = []proxmox.Disk{s.Disks[0], data}
	assert.Equal(t, "disk/scsi1: scratch, 1TiB → detached [its volume is kept as an unused disk of the VM]", s.Diff(vm).String())

	more := proxmox.Disk{Slot: "scsi2", Storage: "vmdata", Size: 5 * proxmox.GiB, Serial: "more"}
	s.Disks = []proxmox.Disk{s.Disks[0], data, more}
	vm.Disks = append(vm.Disks, proxmox.Disk{Slot: "scsi3", Storage: "vmdata", Size: proxmox.GiB}) // a user's
	assert.Equal(t, "disk/scsi4: none → 5GiB on vmdata; disk/scsi1: scratch, 1TiB → detached [its volume is kept as an unused disk of the VM]", s.Diff(vm).String())
}
