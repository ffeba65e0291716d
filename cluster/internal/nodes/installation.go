package nodes

import (
	"context"
	"errors"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// installTime is how long Windows may take from power-on until its agent answers.
const installTime = 2 * time.Hour

// promptTime is how long a firmware may take to the prompt of a disc's boot loader, which waits some seconds for a key.
const promptTime = 2 * time.Minute

// keyPause is the time between two keys.
const keyPause = time.Second

// startInstallation makes a VM boot from its disc: Windows' boot loader waits for a key, and goes back to the firmware if
// none comes. No key is pressed as soon as something boots, and none where nothing is to be installed any more. A VM whose
// key nobody pressed, after an interrupted run, is reset first.
func startInstallation(ctx context.Context, ns *Nodes, n spec.Node) error {
	vm, does, err := activity(ctx, ns, n)
	if err != nil {
		return err
	}
	if missedKey(does) {
		if err := ns.Proxmox.Consoles.Reset(ctx, vm); err != nil {
			return err
		}
	}
	rule := converge.WaitRule{What: "waiting for " + n.Name + " to boot from its disc", Limit: promptTime, Poll: keyPause, Strict: true,
		TimeoutText: n.Name + " does not boot from " + n.Boot.ISO.Windows,
		Hint:        "look at the machine's console in Proxmox's web interface: is the disc one that boots with UEFI? A repeated run continues from here",
		OnChange:    func(string) {}}
	return run.Until(ctx, ns.Spec, rule, func(ctx context.Context) (string, error) {
		vm, does, err := activity(ctx, ns, n)
		switch {
		case err != nil || does.Boots():
			return "", err
		case !does.Running:
			return "it is off", nil
		}
		return "no key was taken yet", ns.Proxmox.Consoles.PressEnter(ctx, vm)
	})
}

// MissedKey reports whether a VM that runs has found nothing to boot, so that it is reset. It has written nothing that
// could be lost.
func MissedKey(ctx context.Context, ns *Nodes, n spec.Node) bool {
	_, does, err := activity(ctx, ns, n)
	return err == nil && missedKey(does)
}

func missedKey(does proxmox.Activity) bool {
	return does.Running && !does.Boots() && does.Uptime > promptTime
}

func activity(ctx context.Context, ns *Nodes, n spec.Node) (*proxmox.VM, proxmox.Activity, error) {
	vm, err := ns.Proxmox.VMs.Get(ctx, names.Tag(ns.Spec), n.Name)
	if err != nil {
		return nil, proxmox.Activity{}, err
	}
	if vm == nil {
		return nil, proxmox.Activity{}, converge.Permanent(errors.New(n.Name + " is gone"))
	}
	does, err := ns.Proxmox.Consoles.Activity(ctx, vm)
	return vm, does, err
}
