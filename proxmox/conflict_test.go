package proxmox

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestConflictsInWords(t *testing.T) {
	assert.EqualError(t, &DuplicateError{Name: "wk1", Owner: "homelab-x", VMIDs: []int{100, 101}},
		"proxmox: VMs [100 101] are all called wk1 and all marked as VMs of homelab-x: they cannot be told apart\n"+
			"  look at what is on them, and remove the duplicates, as root on their host: qm stop VMID; qm destroy VMID --purge")
	for lock, cure := range map[string]string{"clone": "qm unlock 100 && qm destroy 100 --purge", "create": "qm unlock 100 && qm destroy 100 --purge", "backup": "qm unlock 100"} {
		assert.EqualError(t, &LockedError{Host: "pve1", Lock: lock, VMID: 100},
			fmt.Sprintf("proxmox: VM 100 on pve1 is locked (%s) and no task is running on it\n  run on pve1 as root: %s", lock, cure))
	}
}
