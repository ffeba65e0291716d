package clusterfile

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// hardwareSection completes and checks the place of a node's memory and processors on its host.
type hardwareSection struct{ *resolver }

// hardware resolves the placement of a node's memory and processors on its host.
func (r hardwareSection) hardware(n *spec.Node) {
	hugepages := n.Hugepages
	n.Hugepages = r.hugepages(n)
	if n.Affinity != "" && n.Affinity != noneWord {
		if _, ok := decode.CPUList(n.Affinity, ","); !ok {
			r.Wrong(&n.Affinity, fmt.Sprintf("%q is not a list of the host's CPUs", n.Affinity), "write e.g. 0-15,32-47")
		}
	}
	for _, o := range []struct {
		at        *string
		said, key string
	}{{&n.Hugepages, hugepages, "hugepages"}, {&n.Affinity, n.Affinity, "affinity"}} {
		if o.said != "" && !r.root {
			r.Wrong(o.at, o.key+" can be set only by root@pam with a password, and Proxmox refuses it to any API token, root's too",
				"write user: root@pam below proxmox:, and password: with a reference, or be asked for it when it is needed; or remove "+o.key)
		}
	}
	r.numaNodes(n)
}

// noneWord removes an option that is otherwise left unchanged.
const noneWord = "none"

func (r hardwareSection) hugepages(n *spec.Node) string {
	size := n.Hugepages
	switch {
	case size == "":
		return ""
	case size == noneWord:
	case !n.NUMA.IsOn():
		r.Wrong(&n.Hugepages, "hugepages need NUMA, and numa is false", "write numa: true")
	case size == "1GiB" && n.Memory%spec.GiB != 0, size == "2MiB" && n.Memory%(2*spec.MiB) != 0:
		r.Wrong(&n.Hugepages, fmt.Sprintf("memory %s is not a multiple of pages of %s", n.Memory, size), "write memory in whole GiB")
	}
	if mib, ok := map[string]string{"2MiB": "2", "1GiB": "1024"}[size]; ok {
		return mib // as Proxmox writes them
	}
	return size
}

// numaNodes checks what Proxmox checks only when the VM starts.
func (r hardwareSection) numaNodes(n *spec.Node) {
	if len(n.NUMANodes) == 0 {
		return
	}
	if !n.NUMA.IsOn() {
		r.Wrong(&n.NUMANodes, "numaNodes need NUMA, and numa is false", "write numa: true")
	}
	var memory spec.Size
	seen := map[int]bool{}
	for i := range n.NUMANodes {
		in := &n.NUMANodes[i]
		cpus, ok := decode.CPUList(in.CPUs, ",")
		if !ok {
			r.Wrong(&in.CPUs, fmt.Sprintf("%q is not a list of the node's CPUs", in.CPUs), "write e.g. 0-7")
		}
		for _, cpu := range cpus {
			if seen[cpu] || cpu >= n.Cores {
				r.Wrong(&in.CPUs, fmt.Sprintf("CPU %d is in two NUMA nodes, or beyond the node's %d", cpu, n.Cores), "give each CPU from 0 on to one of them")
				break
			}
			seen[cpu] = true
		}
		if _, ok := decode.CPUList(in.HostNodes, ","); in.HostNodes != "" && !ok {
			r.Wrong(&in.HostNodes, fmt.Sprintf("%q is not a list of the host's NUMA nodes", in.HostNodes), "write e.g. 0, or 0-1")
		}
		if in.HostNodes == "" {
			in.Policy = ""
		}
		memory += in.Memory
		in.CPUs, in.HostNodes = strings.ReplaceAll(in.CPUs, ",", ";"), strings.ReplaceAll(in.HostNodes, ",", ";") // as Proxmox writes them
	}
	if memory != n.Memory {
		r.Wrong(&n.NUMANodes, fmt.Sprintf("the NUMA nodes have %s together, and the node has %s", memory, n.Memory), "make them equal: otherwise Proxmox does not start the VM")
	}
	if len(seen) < n.Cores && len(seen) > 0 {
		r.Wrong(&n.NUMANodes, fmt.Sprintf("the NUMA nodes have %d CPUs together, and the node has %d", len(seen), n.Cores), "give each CPU to one of them")
	}
}
