package templates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// The machine in which a template is baked. Clones get a name and a size of their own.
const (
	bakeCores  = 4 // at most: this machine only unpacks packages
	bakeMemory = 4 * spec.GiB
)

// bakeShape is the size of the bake machine on a host. The largest node there
// limits it: Proxmox does not start a VM with more cores than its host has, and the nodes' sizes
// have been checked before.
func bakeShape(s *spec.Spec, host string) (cores int, memory spec.Size) {
	for _, n := range s.Machines() {
		if n.FromTemplate() && n.Host == host {
			cores, memory = max(cores, n.Cores), max(memory, n.Memory)
		}
	}
	return min(cores, bakeCores), min(memory, bakeMemory)
}

// bake makes a template, or continues a half-made one: each stage checks first what exists.
// A VM becomes a template only after it is sealed.
func (ts *Templates) bake(ctx context.Context, t template, vm *proxmox.VM) (err error) {
	if vm != nil {
		if vm, err = ts.Proxmox.VMs.WaitIdle(ctx, vm); err != nil {
			return err
		}
	}
	if vm == nil || !ts.isBaked(vm) {
		if vm, err = ts.bakeSealed(ctx, t, vm); err != nil {
			return err
		}
	}
	seed := vm.Seed
	if err := ts.Proxmox.Templates.Convert(ctx, vm); err != nil || seed == "" {
		return err
	}
	return ts.dropSeed(ctx, t.host, seed)
}

// dropSeed deletes the seed of a finished bake. It keeps another ISO that a user has put into
// the drive, and an ISO that another owner's VM has in its drive.
func (ts *Templates) dropSeed(ctx context.Context, host, id string) error {
	seed := proxmox.Volume{ID: id, Content: hostprep.ISOContent}
	if !names.OwnsBake(ts.Spec, seed.Name()) {
		converge.Progressf(ctx, "%s on %s stays: it is not the seed that the template was baked with", id, host)
		return nil
	}
	all := []Leftover{{Host: host, Volumes: []proxmox.Volume{seed}}}
	if err := ts.ExcludeUsed(ctx, all, names.Tag(ts.Spec)); err != nil {
		return err
	}
	return ts.RemoveLeftovers(ctx, all)
}

// isBaked reports whether baking is done and the VM only has to become a template: its seed is
// removed last.
func (ts *Templates) isBaked(vm *proxmox.VM) bool { return vm.Template || !vm.Running && vm.Seed == "" }

// bakeSealed returns the machine after it was filled, sealed and switched off. found is what an
// earlier run left of it, or nil.
func (ts *Templates) bakeSealed(ctx context.Context, t template, found *proxmox.VM) (*proxmox.VM, error) {
	interrupted := false
	if found != nil && !found.Running {
		var err error
		if interrupted, err = ts.Proxmox.VMs.EverStarted(ctx, found); err != nil {
			return nil, err
		}
		if cores, memory := bakeShape(ts.Spec, t.host); !interrupted && (found.Cores != cores || found.Memory != memory) {
			converge.Progressf(ctx, "recreating %s: it never ran, and the nodes have another size now", found)
			if err := ts.Seeds.DestroyVM(ctx, found); err != nil {
				return nil, err
			}
			found = nil
		}
	}
	vm, err := ts.bakeFilled(ctx, t, found)
	if err != nil && interrupted && vm != nil && ctx.Err() == nil {
		vm, err = ts.bakeAnew(ctx, t, vm, err)
	}
	if err != nil {
		return nil, err
	}
	converge.Progressf(ctx, "sealing")
	if err := remote.Run(ctx, ts.Proxmox.Agents.Runner(vm), "sh", "-c", sealScript, "seal.sh", sealMark); err != nil {
		return nil, fmt.Errorf("sealing %s: %w", t.Name, err)
	}
	return vm, ts.Proxmox.VMs.Shutdown(ctx, vm)
}

// bakeFilled returns the machine with everything that belongs in it. If the machine runs but
// gets stuck, bakeFilled returns it with the error.
func (ts *Templates) bakeFilled(ctx context.Context, t template, vm *proxmox.VM) (*proxmox.VM, error) {
	vm, err := ts.bakeVM(ctx, t, vm)
	if err != nil {
		return nil, err
	}
	if err := ts.Proxmox.VMs.Start(ctx, vm); err != nil {
		return nil, err
	}
	if err := ts.install(ctx, t, vm); err != nil {
		return vm, fmt.Errorf("baking %s: %w", t.Name, err)
	}
	return vm, nil
}

