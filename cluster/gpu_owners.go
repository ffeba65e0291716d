package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// GPUInfo is one card of one host, and its owner.
type GPUInfo struct {
	Host       string     `json:"host"`
	Address    string     `json:"address"`
	Model      string     `json:"model"`
	ID         string     `json:"id"`
	Functions  int        `json:"functions"`                  // the GPU itself, audio, USB
	Virtual    []string   `json:"virtualFunctions,omitempty"` // into which the host has divided it (SR-IOV)
	IOMMUGroup int        `json:"iommuGroup"`                 // -1 if none
	NUMANode   *int       `json:"numaNode"`                   // nil if unknown; Proxmox's API does not report it
	Driver     string     `json:"driver"`                     // on the host; empty if unknown or none
	Mappings   []string   `json:"mappings"`
	VMs        []string   `json:"vms"`    // VMs and containers that claim it, running or not
	Owners     []GPUOwner `json:"owners"` // the same, in full
	Node       string     `json:"node"`   // the node of this cluster that has it, or for which it is reserved
	State      string     `json:"state"`  // one of the GPU states
	Problem    string     `json:"problem,omitempty"`
}

// States of a card.
const (
	GPUOurs     = "ours"     // a node of this cluster has it
	GPUTaken    = "taken"    // another owner claims it
	GPUFree     = "free"     // it has no owner and can be passed through
	GPUUnusable = "unusable" // it has no owner and cannot be passed through as it is
	GPUConflict = "conflict" // promised more than once
)

// GPUOwner is a VM or a container that claims a card.
type GPUOwner struct {
	VMID      int    `json:"vmid"`
	Container bool   `json:"container,omitempty"`
	Name      string `json:"name"`
	Slot      string `json:"slot"`              // hostpci0; dev0 of a container
	Mapping   string `json:"mapping,omitempty"` // the mapping through which it claims it; empty if by address
	Pooled    bool   `json:"pooled,omitempty"`  // it may get another card instead
	Running   bool   `json:"running"`
	OnBoot    bool   `json:"onboot"`
	Ours      bool   `json:"ours"`
}

// vfio is the driver that holds the cards of a running VM.
const vfio = "vfio-pci"

// GPUs lists every NVIDIA card of every running host of the Proxmox cluster, no matter who owns
// it.
func (c *Cluster) GPUs(ctx context.Context) ([]GPUInfo, error) { return c.site.flow().gpus(ctx) }

func (c *cards) gpus(ctx context.Context) ([]GPUInfo, error) {
	if c.Proxmox == nil {
		return nil, ErrNoProxmox
	}
	hosts, err := c.Proxmox.Hosts.List(ctx)
	if err != nil {
		return nil, err
	}
	var up []string
	for _, h := range hosts {
		if h.Online {
			up = append(up, h.Name)
		}
	}
	ledger, err := c.Proxmox.PCI.Ledger(ctx, up...)
	if err != nil {
		return nil, err
	}
	ours, err := c.templates.OwnVMIDs(ctx)
	if err != nil {
		return nil, err
	}
	out := []GPUInfo{}
	for _, card := range ledger.Cards {
		info := GPUInfo{
			Host: card.Host, Address: card.Address.String(), Model: card.Model, ID: card.ID(), Functions: 1 + len(card.Functions),
			IOMMUGroup: card.IOMMUGroup, Mappings: append([]string{}, card.Mappings...), VMs: []string{}, Owners: []GPUOwner{},
			State: GPUFree, Problem: card.Problem(),
		}
		if info.Problem != "" {
			info.State = GPUUnusable
		}
		for _, v := range card.Virtual {
			info.Virtual = append(info.Virtual, v.Address.String())
		}
		c.enterOwners(&info, card, ledger, ours)
		out = append(out, info)
	}
	for _, conflict := range ledger.Conflicts() {
		for i := range out {
			if out[i].Host == conflict.Host && slices.ContainsFunc(conflict.Devices, func(a proxmox.PCIAddress) bool {
				at, err := proxmox.ParsePCIAddress(out[i].Address)
				return err == nil && a.Whole() == at.Whole()
			}) {
				out[i].State, out[i].Problem = GPUConflict, placement.ConflictText(conflict)
			}
		}
	}
	return out, nil
}

// enterOwners records the owner of a card: a VM, or a node that has no VM yet. ours are the
// VMIDs of this cluster's machines.
func (c *cards) enterOwners(info *GPUInfo, card pci.Card, ledger *pci.Ledger, ours map[int]bool) {
	for _, id := range card.Mappings {
		m := placement.Mapping(ledger.Mappings, id)
		node, named := strings.CutPrefix(id, names.Mapping(c.spec, ""))
		cluster := names.MappingCluster(m.Description)
		switch {
		case cluster == "":
		case named && cluster == c.spec.Name:
			info.State, info.Node = GPUOurs, node
		default:
			info.State = GPUTaken
		}
	}
	for _, cl := range card.Claims {
		if cl.Template {
			continue
		}
		owner := GPUOwner{
			VMID: cl.VMID, Container: cl.Container, Name: cl.Name, Slot: cl.Slot, Mapping: cl.Mapping, Pooled: len(cl.Choices) > 1, Running: cl.Running, OnBoot: cl.OnBoot,
			Ours: ours[cl.VMID],
		}
		if owner.Ours && owner.Pooled && cl.Mapping == names.Mapping(c.spec, cl.Name) {
			owner.Pooled = false // the whole mapping belongs to the node
		}
		if owner.Running && !owner.Pooled && !owner.Container && len(card.Virtual) == 0 {
			info.Driver = vfio
		}
		info.State = GPUTaken
		if owner.Ours {
			info.State, info.Node = GPUOurs, cl.Name
		}
		if i := slices.IndexFunc(info.Owners, func(o GPUOwner) bool { return o.VMID == owner.VMID }); i >= 0 {
			continue // the VM claims it by two slots, each of which may get any card of the mapping
		}
		info.Owners = append(info.Owners, owner)
		info.VMs = append(info.VMs, cl.Name)
	}
}

// String writes the owner in a few words: "104 win11, stopped".
func (o GPUOwner) String() string {
	s := fmt.Sprintf("%d %s", o.VMID, o.Name)
	if o.Container {
		s += ", a container"
	}
	switch {
	case o.Pooled:
		s += ", perhaps"
	case !o.Running:
		s += ", stopped"
	}
	return s
}

// WriteKubeconfig fetches the kubeconfig and writes it to KubeconfigPath.
func (c *Cluster) WriteKubeconfig(ctx context.Context) error {
	step := c.site.flow().members.KubeconfigStep()
	diff, act, err := step.Check(ctx)
	if err != nil || diff.Empty() {
		return err
	}
	return act(ctx)
}
