package proxmox

import "fmt"

// ConflictError reports a VM that has the name of one of ours but is not ours, even if it carries
// our tag. It belongs to another owner and is never touched.
type ConflictError struct {
	Name, Owner, Host string
	VMID              int
	Reason            string // why it is not ours: "does not carry the tag homelab-a100"
	Tagged            bool   // it carries our tag nevertheless: perhaps a copy
}

func conflict(owner string, vm *VM) *ConflictError {
	return &ConflictError{Name: vm.Name, Owner: owner, VMID: vm.VMID, Host: vm.Host, Reason: vm.foreignReason(owner),
		Tagged: vm.HasOwnerTag(owner)}
}

// Error describes the conflict and the ways to resolve it.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("VM %d on %s is called %s, but %s: the cluster does not own it, so it is not changed\n"+
		"  rename one of the two, or remove the other VM; to adopt it instead, write adopt: true for %s in the file",
		e.VMID, e.Host, e.Name, e.Reason, e.Name)
}

// DuplicateError reports more than one VM of ours with the same name.
type DuplicateError struct {
	Name, Owner string
	VMIDs       []int
}

// Error lists the duplicates.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("proxmox: VMs %v are all called %s and all marked as VMs of %s: they cannot be told apart\n"+
		"  look at what is on them, and remove the duplicates, as root on their host: qm stop VMID; qm destroy VMID --purge",
		e.VMIDs, e.Name, e.Owner)
}

// LockedError reports a VM that is locked although no task works on it: the process that held the
// lock died. A token may not unlock it.
type LockedError struct {
	Host, Lock string
	VMID       int
}

// Error describes the lock and how to remove it.
func (e *LockedError) Error() string {
	cure := fmt.Sprintf("qm unlock %d", e.VMID)
	if e.Lock == "clone" || e.Lock == "create" {
		cure += fmt.Sprintf(" && qm destroy %d --purge", e.VMID)
	}
	return fmt.Sprintf("proxmox: VM %d on %s is locked (%s) and no task is running on it\n  run on %s as root: %s",
		e.VMID, e.Host, e.Lock, e.Host, cure)
}
