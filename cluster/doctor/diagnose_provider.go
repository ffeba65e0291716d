package doctor

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
)

// providerIDs judges the IDs of the nodes of VMs: what finds a VM by its node's ID must find that one.
func (d *diagnosis) providerIDs() {
	vms := map[string]int{}
	for _, m := range d.e.Machines {
		if m.VM != nil {
			vms[m.Name] = m.VM.VMID
		}
	}
	var own []string // of K3s
	for _, n := range d.e.Nodes {
		vmid, seen := vms[n.Name]
		if _, ours := spec.RegionOf(n.ProviderID); ours && seen && n.ProviderID != spec.ProviderID(d.e.Spec.Proxmox.Region, vmid) {
			d.add(inKubernetes, n.Name, Finding{
				Failure: "provider-id", Severity: Warning, Where: "node " + n.Name,
				What:     fmt.Sprintf("it is %s, and its machine is %s: storage drivers and cloud controllers look for the first", n.ProviderID, spec.ProviderID(d.e.Spec.Proxmox.Region, vmid)),
				Evidence: []string{"spec.providerID: " + n.ProviderID}, Do: "homelab node:replace -node=" + printable.Word(n.Name) + " gives it the ID of its machine",
			})
		}
		if seen && n.ProviderID == "k3s://"+n.Name {
			own = append(own, n.Name)
		}
	}
	if len(own) > 0 {
		d.add(inKubernetes, "", Finding{
			Failure: "provider-id", Severity: Warning, Where: "nodes " + strings.Join(own, ", "),
			What:     "Kubernetes knows them by IDs of K3s, which cannot change: Proxmox's cloud controller does not know such nodes, nor does its storage driver before 0.16; everything else works",
			Evidence: []string{"spec.providerID: k3s://" + own[0]},
			Do:       "nothing, or one after the other: homelab node:replace -node=" + printable.Word(own[0]) + " gives a node the ID of its VM",
		})
	}
}
