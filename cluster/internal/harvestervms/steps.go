package harvestervms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/internal/printable"
)

// CheckStep checks, before anything changes, whether Harvester can carry what the file asks for.
func (vs *VMs) CheckStep(files func() error) *converge.Resource[struct{}] {
	return &converge.Resource[struct{}]{
		ID: "harvester",
		Observe: func(ctx context.Context) (struct{}, error) {
			if err := files(); err != nil {
				return struct{}{}, converge.Permanent(err)
			}
			want, err := vs.requirements(ctx)
			if err != nil {
				return struct{}{}, err
			}
			found, err := vs.Client.Check(ctx, want)
			if err != nil {
				return struct{}{}, err
			}
			var errs []error
			for _, f := range found {
				if f.Warning {
					converge.Progressf(ctx, "warning: %s", f)
					continue
				}
				errs = append(errs, errors.New(f.String()))
			}
			return struct{}{}, converge.Permanent(errors.Join(errs...))
		},
		Diff: func(struct{}) converge.Diff { return nil },
	}
}

// ImageStep lets Harvester download the image of the file, which several clusters may have in common.
func (vs *VMs) ImageStep() *converge.Resource[*harvester.Image] {
	want := vs.image()
	return &converge.Resource[*harvester.Image]{
		ID: "image",
		Observe: func(ctx context.Context) (*harvester.Image, error) {
			have, err := vs.Client.Image(ctx, want.Name)
			switch {
			case err != nil:
				return nil, err
			case have != nil && have.Failed != "":
				return nil, converge.Permanent(fmt.Errorf("%s was not imported: %s; delete it in Harvester, and run this again", have, have.Failed))
			case have == nil && want.URL == "":
				return nil, converge.Permanent(fmt.Errorf("Harvester has no image %s: image.template names one that is there", want.Name))
			}
			return have, nil
		},
		Diff: func(have *harvester.Image) converge.Diff {
			switch {
			case have == nil:
				return converge.Diff{{Want: "download of " + want.URL, Effect: converge.Create}}
			case !have.Ready:
				return converge.Diff{{Have: have.Waiting(), Want: "imported", Effect: converge.Create}}
			}
			return nil
		},
		Apply: func(ctx context.Context, have *harvester.Image) error {
			if have != nil { // it is being imported
				return nil
			}
			_, err := vs.Client.EnsureImage(ctx, want)
			return err
		},
		Settle: downloadTime,
		Hint:   "Harvester downloads it itself: its page Images says how far it is. A repeated run continues from here",
	}
}

// downloadTime is how long the download of an image may take.
const downloadTime = 30 * time.Minute

// state is a node's VM, and what it should be.
type state struct {
	vm   *harvester.VM
	want harvester.VMSpec
}

func (vs *VMs) observe(ctx context.Context, n spec.Node) (state, error) {
	vm, err := vs.Client.Get(ctx, n.Name)
	if err != nil {
		return state{}, err
	}
	if vm != nil && !vs.Client.Owns(vm) {
		return state{}, converge.Permanent(fmt.Errorf("%s exists, and is not of this cluster: name the node differently, or remove it there", vm))
	}
	if met := vs.Nodes.Observation(n.Name); !met.Made.Load() {
		met.Absent.Store(vm == nil)
	}
	want, err := vs.machine(n)
	if err != nil {
		return state{}, err
	}
	if !n.HasGPUs() { // the ledger is of all hosts
		return state{vm, want}, nil
	}
	cards, err := vs.allot(ctx)
	if err != nil {
		return state{}, err
	}
	want.Devices = cards[n.Name].devices
	return state{vm, want}, cards[n.Name].err
}

// VMStep makes a node's VM and keeps it up to date.
func (vs *VMs) VMStep(n spec.Node) *converge.Resource[state] {
	return &converge.Resource[state]{
		ID:      "vm/" + n.Name,
		Observe: func(ctx context.Context) (state, error) { return vs.observe(ctx, n) },
		Diff:    func(s state) converge.Diff { return s.want.Diff(s.vm) },
		Costs:   vs.costsOfVM(n),
		Apply:   func(ctx context.Context, s state) error { return vs.shape(ctx, n, s) },
		Settle:  vmTime,
		Hint:    "the page Virtual Machines of Harvester says why it does not start. A repeated run continues from here",
	}
}

