package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// leftoversStep removes what only earlier files needed: parts of the platform, seeds,
// mappings, templates. It checks again before it removes anything: hours may pass between the
// plan and the answer to a question.
func (c *holdings) leftoversStep() *converge.Resource[leftovers] {
	return &converge.Resource[leftovers]{
		ID:      "leftovers",
		Observe: c.findLeftovers,
		Diff:    leftovers.diff,
		Costs:   c.costsOfLeftovers,
		Apply: func(ctx context.Context, seen leftovers) error {
			now, err := c.findLeftovers(ctx)
			if err != nil {
				return err
			}
			u, err := seen.confirm(now)
			errs := []error{err} // one part that must stay does not stop the removal of others
			for _, p := range u.parts {
				if err := converge.Confirm(ctx); err != nil { // the ones before took a while
					return errors.Join(append(errs, err)...)
				}
				errs = append(errs, c.parts.RetirePart(ctx, p))
			}
			for _, p := range u.given {
				errs = append(errs, c.parts.ReleaseToFleet(ctx, p))
			}
			return errors.Join(append(errs, c.templates.RemoveLeftovers(ctx, u.rests))...)
		},
	}
}

func diffRests(all []templates.Leftover) converge.Diff {
	var d converge.Diff
	for _, r := range all {
		d = append(d, r.Diff()...)
	}
	return d
}

// neededFiles lists what is still needed on a host.
type neededFiles struct {
	files, mappings map[string]bool
	templates       map[string]bool // by name
	stay            map[string]bool // machines that keep data, by name: they keep their seeds
	nothing         bool            // everything is removed, including clones
}

// neededByFile is what the current file needs.
func (c *holdings) neededByFile(ctx context.Context, host string) (neededFiles, error) {
	k := neededFiles{
		files:    map[string]bool{names.Image(c.spec): true},
		mappings: map[string]bool{}, templates: map[string]bool{},
	}
	if c.spec.Image.Template == "" {
		all, err := c.templates.Templates(ctx, host)
		if err != nil {
			return k, err
		}
		for _, t := range all {
			k.templates[t.Name] = true
		}
	}
	var err error
	if k.stay, err = c.keptMachines(ctx, nil); err != nil {
		return k, err
	}
	for _, n := range c.spec.Machines() {
		if !n.OnProxmox() {
			continue
		}
		if n.FromImage() {
			file, err := c.imageFile(n)
			if err != nil {
				return k, err
			}
			k.files[file] = true
		}
		k.mappings[names.Mapping(c.spec, n.Name)] = n.HasGPUs()
		for _, d := range n.Devices {
			id := names.DeviceMapping(c.spec, n.Name, d.Name)
			if d.USB != "" {
				id = proxmox.OfUSB + id
			}
			k.mappings[id] = d.NamedMapping() == ""
		}
		sd, err := c.seeds.Seed(n) // hosts may share the storage
		if err != nil {
			return k, err
		}
		k.files[sd.File] = true
	}
	return k, nil
}

// unneededOnHosts finds what the cluster owns and no longer needs. A template with linked clones stays:
// Proxmox could not remove it, and it does no harm.
func (c *holdings) unneededOnHosts(ctx context.Context, kept func(context.Context, string) (neededFiles, error)) ([]templates.Leftover,
	error) {
	if c.Proxmox == nil {
		return nil, nil
	}
	vms, err := c.Proxmox.VMs.List(ctx, names.Tag(c.spec))
	if err != nil {
		return nil, err
	}
	var out []templates.Leftover
	for i, host := range hostprep.Hosts(c.spec) {
		k, err := kept(ctx, host)
		if err != nil {
			return nil, err
		}
		r := templates.Leftover{Host: host}
		if r.Volumes, err = c.ownVolumes(ctx, host, k); err != nil {
			return nil, err
		}
		if i == 0 { // mappings belong to all hosts
			if r.Mappings, err = c.ownMappings(ctx, host, k.mappings); err != nil {
				return nil, err
			}
		}
		for _, vm := range vms {
			if vm.Host == host && c.templates.Baked(vm) && !k.templates[vm.Name] {
				used, err := c.hasForeignClones(ctx, vm, k.nothing, vms)
				if err != nil {
					return nil, err
				}
				if !used {
					r.Templates = append(r.Templates, vm)
				}
			}
		}
		out = append(out, r)
	}
	return out, c.templates.ExcludeUsed(ctx, out, names.Tag(c.spec))
}