// bakeAnew recreates the machine. A machine that lost power during its first boot may never
// finish it: packages are half installed, and cloud-init does nothing twice. If the new machine
// fails too, the error says why the first one failed.
func (ts *Templates) bakeAnew(ctx context.Context, t template, vm *proxmox.VM, why error) (*proxmox.VM, error) {
	reason, _, _ := strings.Cut(why.Error(), "\n")
	converge.Progressf(ctx, "recreating %s: it was switched off half-way, and is stuck after a restart: %s", vm, reason)
	if err := ts.Seeds.DestroyVM(ctx, vm); err != nil {
		return nil, errors.Join(why, err)
	}
	anew, err := ts.bakeFilled(ctx, t, nil)
	if err != nil {
		return nil, fmt.Errorf("%w\n  before that, VM %d, which was switched off half-way through its first boot, was destroyed and recreated, "+
			"because it was stuck after a restart: %w", err, vm.VMID, why)
	}
	return anew, nil
}

// bakeVM returns the machine to bake in. An existing machine keeps its seed.
func (ts *Templates) bakeVM(ctx context.Context, t template, vm *proxmox.VM) (*proxmox.VM, error) {
	node, err := ts.bakeNode(ctx, t.host)
	if err != nil {
		return nil, err
	}
	doc, err := ts.bakeSeed(t, node)
	if err != nil {
		return nil, err
	}
	digest, err := doc.Digest()
	if err != nil {
		return nil, err
	}
	s := ts.Spec
	// Hosts may share the storage, and each deletes its own seed.
	file := names.Seed(s, names.Bake, cloudinit.Digest([]byte(t.host), []byte(digest)))
	if vm != nil && vm.Seed != "" {
		file = proxmox.Volume{ID: vm.Seed}.Name()
	}
	if !names.OwnsBake(s, file) { // not ours: homelab does not create or delete it
		return vm, nil
	}
	if id, err := ts.Proxmox.Storages.ISO(ctx, t.host, s.Image.SeedStorage, file); err != nil {
		return nil, err
	} else if id == "" {
		iso, err := doc.ISO()
		if err != nil {
			return nil, err
		}
		if _, err := ts.Proxmox.Storages.Upload(ctx, t.host, s.Image.SeedStorage, file, iso); err != nil {
			return nil, err
		}
	}
	if vm != nil {
		return vm, nil
	}
	return ts.createBakeVM(ctx, t, node, s.Image.SeedStorage+":iso/"+file)
}

// bakeNode is the node whose network settings the bake machine uses: the first node of the host
// that does not exist yet. Its address is free, since the node is cloned from this template, and
// its network reaches what nodes need.
func (ts *Templates) bakeNode(ctx context.Context, host string) (spec.Node, error) {
	vms, err := ts.Proxmox.VMs.List(ctx, names.Tag(ts.Spec))
	if err != nil {
		return spec.Node{}, err
	}
	there := map[string]bool{}
	for _, vm := range vms {
		there[vm.Name] = true
	}
	if n, ok := firstMissingNode(ts.Spec, host, there); ok {
		return n, nil
	}
	// A half-made template is always finished. It has its seed; only a lost one is
	// recreated.
	for _, n := range ts.Spec.Machines() {
		if n.FromTemplate() && n.Host == host {
			return spec.Node{Name: n.Name, Network: n.Network}, nil
		}
	}
	return spec.Node{}, fmt.Errorf("no node of the file is on %s", host)
}

// bakeSeed is the first-boot configuration of the bake machine. It is minimal, since everything
// else goes through the guest agent.
func (ts *Templates) bakeSeed(t template, n spec.Node) (cloudinit.NoCloud, error) {
	s := ts.Spec
	b := cloudinit.Bake{
		Hostname: names.Bake, InstanceID: names.Bake, Packages: t.holds.Packages,
		APTMirror: s.Guest.APTMirror, APTSecurity: firstboot.APTSecurity(s), APTProxy: s.Guest.APTProxy, HTTPSProxy: s.Guest.HTTPSProxy,
		MAC: names.BakeMAC(s, t.host).String(), Address: n.Address, DNS: n.Network.DNS, Search: n.Network.Search, MTU: n.Network.MTU,
	}
	if !n.DHCP() {
		b.Gateway = n.Network.Gateway
	}
	return cloudinit.RenderTemplate(b)
}