// costsOfVM is the restart of a running VM.
func (vs *VMs) costsOfVM(n spec.Node) func(context.Context, state, converge.Diff) []converge.Cost {
	return func(ctx context.Context, s state, d converge.Diff) []converge.Cost {
		if s.vm == nil || !s.vm.Running || d.Effect() != converge.Restart {
			return nil
		}
		return vs.Members.Stops(ctx, members.RestartReason(d), n.Name)
	}
}

// vmTime is how long a VM may take to run: its volume is made from the image first.
const vmTime = 5 * time.Minute

// shape makes or changes a VM. One that stops for that is drained first, and no other node is down then.
func (vs *VMs) shape(ctx context.Context, n spec.Node, s state) error {
	change := func(ctx context.Context) error { return vs.Client.Shape(ctx, s.want, s.vm) }
	if s.vm == nil { // what is known of a machine of this name is about an earlier one
		vs.Nodes.Observation(n.Name).Made.Store(true)
		if err := errors.Join(vs.Nodes.DropHostKey(n.Name), vs.Nodes.Hosts.Flush()); err != nil {
			return err
		}
		return change(ctx)
	}
	switch d := s.want.Diff(s.vm); {
	case d.Effect() == converge.Replace:
		return converge.Permanent(fmt.Errorf("%s cannot change to what the file says while it exists: %s\n"+
			"  homelab node:replace -node=%s recreates it: drains it, destroys it with its disks, and lets a new one join", n.Name,
			slices.DeleteFunc(d, func(f converge.Field) bool { return f.Effect != converge.Replace }), printable.Word(n.Name)))
	case d.Effect() == converge.Restart && s.vm.Running:
		return vs.Members.TakeDown(ctx, n, change)
	}
	return change(ctx)
}