// hasForeignClones reports whether VMs have disks that are linked clones of a template. If everything is
// removed, only VMs of other owners count: their disks would be lost, or Proxmox refuses.
func (c *holdings) hasForeignClones(ctx context.Context, template proxmox.Summary, nothing bool, ours []proxmox.Summary) (bool, error) {
	if !nothing {
		clones, err := c.Proxmox.Templates.LinkedClones(ctx, &template)
		return len(clones) > 0, err
	}
	all, err := c.Proxmox.Hosts.Residents(ctx)
	if err != nil {
		return false, err
	}
	others := map[int]bool{}
	for _, r := range all {
		others[r.VMID] = !r.Container
	}
	for _, vm := range ours {
		delete(others, vm.VMID)
	}
	if len(others) == 0 {
		return false, nil
	}
	clones, err := c.Proxmox.Templates.LinkedClones(ctx, &template)
	clones = slices.DeleteFunc(clones, func(vmid int) bool { return !others[vmid] })
	if len(clones) > 0 {
		converge.Progressf(ctx, "%s (VM %d) stays: disks of VM %d, which this cluster does not own, are linked clones of it", template.Name,
			template.VMID, clones[0])
	}
	return len(clones) > 0, err
}

func (c *holdings) ownVolumes(ctx context.Context, host string, k neededFiles) ([]proxmox.Volume, error) {
	var out []proxmox.Volume
	storages := []string{c.spec.Image.SeedStorage, c.spec.Image.ImageStorage}
	slices.Sort(storages)
	for _, storage := range slices.Compact(storages) {
		if storage == "" {
			continue
		}
		volumes, err := c.Proxmox.Storages.Volumes(ctx, host, storage, "")
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			needed := k.files[v.Name()] || firstboot.IsSeedOf(c.spec, k.stay, v.Name())
			if v.VMID != 0 || !names.OwnsFile(c.spec, v.Name()) || needed {
				continue
			}
			if inUse, err := c.inDrive(ctx, v, k); err != nil {
				return nil, err
			} else if !inUse {
				out = append(out, v)
			}
		}
	}
	return c.seeds.ExcludeForeign(ctx, host, out)
}

func (c *holdings) ownMappings(ctx context.Context, host string, keep map[string]bool) ([]string, error) {
	all, err := c.Proxmox.PCI.Mappings(ctx, host)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range all {
		if m.Description == names.MappingNote(c.spec) && !keep[m.ID] {
			out = append(out, m.ID)
		}
	}
	usb, err := c.Proxmox.PCI.USBMappings(ctx, "")
	for _, m := range usb {
		if id := proxmox.OfUSB + m.ID; m.Description == names.MappingNote(c.spec) && !keep[id] {
			out = append(out, id)
		}
	}
	return out, err
}

// inDrive reports whether an outdated seed is in the drive of a machine of the file, which
// still needs it: Proxmox does not start a VM with a missing ISO in its drive.
func (c *holdings) inDrive(ctx context.Context, v proxmox.Volume, k neededFiles) (bool, error) {
	fields := strings.Split(v.Name(), "_") // ownsFile has checked the format
	if k.nothing || !c.spec.HasMachine(fields[2]) {
		return false, nil
	}
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), fields[2])
	return vm != nil && proxmox.Volume{ID: vm.Seed}.Name() == v.Name(), err
}

// costsOfLeftovers are the parts that the file no longer names. ISOs, mappings and
// templates of earlier files hold no data.
func (c *holdings) costsOfLeftovers(ctx context.Context, u leftovers, _ converge.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range u.parts {
		if _, held := u.held[r.Part]; held {
			continue
		}
		client, err := c.members.Kube(ctx)
		if errors.Is(err, members.ErrUnformed) { // without a cluster, nothing can be removed either
			continue
		}
		if err != nil {
			out = append(out, converge.Cost{
				Machine: r.Part, Object: parts.SortPart, Kind: converge.CostDestroy, Reason: "no longer in the file", Holds: parts.UnknownLoss(err),
			})
			continue
		}
		out = append(out, c.parts.Retires(ctx, client, r, "no longer in the file", u.parts...)...)
	}
	return out
}

