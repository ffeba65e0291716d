package cluster

import (
	"context"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// GPUInfo is one card of one host, and who has it.
type GPUInfo struct {
	Host       string   `json:"host"`
	Address    string   `json:"address"`
	Model      string   `json:"model"`
	ID         string   `json:"id"`
	IOMMUGroup int      `json:"iommuGroup"` // -1: none
	Mappings   []string `json:"mappings"`
	VMs        []string `json:"vms"` // that have a claim on it, running or not
	Problem    string   `json:"problem,omitempty"`
}

// GPUs lists every NVIDIA card of every host, ours or not.
func (c *Cluster) GPUs(ctx context.Context) ([]GPUInfo, error) {
	out := []GPUInfo{}
	for _, host := range c.templateHosts() {
		gpus, err := c.Proxmox.GPUs(ctx, host)
		if err != nil {
			return nil, err
		}
		mappings, err := c.Proxmox.Mappings(ctx, host)
		if err != nil {
			return nil, err
		}
		uses, err := c.Proxmox.PCIUses(ctx, host)
		if err != nil {
			return nil, err
		}
		for _, g := range gpus {
			info := GPUInfo{
				Host: host, Address: g.Address.String(), Model: model(g.Name), ID: g.ID(),
				IOMMUGroup: g.IOMMUGroup, Mappings: []string{}, VMs: []string{}, Problem: g.Problem(),
			}
			for _, m := range mappings {
				for _, d := range m.Devices {
					if d.Host == host && d.Address.Contains(g.Address) {
						info.Mappings = append(info.Mappings, m.ID)
					}
				}
			}
			info.VMs = append(info.VMs, users(uses, g)...)
			out = append(out, info)
		}
	}
	return out, nil
}

// users names the VMs that have a claim on a card.
func users(uses []proxmox.PCIUse, g proxmox.GPU) []string {
	var out []string
	for _, u := range uses {
		for _, a := range u.Addresses {
			if a.Contains(g.Address) {
				out = append(out, u.Name)
				break
			}
		}
	}
	return out
}

// model is the marketing name in a PCI database's "GA100 [A100 PCIe 40GB]".
func model(name string) string {
	if _, rest, ok := strings.Cut(name, "["); ok {
		return strings.TrimSuffix(rest, "]")
	}
	return name
}

// WriteKubeconfig fetches the kubeconfig and leaves it at KubeconfigPath.
func (c *Cluster) WriteKubeconfig(ctx context.Context) error {
	step := c.kubeconfigStep()
	diff, act, err := step.Check(ctx)
	if err != nil || diff.Empty() {
		return err
	}
	return act(ctx)
}
