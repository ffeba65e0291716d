package harvester

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// goneTime is how long a machine may take to be removed, after its guest's own time.
const goneTime = stopTime + 3*time.Minute

// Destroy removes a machine of ours with everything that was made for it: its volumes and the data on them, its
// cloud-init documents, its claims on devices. It continues where an earlier run ended; what is left when the
// machine itself is gone already, [Client.Clear] removes.
func (c *Client) Destroy(ctx context.Context, vm *VM) error {
	if !c.Owns(vm) {
		return converge.Permanent(fmt.Errorf("%s is not ours and is not removed", vm))
	}
	now, err := c.read(ctx, vmKind(), c.namespace, vm.Name)
	if err != nil {
		return err
	}
	if now != nil && (string(now.GetUID()) != vm.UID || !c.owns(now, vm.Name)) {
		return converge.Permanent(fmt.Errorf("%s is no longer the one that was seen and is not removed", vm))
	}
	if now != nil {
		if err := c.remove(ctx, vm, now); err != nil {
			return err
		}
	}
	return c.Clear(ctx, vm.Name)
}

// remove removes the machine itself and waits until it is gone: it takes its volumes only then.
func (c *Client) remove(ctx context.Context, vm *VM, now *unstructured.Unstructured) error {
	converge.Progressf(ctx, "removing %s", vm)
	if now.GetDeletionTimestamp() == nil {
		if err := c.kube.DeleteExact(ctx, now, false); err != nil {
			return err
		}
	}
	return converge.Until(ctx, converge.WaitRule{What: fmt.Sprintf("%s to be gone", vm), Limit: goneTime, Poll: pollTime}, func(ctx context.Context) (string, error) {
		for _, k := range []kind{vmKind(), instanceKind()} {
			u, err := c.read(ctx, k, c.namespace, vm.Name)
			if err != nil {
				return "", err
			}
			if u != nil && (k == instanceKind() || string(u.GetUID()) == vm.UID) {
				return "it is being removed", nil
			}
		}
		return "", nil
	})
}

// Clear removes what was made for a machine of ours that is gone. It refuses if there is a machine of that name.
func (c *Client) Clear(ctx context.Context, machine string) error {
	vm, err := c.read(ctx, vmKind(), c.namespace, machine)
	if err != nil {
		return err
	}
	if vm != nil {
		return converge.Transient(fmt.Errorf("%s is there: what is made for it stays", kube.RefOf(vm)))
	}
	if err := c.release(ctx, machine); err != nil {
		return err
	}
	for _, k := range []kind{volumeKind(), secretKind()} {
		all, err := c.list(ctx, k, c.namespace)
		if err != nil {
			return err
		}
		for i := range all {
			if !c.owns(&all[i], machine) || all[i].GetDeletionTimestamp() != nil {
				continue
			}
			if err := c.kube.DeleteExact(ctx, &all[i], false); err != nil {
				return err
			}
		}
	}
	return nil
}

// Leftover is what was made for a machine that is not there.
type Leftover struct {
	Machine string
	Objects []string // "persistentvolumeclaim a100/a100-wk1-os"
}

// Leftovers finds what is ours and has no machine, by the machine's name. Claims whose device another machine uses
// are not among them, nor what is being removed.
func (c *Client) Leftovers(ctx context.Context) ([]Leftover, error) {
	vms, err := c.list(ctx, vmKind(), c.namespace)
	if err != nil {
		return nil, err
	}
	users, err := c.deviceUsers(ctx)
	if err != nil {
		return nil, err
	}
	var out []Leftover
	for _, k := range []kind{volumeKind(), secretKind(), claimKind()} {
		namespace := c.namespace
		if k == claimKind() {
			namespace = ""
		}
		all, err := c.list(ctx, k, namespace)
		if err != nil {
			return nil, err
		}
		for i := range all {
			machine, ok := c.machineOf(&all[i])
			if !ok || all[i].GetDeletionTimestamp() != nil || k == claimKind() && users[all[i].GetName()] != "" ||
				slices.ContainsFunc(vms, func(u unstructured.Unstructured) bool { return u.GetName() == machine }) {
				continue
			}
			at := slices.IndexFunc(out, func(l Leftover) bool { return l.Machine == machine })
			if at < 0 {
				at = len(out)
				out = append(out, Leftover{Machine: machine})
			}
			out[at].Objects = append(out[at].Objects, kube.RefOf(&all[i]).String())
		}
	}
	slices.SortFunc(out, func(a, b Leftover) int { return cmp.Compare(a.Machine, b.Machine) })
	return out, nil
}
