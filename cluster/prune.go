package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// TemplateInfo is one template of the cluster.
type TemplateInfo struct {
	Host string `json:"host"`
	VMID int    `json:"vmid"`
	Name string `json:"name"`
	// State is "current", "old" (of an earlier file or version), "half-made" (the next run goes on
	// with it), or "theirs" (image.template names it).
	State string           `json:"state"`
	Size  proxmox.Size     `json:"size"` // of its disks, in bytes
	Holds TemplateContents `json:"holds"`
	Nodes []string         `json:"nodes"` // VMs whose disks are linked clones of it
}

// TemplateContents is what a template contains, as its description says.
type TemplateContents struct {
	Image    string   `json:"image,omitempty"` // the file's name
	SHA256   string   `json:"sha256,omitempty"`
	SHA512   string   `json:"sha512,omitempty"`
	Packages []string `json:"packages,omitempty"` // in addition to the image's own
	Driver   string   `json:"driver,omitempty"`   // e.g. 580-server-open
	Toolkit  string   `json:"toolkit,omitempty"`
	K3s      string   `json:"k3s,omitempty"`
	Made     string   `json:"made,omitempty"` // the day on which baking started: 2006-01-02
}

// String names the contents in a few words.
func (c TemplateContents) String() string { return templates.Contents(c).String() }

// Templates lists the templates that were baked for this cluster, on every host, even one that is
// no longer in the file, and the template that image.template names.
func (c *Cluster) Templates(ctx context.Context) ([]TemplateInfo, error) {
	if c.site.Proxmox == nil {
		return nil, ErrNoProxmox
	}
	all, err := c.site.templates.List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]TemplateInfo, len(all))
	for i, t := range all {
		out[i] = TemplateInfo{Host: t.Host, VMID: t.VMID, Name: t.Name, State: t.State, Size: t.Size, Holds: TemplateContents(t.Holds), Nodes: t.Nodes}
	}
	return out, nil
}

// Prune removes the cluster's templates that the file no longer needs and that have no linked
// clones, and ISOs and images that nothing needs. It covers every host, even one that is no
// longer in the file. It lists them first, so that each can be shown and confirmed.
func (c *Cluster) Prune(ctx context.Context) (*converge.Graph, error) {
	f := c.site.flow()
	return run.Retry(ctx, f.spec, f.pruneGraph)
}

func (c *holdings) pruneGraph(ctx context.Context) (*converge.Graph, error) {
	if c.Proxmox == nil {
		return nil, ErrNoProxmox
	}
	all, err := c.templates.List(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := c.templates.WantedTemplates(ctx)
	if err != nil {
		return nil, err
	}
	graph := c.members.Graph()
	var gone []*converge.Ref
	for _, t := range all {
		if t.State != templates.Theirs && !wanted.Ours[t.Key()] && len(t.Nodes) == 0 {
			gone = append(gone, graph.Add(c.unbakeStep(t)))
		}
	}
	hosts, err := c.Proxmox.Hosts.List(ctx)
	if err != nil {
		return nil, err
	}
	graph.Add(&converge.Resource[[]templates.Leftover]{
		ID:      "files",
		Observe: func(ctx context.Context) ([]templates.Leftover, error) { return c.findUnneeded(ctx, hosts) },
		Diff:    diffRests,
		Costs:   costsOfFiles,
		Apply:   c.templates.RemoveLeftovers,
	}, gone...)
	return graph, nil
}

// unbakeStep removes one template. If a VM has become a linked clone of it since, both stay:
// Proxmox refuses.
func (c *holdings) unbakeStep(t templates.Info) *converge.Resource[*proxmox.VM] {
	return &converge.Resource[*proxmox.VM]{
		ID: "template/" + t.Host + "/" + t.Name,
		Observe: func(ctx context.Context) (*proxmox.VM, error) { // several hosts may have templates of one name
			return c.Proxmox.VMs.GetFromSummary(ctx, names.Tag(c.spec), proxmox.Summary{VMID: t.VMID, Name: t.Name})
		},
		Diff: func(vm *proxmox.VM) converge.Diff {
			if vm == nil {
				return nil
			}
			return converge.DiffUnwanted(fmt.Sprintf("template %d, %s, no VM uses it", vm.VMID, t.State))
		},
		Costs: costsOfTemplate,
		Apply: c.seeds.DestroyVM,
	}
}

// findUnneeded finds, on every host, ISOs and images of the cluster that no node, bake or pending
// template needs.
func (c *holdings) findUnneeded(ctx context.Context, hosts []proxmox.Host) ([]templates.Leftover, error) {
	kept := map[string]bool{}
	for _, host := range hostprep.Hosts(c.spec) {
		k, err := c.neededByFile(ctx, host)
		if err != nil {
			return nil, err
		}
		for file := range k.files {
			kept[file] = true
		}
	}
	var out []templates.Leftover
	seen := map[string]bool{} // files of shared storages
	for _, h := range hosts {
		if !h.Online {
			continue
		}
		volumes, err := c.unneededOn(ctx, h.Name, seen, func(file string, shared bool) bool {
			return kept[file] && (shared || slices.Contains(hostprep.Hosts(c.spec), h.Name))
		})
		if err != nil {
			return nil, err
		}
		if len(volumes) > 0 {
			out = append(out, templates.Leftover{Host: h.Name, Volumes: volumes})
		}
	}
	return out, c.templates.ExcludeUsed(ctx, out, "") // a VM of this cluster needs what is in its drive
}

// unneededOn is unneeded for one host. needed says which files of a storage, shared by hosts or
// not, must stay.
func (c *holdings) unneededOn(ctx context.Context, host string, seen map[string]bool, needed func(file string, shared bool) bool) ([]proxmox.Volume, error) {
	storages, err := c.Proxmox.Storages.List(ctx, host)
	if err != nil {
		return nil, err
	}
	var out []proxmox.Volume
	for _, s := range storages {
		if !s.Active || seen[s.Name] || s.Name != c.spec.Image.SeedStorage && s.Name != c.spec.Image.ImageStorage {
			continue
		}
		seen[s.Name] = s.Shared
		volumes, err := c.Proxmox.Storages.Volumes(ctx, host, s.Name, "")
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			if v.VMID == 0 && names.OwnsFile(c.spec, v.Name()) && !needed(v.Name(), s.Shared) {
				out = append(out, v)
			}
		}
	}
	return out, nil
}

// costsOfFiles are files that nothing needs, for a user who has asked only for their removal.
func costsOfFiles(_ context.Context, all []templates.Leftover, _ converge.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range all {
		for _, v := range r.Volumes {
			out = append(out, converge.Cost{Machine: v.Name(), Object: "file", Identity: v.ID + " on " + r.Host, Kind: converge.CostDestroy,
				Reason: "nothing on this Proxmox needs it"})
		}
	}
	return out
}

// costsOfTemplate is what is lost with a template without linked clones.
func costsOfTemplate(_ context.Context, vm *proxmox.VM, _ converge.Diff) []converge.Cost {
	return []converge.Cost{{Machine: vm.Name, Object: "template", Identity: vm.Identity(), Kind: converge.CostDestroy,
		Reason: "a template that no VM uses"}}
}
