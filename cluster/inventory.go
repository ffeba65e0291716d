package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
)

// Inventory is which machines a cluster has right now: their VMs in Proxmox, their nodes in
// Kubernetes, and which pods hold their GPUs.
type Inventory struct {
	Time     time.Time
	Machines []Machine // of the file, in its order
	// VMs is why the VMs could not be read, Kube why the nodes or pods could not; nil: they were.
	VMs, Kube error
}

// Machine is a machine of the file.
type Machine struct {
	Name     string
	Role     spec.Role
	Pool     string
	Host     string // empty if External
	External bool
	Address  netip.Addr // as Kubernetes reports it, or else as the file says

	VMID    int  // 0: there is no VM of Proxmox VE
	Made    bool // there is a VM
	Running bool // the VM

	Joined   bool      // there is a node of this name
	Ready    bool      // the node
	Reason   string    // why the node is not ready
	Cordoned bool      // the node takes no new pods
	Version  string    // of its kubelet
	Created  time.Time // when it joined

	GPUs GPUUse
}

// VM names the machine's VM.
func (m Machine) VM() string {
	if m.VMID == 0 {
		return "its VM"
	}
	return fmt.Sprintf("VM %d on %s", m.VMID, m.Host)
}

// GPUUse says how many GPUs of a node pods hold, or how many shares of them.
type GPUUse struct {
	Used, Total int    // Total: what Kubernetes offers
	Unit        string // GPUs, shares, or a MIG profile such as 1g.5gb
	Holders     []kube.Holder
}

// nvidiaPrefix is that of the resources of NVIDIA's device plugin: nvidia.com/gpu, and
// nvidia.com/mig-1g.5gb and the like for instances of MIG.
const nvidiaPrefix = "nvidia.com/"

// Inventory reads which machines the cluster has. It does not ask Kubernetes without api. What
// cannot be read is missing, and the inventory says why.
func (c *Cluster) Inventory(ctx context.Context, api bool) *Inventory {
	inv := &Inventory{Time: time.Now()}
	vms, err := c.site.source().list(ctx)
	inv.VMs = err
	var nodes []kube.Node
	var holders []kube.Holder
	if api {
		nodes, holders, inv.Kube = nodesAndHolders(ctx, c)
	}
	inv.Machines = joinMachines(c.site.spec, vms, nodes, holders)
	return inv
}

// nodesAndHolders asks Kubernetes.
func nodesAndHolders(ctx context.Context, c *Cluster) (nodes []kube.Node, holders []kube.Holder, err error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, nil, err
	}
	if nodes, err = client.Nodes(ctx); err != nil {
		return nil, nil, err
	}
	if len(c.site.spec.GPUNodes()) > 0 {
		holders, err = client.Holders(ctx, nvidiaPrefix, "")
	}
	return nodes, holders, err
}

// Err returns all that could not be read.
func (inv *Inventory) Err() error { return errors.Join(inv.VMs, inv.Kube) }

// joinMachines puts what different places know about a machine together.
func joinMachines(s *spec.Spec, vms []vmSeen, nodes []kube.Node, holders []kube.Holder) []Machine {
	var out []Machine
	for _, want := range s.Machines() {
		m := Machine{Name: want.Name, Role: want.Role, Pool: want.Pool, Host: want.Host, External: want.External, Address: want.Address.Addr()}
		if i := slices.IndexFunc(vms, func(v vmSeen) bool { return v.name == want.Name }); i >= 0 && !want.External {
			m.VMID, m.Host, m.Running, m.Made = vms[i].vmid, vms[i].host, vms[i].running, true
		}
		if i := slices.IndexFunc(nodes, func(n kube.Node) bool { return n.Name == want.Name }); i >= 0 {
			m.enter(want, nodes[i], holders)
		}
		out = append(out, m)
	}
	return out
}

// enter adds what Kubernetes knows.
func (m *Machine) enter(want spec.Node, n kube.Node, holders []kube.Holder) {
	m.Joined, m.Ready, m.Reason, m.Cordoned, m.Version, m.Created = true, n.Ready, n.Reason, n.Cordoned, n.Version, n.Created
	if !m.Address.IsValid() {
		m.Address = n.InternalIP
	}
	var units []string
	for resource, count := range n.Counts(nvidiaPrefix) {
		m.GPUs.Total += int(count)
		if u := gpuUnit(resource, want); !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	for _, h := range holders {
		if h.Node == m.Name {
			m.GPUs.Used += int(h.Count)
			m.GPUs.Holders = append(m.GPUs.Holders, h)
		}
	}
	slices.Sort(units)
	m.GPUs.Unit = cmp.Or(strings.Join(units, " and "), "GPUs")
}

// gpuUnit is what one of a resource is.
func gpuUnit(resource string, n spec.Node) string {
	name := strings.TrimPrefix(resource, nvidiaPrefix)
	if profile, ok := strings.CutPrefix(name, "mig-"); ok {
		return profile
	}
	if strings.HasSuffix(name, ".shared") || n.GPUs.Sharing.Shared() {
		return "shares"
	}
	return "GPUs"
}

// HoldersText names who holds GPUs, with how many each: users of notebooks with the namespace, as in
// jupyterhub/teacher, other pods as namespace/pod.
func (u GPUUse) HoldersText() string {
	var names []string
	count := map[string]int64{}
	for _, h := range u.Holders {
		name := h.Namespace + "/" + cmp.Or(h.User, h.Pod)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		count[name] += h.Count
	}
	for i, name := range names {
		if count[name] > 1 {
			names[i] = fmt.Sprintf("%s (%d)", name, count[name])
		}
	}
	return strings.Join(names, ", ")
}
