package cluster

import (
	"cmp"
	"context"
	_ "embed" // seal.sh
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed seal.sh
var sealScript string

// bakeMemory and bakeCores are the shape of the machine in which a template is
// baked; clones get their own.
const (
	bakeCores  = 4
	bakeMemory = 4 * proxmox.GiB
)

// template is what a host's template should be.
type template struct {
	host, name string
	seed       cloudinit.NoCloud
	driver     nvidia.Driver // zero: none is baked
}

// templateHosts are the hosts that need a template, sorted.
func (c *Cluster) templateHosts() []string {
	var hosts []string
	for _, n := range c.spec.Nodes {
		if !n.External {
			hosts = append(hosts, n.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// template describes a host's template. Its name carries the digest of all that
// goes into it, so a changed input is another template.
func (c *Cluster) template(ctx context.Context, host string) (template, error) {
	s := c.spec
	t := template{host: host, name: s.Image.Template}
	if t.name != "" {
		return t, nil
	}
	var err error
	if t.driver, err = c.driverFor(ctx, host, ""); err != nil {
		return t, err
	}
	t.seed, err = cloudinit.RenderTemplate(cloudinit.Bake{
		Hostname: "template", InstanceID: "template", Packages: basePackages(),
		APTMirror: s.Guest.APTMirror, APTProxy: s.Guest.APTProxy,
	})
	if err != nil {
		return t, err
	}
	digest, err := t.seed.Digest()
	if err != nil {
		return t, err
	}
	inputs := fmt.Sprintln(digest, s.Image.URL, s.Image.SHA256, s.Image.SecureBoot, s.bakedK3s(), t.driver, nvidia.ToolkitVersion)
	t.name = s.templateName(host, cloudinit.Digest([]byte(inputs), []byte(sealScript)))
	return t, nil
}

// driverFor chooses the driver for the cards that a host's nodes may get, and is
// the zero Driver where they get none or it is none of our business. A series that
// is installed stays, unless the file names another.
func (c *Cluster) driverFor(ctx context.Context, host, installed string) (nvidia.Driver, error) {
	s := c.spec
	var ids []nvidia.PCIID
	for _, n := range s.GPUNodes() {
		if n.External || n.Host != host {
			continue
		}
		gpus, err := c.Proxmox.GPUs(ctx, host)
		if err != nil {
			return nvidia.Driver{}, err
		}
		for _, g := range gpus {
			if candidate(n, g) {
				id, err := nvidia.ParsePCIID(g.ID())
				if err != nil {
					return nvidia.Driver{}, err
				}
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 || s.NVIDIA.DriverMode != DriverPrebuilt {
		return nvidia.Driver{}, nil
	}
	driver, _, err := nvidia.SelectDriverBranch(ids, s.driverPolicy(installed))
	return driver, converge.Permanent(err)
}

// driverPolicy is what the file says of the driver.
func (s *Spec) driverPolicy(installed string) nvidia.Policy {
	p := nvidia.Policy{Installed: installed}
	if s.NVIDIA.Branch != "auto" {
		p.Branch = s.NVIDIA.Branch
	}
	if s.NVIDIA.Flavour != "auto" {
		p.Flavour = nvidia.Flavour(s.NVIDIA.Flavour)
	}
	return p
}

// basePackages are what K3s and its storage want of a machine, beside the agent.
func basePackages() []string { return []string{"nfs-common", "open-iscsi", "curl"} }

// templateSeen is a host's template, nil when it is not there, and whether a machine
// is to be cloned from it.
type templateSeen struct {
	vm     *proxmox.Summary
	wanted bool
}

// templateStep bakes a host's template, or finds it. While every machine of the host
// is there nobody asks for one: another K3s or driver in the file, or one GPU node
// less, is no reason to bake.
func (c *Cluster) templateStep(host string) *converge.Resource[templateSeen] {
	name := ""
	return &converge.Resource[templateSeen]{
		ID: "template/" + host,
		Observe: func(ctx context.Context) (templateSeen, error) {
			t, err := c.template(ctx, host)
			if err != nil {
				return templateSeen{}, err
			}
			name = t.name
			vms, err := c.Proxmox.VMs(ctx, c.spec.tag())
			seen, there := templateSeen{}, map[string]bool{}
			for i, vm := range vms {
				there[vm.Name] = true
				if vm.Name == t.name && vm.Host == host {
					seen.vm = &vms[i]
				}
			}
			seen.wanted = slices.ContainsFunc(c.spec.Nodes, func(n Node) bool { return !n.External && n.Host == host && !there[n.Name] })
			return seen, err
		},
		Diff: func(s templateSeen) drift.Diff {
			switch {
			case s.vm == nil && s.wanted:
				return drift.Missing(name)
			case s.vm != nil && !s.vm.Template:
				return drift.Diff{{Have: "half-made", Want: name, Effect: drift.Create}}
			}
			return nil
		},
		Apply: func(ctx context.Context, _ templateSeen) error {
			if c.spec.Image.Template != "" {
				return converge.Permanent(fmt.Errorf("there is no template %s on %s with the tag %s; leave image.template out and one is baked", name, host, c.spec.tag()))
			}
			t, err := c.template(ctx, host)
			if err != nil {
				return err
			}
			vm, err := c.Proxmox.VM(ctx, c.spec.tag(), t.name)
			if err != nil {
				return err
			}
			return c.bake(ctx, t, vm)
		},
	}
}

// bake makes a template, or goes on with one that is half-made: each stage looks
// first. Nothing is a template before it was sealed.
func (c *Cluster) bake(ctx context.Context, t template, vm *proxmox.VM) (err error) {
	if vm != nil {
		if vm, err = c.Proxmox.Idle(ctx, vm); err != nil {
			return err
		}
	}
	if vm == nil || !c.sealed(vm) {
		if vm, err = c.bakeSealed(ctx, t, vm); err != nil {
			return err
		}
	}
	if err := c.Proxmox.Convert(ctx, vm); err != nil {
		return err
	}
	return c.Proxmox.DeleteVolume(ctx, t.host, c.spec.Image.SeedStorage+":iso/"+c.bakeSeedFile(t))
}

// sealed reports whether a VM of which a template is made has only to become one:
// its seed is taken out when all else is done.
func (c *Cluster) sealed(vm *proxmox.VM) bool { return vm.Template || !vm.Running && vm.Seed == "" }

// bakeSealed returns the machine that was filled and sealed, and is off.
func (c *Cluster) bakeSealed(ctx context.Context, t template, vm *proxmox.VM) (*proxmox.VM, error) {
	if err := c.bakeSeed(ctx, t); err != nil {
		return nil, err
	}
	if vm == nil {
		var err error
		if vm, err = c.bakeVM(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := c.Proxmox.Start(ctx, vm); err != nil {
		return nil, err
	}
	if err := c.fill(ctx, t, vm); err != nil {
		return nil, fmt.Errorf("baking %s: %w", t.name, err)
	}
	progress.Say(ctx, "sealing")
	if err := remote.Run(ctx, c.Proxmox.Guest(vm), "sh", "-c", sealScript, "seal.sh", sealMark); err != nil {
		return nil, fmt.Errorf("sealing %s: %w", t.name, err)
	}
	return vm, c.Proxmox.Shutdown(ctx, vm)
}

func (c *Cluster) bakeSeedFile(t template) string {
	return c.spec.seedFile("template", cloudinit.Digest([]byte(t.name)))
}

func (c *Cluster) bakeSeed(ctx context.Context, t template) error {
	iso, err := t.seed.ISO()
	if err != nil {
		return err
	}
	file := c.bakeSeedFile(t)
	storage := c.spec.Image.SeedStorage
	volumes, err := c.Proxmox.Volumes(ctx, t.host, storage, isoContent)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(volumes, func(v proxmox.Volume) bool { return v.Name() == file }) {
		return nil
	}
	_, err = c.Proxmox.Upload(ctx, t.host, storage, file, iso)
	return err
}

func (c *Cluster) bakeVM(ctx context.Context, t template) (*proxmox.VM, error) {
	s := c.spec
	progress.Say(ctx, "fetching the cloud image")
	image, err := c.Proxmox.FetchImage(ctx, t.host, s.Image.ImageStorage, proxmox.Image{
		URL: s.Image.URL, SHA256: s.Image.SHA256, FileName: s.imageFile(),
	})
	if err != nil {
		return nil, err
	}
	progress.Say(ctx, "importing the cloud image")
	network := c.spec.Network
	return c.Proxmox.CreateVM(ctx, proxmox.CreateSpec{
		Name: t.name, Host: t.host, Owner: s.tag(), Cores: bakeCores, Memory: bakeMemory,
		Image: image, Storage: s.TemplateStorage(t.host), SecureBoot: s.Image.SecureBoot,
		Seed: s.Image.SeedStorage + ":iso/" + c.bakeSeedFile(t),
		NICs: []proxmox.NIC{{Bridge: network.Bridge, VLAN: network.VLAN, MTU: network.MTU}},
	})
}

// fill installs what every clone needs, through the guest agent.
func (c *Cluster) fill(ctx context.Context, t template, vm *proxmox.VM) error {
	if err := c.Proxmox.WaitAgent(ctx, vm); err != nil {
		return err
	}
	guest := c.Proxmox.Guest(vm)
	if sealing, err := exists(ctx, guest, sealMark); err != nil || sealing {
		return err
	}
	if err := waitFirstBoot(ctx, guest); err != nil {
		return err
	}
	if t.driver.Branch != 0 {
		if err := nvidia.InstallDriver(ctx, guest, t.driver); err != nil {
			return err
		}
		if err := nvidia.InstallToolkit(ctx, guest, nvidia.Toolkit{}); err != nil {
			return err
		}
	}
	if c.spec.bakedK3s() == "" {
		return nil
	}
	progress.Say(ctx, "installing K3s %s", c.spec.K3s.Version)
	_, err := k3s.Install(ctx, guest, c.release())
	return err
}

// bakedK3s is the version of K3s in the template. Without internet there is none:
// the files go to each node over SSH, which the guest agent is too narrow for.
func (s *Spec) bakedK3s() string {
	if s.K3s.AirgapDir != "" {
		return ""
	}
	return s.K3s.Version
}

// sealMark is there from the beginning of the sealing until the machine is off: the
// status of its first boot is gone then, as is all else that fill would ask for.
const sealMark = "/run/homelab-sealing"

// exists reports whether a machine has a file.
func exists(ctx context.Context, r remote.Runner, path string) (bool, error) {
	err := remote.Run(ctx, r, "test", "-e", path)
	var no *remote.ExitError
	if errors.As(err, &no) {
		return false, nil
	}
	return err == nil, err
}

// waitFirstBoot waits until cloud-init is done with a machine.
func waitFirstBoot(ctx context.Context, r remote.Runner) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTime, errors.New("its first boot took more than "+bootTime.String()))
	defer cancel()
	for {
		out, err := cloudInitStatus(ctx, r)
		if err != nil {
			return err
		}
		status, err := cloudinit.ParseStatus(out)
		if err != nil {
			return err
		}
		if err := status.Err(); !errors.Is(err, cloudinit.ErrNotDone) {
			return err
		}
		progress.Say(ctx, "first boot: %s", cmp.Or(status.Detail, string(status.State)))
		if err := pause(ctx, 3*time.Second); err != nil {
			return err
		}
	}
}
