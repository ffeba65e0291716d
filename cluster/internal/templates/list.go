package templates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox"
)

// States of an [Info].
const (
	Current = "current"   // what the file asks for
	Old     = "old"       // of an earlier file or version
	Half    = "half-made" // an interrupted run left it; the next run continues
	Theirs  = "theirs"    // image.template names it
)

// Info is one template of the cluster.
type Info struct {
	Host  string
	VMID  int
	Name  string
	State string
	Size  proxmox.Size // of its disks
	Holds Contents
	Nodes []string // VMs whose disks are linked clones of it
}

// Key identifies this template among others.
func (t Info) Key() Key { return Key{t.Host, t.Name} }

// List lists the templates that were baked for this cluster, on every host, even one that is
// no longer in the file, and the template that image.template names.
func (ts *Templates) List(ctx context.Context) ([]Info, error) {
	all, err := ts.Proxmox.Hosts.Residents(ctx)
	if err != nil {
		return nil, err
	}
	marked, err := ts.OwnVMIDs(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := ts.WantedTemplates(ctx)
	if err != nil {
		return nil, err
	}
	out := []Info{}
	for _, r := range all {
		ours := marked[r.VMID] && ts.Baked(r.Summary)
		if r.Container || !ours && !wanted.theirs[r.VMID] {
			continue
		}
		vm, err := ts.Proxmox.VMs.GetByID(ctx, r.VMID)
		if errors.Is(err, proxmox.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		unbased, err := ts.Proxmox.Templates.UnconvertedDisks(ctx, vm)
		if err != nil {
			return nil, err
		}
		info := Info{Host: vm.Host, VMID: vm.VMID, Name: vm.Name, State: Old, Holds: readContents(vm.Description), Nodes: []string{}}
		switch {
		case !ours:
			info.State = Theirs
		case !vm.Template || len(unbased) > 0:
			info.State = Half
		case wanted.Ours[Key{vm.Host, vm.Name}]:
			info.State = Current
		}
		if info.Nodes, err = ts.clonesOf(ctx, r.Summary, all); err != nil {
			return nil, err
		}
		for _, d := range vm.Disks {
			info.Size += d.Size
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b Info) int {
		if a.Host != b.Host {
			return strings.Compare(a.Host, b.Host)
		}
		return a.VMID - b.VMID
	})
	return out, nil
}

// Key identifies a baked template.
type Key struct{ host, name string }

// wantedTemplates are the templates that nodes of the file are, or would be, cloned from.
type wantedTemplates struct {
	Ours   map[Key]bool
	theirs map[int]bool // by VMID
}

func (ts *Templates) WantedTemplates(ctx context.Context) (wantedTemplates, error) {
	out := wantedTemplates{Ours: map[Key]bool{}, theirs: map[int]bool{}}
	for _, host := range ts.Hosts() {
		if ts.Spec.Image.Template != "" {
			vm, err := ts.existing(ctx, host)
			var below proxmox.Error
			switch {
			case err == nil:
				out.theirs[vm.VMID] = true
			case errors.As(err, &below) && !errors.Is(err, proxmox.ErrNotFound), ctx.Err() != nil:
				return out, err
			} // another step reports what is wrong with it
			continue
		}
		all, err := ts.Templates(ctx, host)
		if err != nil {
			return out, err
		}
		for _, t := range all {
			out.Ours[Key{host, t.Name}] = true
		}
	}
	return out, nil
}

// clonesOf names the VMs whose disks are linked clones of a template.
func (ts *Templates) clonesOf(ctx context.Context, template proxmox.Summary, all []proxmox.Resident) ([]string, error) {
	ids, err := ts.Proxmox.Templates.LinkedClones(ctx, &template)
	names := []string{}
	for _, id := range ids {
		name := fmt.Sprintf("VM %d", id) // a VM that the token may not see
		if i := slices.IndexFunc(all, func(r proxmox.Resident) bool { return r.VMID == id }); i >= 0 {
			name = all[i].Name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, err
}
