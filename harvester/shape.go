package harvester

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// Shape makes the machine, or changes vm, which was read, to what the spec says; it starts it if the spec says so, and
// stops it before if a change needs that. It continues where an earlier run ended. It does not replace a machine
// where [VMSpec.Diff] says so: [Client.Destroy] comes before.
func (c *Client) Shape(ctx context.Context, s VMSpec, vm *VM) error {
	if err := s.Check(); err != nil {
		return err
	}
	if vm == nil {
		return c.create(ctx, s)
	}
	if err := c.mayChange(vm); err != nil {
		return err
	}
	diff := s.Diff(vm)
	switch {
	case diff.Empty():
		return nil
	case diff.Effect() >= converge.Replace:
		return converge.Permanent(fmt.Errorf("%s is not changed but replaced: %s", vm, diff))
	}
	restart := vm.Exists && needsRestart(diff)
	if restart {
		if err := c.Stop(ctx, vm); err != nil {
			return err
		}
	}
	if err := c.update(ctx, s, vm); err != nil {
		return err
	}
	if s.Running || restart && !vm.Halted {
		return c.Start(ctx, vm)
	}
	return nil
}

// mayChange refuses machines that are not ours, or on their way out.
func (c *Client) mayChange(vm *VM) error {
	switch {
	case !c.Owns(vm):
		return converge.Permanent(fmt.Errorf("%s is not ours and is not changed", vm))
	case vm.Removing:
		return converge.Transient(fmt.Errorf("%s is being removed", vm))
	}
	return nil
}

func needsRestart(d converge.Diff) bool {
	for _, f := range d {
		if f.Effect == converge.Restart {
			return true
		}
	}
	return false
}

// create makes what the machine needs, and then the machine.
func (c *Client) create(ctx context.Context, s VMSpec) error {
	w, err := c.look(ctx, s)
	if err != nil {
		return err
	}
	there, err := c.read(ctx, vmKind(), c.namespace, s.Name)
	switch {
	case err != nil:
		return err
	case there != nil && !c.owns(there, s.Name):
		return foreignError(there, "give the machine another name, or remove that one")
	case there != nil:
		return converge.Transient(fmt.Errorf("%s was made in the meantime", kube.RefOf(there)))
	}
	if err := c.putSecret(ctx, s); err != nil {
		return err
	}
	for _, d := range w.devices {
		if err := c.claim(ctx, d.Name, s.Name); err != nil {
			return err
		}
	}
	u, err := builder{c}.newVM(s, w)
	if err != nil {
		return err
	}
	converge.Progressf(ctx, "creating machine %s/%s", c.namespace, s.Name)
	return c.kube.Create(ctx, u)
}

// putSecret writes the cloud-init documents of a machine that does not exist yet.
func (c *Client) putSecret(ctx context.Context, s VMSpec) error {
	name := secretName(s.Name)
	u, err := c.read(ctx, secretKind(), c.namespace, name)
	switch {
	case err != nil:
		return err
	case u != nil && !c.owns(u, s.Name):
		return foreignError(u, "remove it, or give the machine another name")
	}
	fresh := u == nil
	if fresh {
		u = secretKind().object(c.namespace, name)
		c.tag(u, s.Name)
		u.Object["type"] = "Opaque"
	}
	if err := set(u, map[string]any{
		"userdata":    base64.StdEncoding.EncodeToString(s.UserData),
		"networkdata": base64.StdEncoding.EncodeToString(s.NetworkData),
	}, "data"); err != nil {
		return err
	}
	if fresh {
		return c.kube.Create(ctx, u)
	}
	return c.kube.Update(ctx, u)
}

// update writes the machine's object as the spec says.
func (c *Client) update(ctx context.Context, s VMSpec, vm *VM) error {
	w, err := c.look(ctx, s)
	if err != nil {
		return err
	}
	for _, d := range w.devices {
		if err := c.claim(ctx, d.Name, vm.Name); err != nil {
			return err
		}
	}
	u := vm.object.DeepCopy()
	if err := (builder{c}).change(u, s, vm, w); err != nil {
		return err
	}
	err = c.kube.Update(ctx, u)
	if errors.Is(err, kube.ErrInvalid) && vm.Exists {
		return fmt.Errorf("%w\n  if the disk cannot grow while the machine runs (Harvester 1.5, or another storage than Longhorn), stop the machine and run it again", err)
	}
	if err != nil {
		return err
	}
	vm.object = u
	return c.releaseUnwanted(ctx, vm, w)
}

// look reads what the machine's object needs to be known.
func (c *Client) look(ctx context.Context, s VMSpec) (world, error) {
	w := world{classes: map[string]class{}}
	var err error
	if w.image, err = c.Image(ctx, s.Image); err != nil {
		return w, err
	}
	if w.image == nil || !w.image.Ready {
		return w, converge.Transient(fmt.Errorf("image %s is not there yet", s.Image))
	}
	if w.image.Backend == "cdi" {
		return w, converge.Permanent(fmt.Errorf("image %s is one of CDI, of which machines are not made: import it with Longhorn's backing images (spec.backend: backingimage)", s.Image))
	}
	if w.classes, err = c.classes(ctx); err != nil {
		return w, err
	}
	w.devices, w.node, err = c.grant(ctx, s)
	return w, err
}

// classes reads the storage classes by name, and the default one also by "".
func (c *Client) classes(ctx context.Context) (map[string]class, error) {
	all, err := c.list(ctx, classKind(), "")
	out := map[string]class{}
	for i := range all {
		sc := classOf(&all[i])
		out[sc.name] = sc
		if all[i].GetAnnotations()["storageclass.kubernetes.io/is-default-class"] == "true" {
			out[""] = sc
		}
	}
	return out, err
}

func classOf(u *unstructured.Unstructured) class {
	provisioner, _, _ := unstructured.NestedString(u.Object, "provisioner")
	return class{name: u.GetName(), migrating: provisioner == longhorn}
}

// longhorn is Longhorn's provisioner, whose block volumes two nodes can share during a migration.
const longhorn = "driver.longhorn.io"
