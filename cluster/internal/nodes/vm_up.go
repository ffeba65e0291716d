package nodes

import (
	"context"
	"errors"
	"io/fs"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// AgentStep waits until the guest agent of a VM that is not a node answers. Nobody logs in to such a VM.
func (ns *Nodes) AgentStep(n spec.Node) *converge.Resource[string] {
	step := &converge.Resource[string]{
		ID:      "guest/" + n.Name,
		Observe: func(ctx context.Context) (string, error) { return ns.observeAgent(ctx, n) },
		Diff: func(problem string) converge.Diff {
			if problem == "" {
				return nil
			}
			return converge.Diff{{Have: problem, Want: "its guest agent answers", Effect: converge.Create}}
		},
		Settle: BootTime,
		Poll:   run.PollInterval,
		Hint: "look at the machine's console (in Proxmox's web interface, or qm terminal on the host): does it boot, with UEFI, and does its cloud-init " +
			"install qemu-guest-agent? If the image cannot have one, write agent: false. A repeated run continues from here",
	}
	if n.FromDiscs() {
		step.Apply = func(ctx context.Context, _ string) error { return startInstallation(ctx, ns, n) }
		step.Settle = installTime
		step.Hint = "look at the machine's console in Proxmox's web interface: Windows Setup says there which of its answers it does not take, and " +
			`C:\Windows\Temp\install.log what failed after that. A repeated run continues from here`
	}
	return step
}

// smallFile is one that every system of the kind has: of Linux with systemd, or of Windows, whose agent says in the guest's
// language that a file is not there.
func smallFile(n spec.Node) string {
	if n.Boot.System == spec.Windows {
		return `C:\Windows\win.ini`
	}
	return "/etc/os-release"
}

// observeAgent says why an agent does not answer; "": it does.
func (ns *Nodes) observeAgent(ctx context.Context, n spec.Node) (problem string, err error) {
	vm, err := ns.Proxmox.VMs.Get(ctx, names.Tag(ns.Spec), n.Name)
	switch {
	case err != nil:
		return "", err
	case vm == nil || !vm.Running:
		return "it does not run yet", nil
	case !ns.Proxmox.Agents.HasSent(ctx, vm):
		return "booting, it has not sent a network packet yet", nil
	}
	_, err = askAgent(ctx, ns, vm, func(ctx context.Context) ([]byte, error) { return ns.Proxmox.Agents.ReadFile(ctx, vm, smallFile(n)) })
	switch {
	case errors.Is(err, proxmox.ErrAgentNotRunning):
		return "its guest agent does not answer yet", nil
	case errors.Is(err, fs.ErrNotExist): // it answers, and the system is another
		return "", nil
	}
	return "", err
}