func (ts *Templates) createBakeVM(ctx context.Context, t template, n spec.Node, seed string) (*proxmox.VM, error) {
	s := ts.Spec
	image, err := ts.Proxmox.Storages.Fetch(ctx, t.host, s.Image.ImageStorage, proxmox.Image{
		URL: s.Image.URL, SHA256: s.Image.SHA256, SHA512: s.Image.SHA512, FileName: names.Image(s),
	})
	if err != nil {
		return nil, err
	}
	converge.Progressf(ctx, "importing the image")
	holds := t.holds
	holds.Made = today()
	cores, memory := bakeShape(s, t.host)
	return ts.Proxmox.VMs.Create(ctx, proxmox.CreateSpec{
		Name: t.Name, Host: t.host, Owner: names.Tag(s), Cores: cores, Memory: memory,
		Image: image, Storage: s.TemplateStorage(t.host), SecureBoot: s.Image.SecureBoot, Seed: seed,
		NICs:        []proxmox.NIC{{Bridge: n.Network.Bridge, MAC: names.BakeMAC(s, t.host).String(), VLAN: n.Network.VLAN, MTU: n.Network.MTU}},
		Description: holds.describe(s.Name),
	})
}

// install installs what every clone needs, through the guest agent.
func (ts *Templates) install(ctx context.Context, t template, vm *proxmox.VM) error {
	if err := ts.waitBakeAgent(ctx, vm); err != nil {
		return err
	}
	guest := nodes.WithProxy(ts.Spec, ts.Proxmox.Agents.Runner(vm))
	if sealing, err := exists(ctx, guest, sealMark); err != nil || sealing {
		return err
	}
	if err := ts.waitFirstBoot(ctx, guest); err != nil {
		return err
	}
	if t.driver.Branch != 0 {
		if err := nvidia.InstallDriver(ctx, guest, t.driver); err != nil {
			return err
		}
		if err := nvidia.InstallToolkit(ctx, guest, ts.Toolkit); err != nil {
			return err
		}
	}
	return ts.Distribution.Fill(ctx, guest)
}

// waitBakeAgent waits for the agent, which is the first package to be installed.
func (ts *Templates) waitBakeAgent(ctx context.Context, vm *proxmox.VM) error {
	limited, cancel := converge.WithRunningTimeout(ctx, run.Limit(ts.Spec, nodes.BootTime), context.DeadlineExceeded)
	defer cancel()
	err := ts.Proxmox.Agents.Wait(limited, vm)
	if err == nil || ctx.Err() != nil {
		return err
	}
	hint := ts.bakeHint(vm)
	if limited.Err() != nil {
		hint += "\n  " + run.TimeoutHint(ts.Spec)
	}
	return fmt.Errorf("%w%s", err, hint)
}

// bakeHint says what a machine needs before its agent can answer.
func (ts *Templates) bakeHint(vm *proxmox.VM) string {
	bridge, address := "its bridge", "an address from a DHCP server there"
	if len(vm.NICs) > 0 {
		bridge = vm.NICs[0].Bridge
	}
	all := ts.Spec.Machines()
	if i := slices.IndexFunc(all, func(n spec.Node) bool { return n.Host == vm.Host && !n.DHCP() && n.FromTemplate() }); i >= 0 {
		address = "the address of a node that does not exist yet, such as " + all[i].Address.String()
	}
	mirror := cmp.Or(ts.Spec.Guest.APTMirror, firstboot.Distro(ts.Spec).Mirror)
	return fmt.Sprintf("\n  the agent is installed at this machine's first boot: on %s it has %s, and must reach %s. "+
		"Check its console: qm terminal %d on %s", bridge, address, strings.TrimSuffix(mirror, "/"), vm.VMID, printable.Word(vm.Host))
}

// sealMark exists from the start of the sealing until the machine is off. By then the status of
// the first boot is gone, like everything else that fill checks.
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

// waitFirstBoot waits until cloud-init has finished on a machine.
func (ts *Templates) waitFirstBoot(ctx context.Context, r remote.Runner) error {
	rule := converge.WaitRule{What: "first boot", Limit: nodes.BootTime, TimeoutText: "its first boot was not over", Strict: true}
	return run.Until(ctx, ts.Spec, rule, func(ctx context.Context) (string, error) {
		out, err := nodes.CloudInitStatus(ctx, r)
		if err != nil {
			return "", err
		}
		status, err := cloudinit.ParseStatus(out)
		if err != nil {
			return "", err
		}
		if err := status.Err(); err == nil {
			return "", nil
		} else if !errors.Is(err, cloudinit.ErrNotDone) {
			return "", fmt.Errorf("%w%s", err, nodes.BootCause(ctx, r))
		}
		return cmp.Or(status.Detail, string(status.State)), nil
	})
}
