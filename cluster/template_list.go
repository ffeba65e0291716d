package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// States of a TemplateInfo.
const (
	TemplateCurrent = "current"   // what the file asks for
	TemplateOld     = "old"       // of an earlier file or version
	TemplateHalf    = "half-made" // a run that was cut short left it; the next one goes on
	TemplateTheirs  = "theirs"    // image.template names it
)

// TemplateInfo is one template of the cluster.
type TemplateInfo struct {
	Host  string       `json:"host"`
	VMID  int          `json:"vmid"`
	Name  string       `json:"name"`
	State string       `json:"state"`
	Size  proxmox.Size `json:"size"` // of its disks, in bytes
	Holds contents     `json:"holds"`
	Nodes []string     `json:"nodes"` // VMs whose disks hang on it
}

// What returns what is in the template in a few words.
func (t TemplateInfo) What() string { return t.Holds.String() }

// Made returns the day on which baking started, "" if unknown.
func (t TemplateInfo) Made() string { return t.Holds.Made }

// Templates lists the templates that were baked for this cluster, on every host, also
// one that the file no longer names, and the one that image.template names.
func (c *Cluster) Templates(ctx context.Context) ([]TemplateInfo, error) {
	if c.Proxmox == nil {
		return nil, ErrNoProxmox
	}
	all, err := c.Proxmox.Residents(ctx)
	if err != nil {
		return nil, err
	}
	marked, err := c.ours(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := c.wantedTemplates(ctx)
	if err != nil {
		return nil, err
	}
	out := []TemplateInfo{}
	for _, r := range all {
		ours := marked[r.VMID] && c.baked(r.Summary)
		if r.Container || !ours && !wanted.theirs[r.VMID] {
			continue
		}
		vm, err := c.Proxmox.ByID(ctx, r.VMID)
		if errors.Is(err, proxmox.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		info := TemplateInfo{Host: vm.Host, VMID: vm.VMID, Name: vm.Name, State: TemplateOld, Holds: readContents(vm.Description), Nodes: []string{}}
		switch {
		case !ours:
			info.State = TemplateTheirs
		case !vm.Template || len(vm.Unbased()) > 0:
			info.State = TemplateHalf
		case wanted.ours[templateKey{vm.Host, vm.Name}]:
			info.State = TemplateCurrent
		}
		if info.Nodes, err = c.clonesOf(ctx, r.Summary, all); err != nil {
			return nil, err
		}
		for _, d := range vm.Disks {
			info.Size += d.Size
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b TemplateInfo) int {
		if a.Host != b.Host {
			return strings.Compare(a.Host, b.Host)
		}
		return a.VMID - b.VMID
	})
	return out, nil
}

// templateKey is what a baked template is known by.
type templateKey struct{ host, name string }

// wantedTemplates are those that nodes of the file are, or would be, cloned from.
type wantedTemplates struct {
	ours   map[templateKey]bool
	theirs map[int]bool // by VMID
}

func (c *Cluster) wantedTemplates(ctx context.Context) (wantedTemplates, error) {
	out := wantedTemplates{ours: map[templateKey]bool{}, theirs: map[int]bool{}}
	for _, host := range c.templateHosts() {
		if c.spec.Image.Template != "" {
			vm, err := c.existing(ctx, host)
			var below *proxmox.Error
			switch {
			case err == nil:
				out.theirs[vm.VMID] = true
			case errors.As(err, &below) && !errors.Is(err, proxmox.ErrNotFound), ctx.Err() != nil:
				return out, err
			} // what is wrong with it is said elsewhere
			continue
		}
		t, err := c.template(ctx, host)
		if err != nil {
			return out, err
		}
		out.ours[templateKey{host, t.name}] = true
	}
	return out, nil
}

// clonesOf names the VMs whose disks hang on a template's.
func (c *Cluster) clonesOf(ctx context.Context, template proxmox.Summary, all []proxmox.Resident) ([]string, error) {
	ids, err := c.Proxmox.LinkedClones(ctx, &template)
	names := []string{}
	for _, id := range ids {
		name := fmt.Sprintf("VM %d", id) // one that the token may not see
		if i := slices.IndexFunc(all, func(r proxmox.Resident) bool { return r.VMID == id }); i >= 0 {
			name = all[i].Name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, err
}