// costsOfRests are the templates that are removed with a cluster: the next one bakes its own.
func costsOfRests(_ context.Context, all []templates.Leftover, _ converge.Diff) []converge.Cost {
	var out []converge.Cost
	for _, r := range all {
		for _, t := range r.Templates {
			out = append(out, converge.Cost{Machine: t.Name, Object: "template", Identity: strconv.Itoa(t.VMID), Kind: converge.CostDestroy,
				Reason: "a template; another one is baked when needed"})
		}
	}
	return out
}

// leftovers are leftovers of earlier files, on the hosts and in Kubernetes.
type leftovers struct {
	rests []templates.Leftover
	parts []parts.Record
	given []parts.Record // parts that Fleet deploys now

	held map[string]parts.InUse // why parts stay, by part name
}

// findLeftovers finds the leftovers of earlier files.
func (c *holdings) findLeftovers(ctx context.Context) (u leftovers, err error) {
	if u.rests, err = c.unneededOnHosts(ctx, c.neededByFile); err != nil {
		return u, err
	}
	if u.parts, u.given, err = c.parts.RetiredParts(ctx); err != nil || len(u.parts) == 0 {
		return u, err
	}
	client, err := c.members.Kube(ctx)
	if err != nil {
		return u, err
	}
	u.held = map[string]parts.InUse{}
	for _, p := range u.parts {
		var why parts.InUse
		if err := c.parts.CheckUnused(ctx, client, p, u.parts...); errors.As(err, &why) {
			u.held[p.Part] = why
		} else if err != nil {
			return u, err
		}
	}
	return u, nil
}

func (u leftovers) diff() converge.Diff {
	var d converge.Diff
	for _, p := range u.parts {
		its := p.Diff()
		if why, held := u.held[p.Part]; held {
			its[0].Note = why.Error() // a plan says what a run will refuse
		}
		d = append(d, its...)
	}
	for _, p := range u.given {
		d = append(d, converge.Field{Path: p.Part, Have: "applied by us", Want: "Fleet's", Effect: converge.Update, Note: "it is kept"})
	}
	return append(d, diffRests(u.rests)...)
}

// confirm is the part of u that may be removed now: what was unneeded, still is, and has not
// changed. A part that was kept when it was shown stays, since nobody agreed to its removal.
func (u leftovers) confirm(now leftovers) (out leftovers, err error) {
	var errs []error
	same := func(seen, there []parts.Record) (out []parts.Record) {
		for _, p := range seen {
			i := slices.IndexFunc(there, func(o parts.Record) bool { return o.Part == p.Part })
			switch why, held := u.held[p.Part]; {
			case held:
				errs = append(errs, converge.Permanent(why))
			case i < 0: // it was removed, or the file needs it again
			case !reflect.DeepEqual(p, there[i]):
				errs = append(errs, converge.Permanent(fmt.Errorf("part %s changed after it was shown: run it again", p.Part)))
			default:
				out = append(out, p)
			}
		}
		return out
	}
	out.parts, out.given = same(u.parts, now.parts), same(u.given, now.given)
	for _, r := range u.rests {
		i := slices.IndexFunc(now.rests, func(o templates.Leftover) bool { return o.Host == r.Host })
		if i < 0 {
			continue
		}
		there := now.rests[i]
		out.rests = append(out.rests, templates.Leftover{
			Host:     r.Host,
			Volumes:  intersection(r.Volumes, there.Volumes, func(v proxmox.Volume) string { return v.ID }),
			Mappings: intersection(r.Mappings, there.Mappings, func(id string) string { return id }),
			Templates: intersection(r.Templates, there.Templates, func(vm proxmox.Summary) string {
				return fmt.Sprint(vm.VMID, " ", vm.Name)
			}),
		})
	}
	return out, errors.Join(errs...)
}

// intersection are the elements of seen that are also in there.
func intersection[T any](seen, there []T, id func(T) string) []T {
	return slices.DeleteFunc(slices.Clone(seen), func(x T) bool {
		return !slices.ContainsFunc(there, func(y T) bool { return id(x) == id(y) })
	})
}