// RemovedStep removes machines of the cluster that are no longer in the file: it drains them, deletes them from
// Kubernetes and destroys them.
func (vs *VMs) RemovedStep() *converge.Resource[[]*harvester.VM] {
	return &converge.Resource[[]*harvester.VM]{
		ID: "removed",
		Observe: func(ctx context.Context) ([]*harvester.VM, error) {
			all, err := vs.Client.List(ctx)
			return slices.DeleteFunc(all, func(vm *harvester.VM) bool { return vs.Spec.HasMachine(vm.Name) }), err
		},
		Diff: func(gone []*harvester.VM) converge.Diff {
			var d converge.Diff
			for _, vm := range gone {
				d = append(d, converge.Field{Path: vm.Name, Have: vm.String(), Effect: converge.Remove, Note: "no longer in the file"})
			}
			return d
		},
		Costs: vs.costsOfRemoval,
		Apply: func(ctx context.Context, gone []*harvester.VM) error {
			if err := vs.checkServerLeft(ctx, gone); err != nil {
				return converge.Permanent(err)
			}
			for _, vm := range gone {
				if err := converge.Confirm(ctx); err != nil { // the ones before took a while
					return err
				}
				if err := vs.retire(ctx, vm); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// costsOfRemoval is the data that is lost with machines that are no longer in the file.
func (vs *VMs) costsOfRemoval(ctx context.Context, gone []*harvester.VM, _ converge.Diff) []converge.Cost {
	var out []converge.Cost
	for _, vm := range gone {
		out = append(out, vs.loss(ctx, vm, "no longer in the file"))
	}
	return out
}

// checkServerLeft refuses to remove machines if none of the file's servers exists: that would remove the cluster itself.
func (vs *VMs) checkServerLeft(ctx context.Context, gone []*harvester.VM) error {
	all, err := vs.Client.List(ctx)
	if err != nil {
		return err
	}
	return members.CheckServerLeft(vs.Spec, namesOf(all), namesOf(gone))
}

func namesOf(all []*harvester.VM) []string {
	var out []string
	for _, vm := range all {
		out = append(out, vm.Name)
	}
	return out
}

// retire removes one machine from the cluster and from Harvester.
func (vs *VMs) retire(ctx context.Context, vm *harvester.VM) error {
	if err := vs.Members.Leave(ctx, vm.Name, false); err != nil {
		return err
	}
	converge.Progressf(ctx, "destroying %s", vm.Name)
	return vs.Client.Destroy(ctx, vm)
}

// DestroyStep destroys the machine that was seen, not one that has replaced it since. again: it is made again.
func (vs *VMs) DestroyStep(id string, seen *harvester.VM, why string, again bool) *converge.Resource[*harvester.VM] {
	return &converge.Resource[*harvester.VM]{
		ID: id,
		Observe: func(ctx context.Context) (*harvester.VM, error) {
			vm, err := vs.Client.Get(ctx, seen.Name)
			if err == nil && vm != nil && vm.Identity() != seen.Identity() {
				return nil, nil
			}
			return vm, err
		},
		Diff: func(vm *harvester.VM) converge.Diff {
			if vm == nil {
				return nil
			}
			return converge.DiffUnwanted(vm.String() + ", with its disks")
		},
		Costs: vs.costsOfMachine(why),
		Apply: func(ctx context.Context, vm *harvester.VM) error {
			if err := vs.Client.Destroy(ctx, vm); err != nil {
				return err
			}
			if n, is := vs.Spec.Node(seen.Name); is && again {
				return vs.Members.MachineGone(ctx, n)
			}
			return nil
		},
	}
}

// costsOfMachine is what is lost with one machine.
func (vs *VMs) costsOfMachine(why string) func(context.Context, *harvester.VM, converge.Diff) []converge.Cost {
	return func(ctx context.Context, vm *harvester.VM, _ converge.Diff) []converge.Cost {
		return []converge.Cost{vs.loss(ctx, vm, why)}
	}
}

// loss is what goes with a machine.
func (vs *VMs) loss(ctx context.Context, vm *harvester.VM, why string) converge.Cost {
	cost := converge.Cost{Machine: vm.Name, Object: members.SortNode, Identity: vm.Identity(), Kind: converge.CostDestroy, Reason: why}
	cost.Users = vs.Members.Users(ctx, func(w *workload.Work) []converge.Loss {
		cost.Holds = w.Volumes(vm.Name)
		return w.LossesOn(vm.Name)
	})
	for _, d := range vm.Disks {
		if d.Name != osDisk { // a node's is made again from the image
			cost.Holds = append(cost.Holds, converge.Loss{Text: fmt.Sprintf("disk %s (%s)", d.Name, d.Size), ID: vm.Name + "-" + d.Name})
		}
	}
	return cost
}

// RestsStep removes what was made for machines that are gone, and with all the image, if nobody else uses it.
func (vs *VMs) RestsStep(all bool) *converge.Resource[rests] {
	return &converge.Resource[rests]{
		ID:      "leftovers/harvester",
		Observe: func(ctx context.Context) (rests, error) { return vs.findRests(ctx, all) },
		Diff: func(r rests) converge.Diff {
			var d converge.Diff
			for _, l := range r.machines {
				d = append(d, converge.DiffUnwanted(strings.Join(l.Objects, ", "))...)
			}
			if r.image != "" {
				d = append(d, converge.DiffUnwanted("image "+r.image)...)
			}
			return d
		},
		Apply: func(ctx context.Context, r rests) error {
			for _, l := range r.machines {
				if err := vs.Client.Clear(ctx, l.Machine); err != nil {
					return err
				}
			}
			if r.image == "" {
				return nil
			}
			_, err := vs.Client.RemoveImage(ctx, r.image)
			return err
		},
		Once: true, // an image that others use stays
	}
}

// rests is what is not needed any more.
type rests struct {
	machines []harvester.Leftover
	image    string
}

func (vs *VMs) findRests(ctx context.Context, all bool) (r rests, err error) {
	if r.machines, err = vs.Client.Leftovers(ctx); err != nil {
		return r, err
	}
	if !all { // a machine of the file is made with what is there of it
		r.machines = slices.DeleteFunc(r.machines, func(l harvester.Leftover) bool { return vs.Spec.HasMachine(l.Machine) })
		return r, nil
	}
	have, err := vs.Client.Image(ctx, vs.image().Name)
	if have != nil && have.Ours {
		r.image = have.Name
	}
	return r, err
}
