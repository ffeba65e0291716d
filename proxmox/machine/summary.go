package machine

import "github.com/cps-gpu/homelab/proxmox/unit"

// Summary is a VM in a list.
type Summary struct {
	Name     string
	VMID     int
	Host     string
	Template bool
	Running  bool
	Locked   string
	Tags     []string
	Cores    int
	Memory   unit.Size
}

// Summary returns the VM as a list shows it, without whether it runs.
func (v *VM) Summary() Summary {
	return Summary{
		Name: v.Name, VMID: v.VMID, Host: v.Host, Template: v.Template, Locked: v.Locked, Tags: v.Tags, Cores: v.Cores, Memory: v.Memory,
	}
}
