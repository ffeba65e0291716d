package harvester

import (
	"context"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

const (
	pollTime = 2 * time.Second
	// stopTime is how long a machine may take to go: the guest's own time, and KubeVirt's to clean up.
	stopTime = graceTime*time.Second + 2*time.Minute
)

// Start lets the machine run. It does not wait until it does: that is a matter of the guest. A machine whose
// guest has switched it off is halted first, which takes the ended instance away.
func (c *Client) Start(ctx context.Context, vm *VM) error {
	fresh, err := c.reread(ctx, vm)
	if err != nil {
		return err
	}
	if fresh.Ended {
		if err := c.Stop(ctx, fresh); err != nil {
			return err
		}
		if fresh, err = c.reread(ctx, vm); err != nil {
			return err
		}
	}
	if !fresh.Halted {
		return nil
	}
	converge.Progressf(ctx, "starting %s", vm)
	return c.setStrategy(ctx, fresh, runs)
}

// Stop shuts the guest down and waits until its instance is gone. The guest has three minutes; then it is
// switched off.
func (c *Client) Stop(ctx context.Context, vm *VM) error {
	fresh, err := c.reread(ctx, vm)
	if err != nil {
		return err
	}
	if !fresh.Halted {
		converge.Progressf(ctx, "stopping %s", vm)
		if err := c.setStrategy(ctx, fresh, halted); err != nil {
			return err
		}
	}
	err = converge.Until(ctx, converge.WaitRule{What: fmt.Sprintf("%s to stop", vm), Limit: stopTime, Poll: pollTime}, func(ctx context.Context) (string, error) {
		now, err := c.reread(ctx, vm)
		if err != nil {
			return "", err
		}
		fresh = now
		if now.Exists || now.acted == runs { // what KubeVirt has not seen halted, it does not start again
			return "it is " + now.Status, nil
		}
		return "", nil
	})
	if err == nil {
		vm.object = fresh.object
	}
	return err
}

// reread reads a machine that was read before.
func (c *Client) reread(ctx context.Context, vm *VM) (*VM, error) {
	now, err := c.Get(ctx, vm.Name)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.UID != vm.UID:
		return nil, converge.Transient(fmt.Errorf("%s is no longer the one that was seen", vm))
	}
	return now, c.mayChange(now)
}

// setStrategy writes whether a machine runs.
func (c *Client) setStrategy(ctx context.Context, vm *VM, strategy string) error {
	u := vm.object.DeepCopy()
	spec, _ := u.Object["spec"].(map[string]any)
	delete(spec, "running") // which excludes runStrategy
	if err := set(u, strategy, "spec", "runStrategy"); err != nil {
		return err
	}
	return c.kube.Update(ctx, u)
}
