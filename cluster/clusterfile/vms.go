package clusterfile

import (
	"reflect"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/vms"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// makeVMs completes the VMs that are not nodes. They inherit the cluster's network, and nothing of
// defaults, which are those of nodes.
func (r nodesSection) makeVMs(root *yamlnode.Node) {
	base := &yamlnode.Node{Kind: yamlnode.Map}
	if network := root.Get("network").AsMap(); network != nil {
		base = base.With("network", network)
	}
	known := decode.Keys(reflect.TypeFor[spec.VM]())
	foreign := slices.DeleteFunc(decode.Keys(reflect.TypeFor[spec.Node]()), func(key string) bool { return slices.Contains(known, key) })
	for i := range r.spec.VMs {
		vm := &r.spec.VMs[i]
		vms.Check(r.Checker, r.spec, vm)
		n := &spec.Node{}
		r.DecodeMerged(decode.Merge(base, root.Get("vms").Get(vm.Name).AsMap().Without(foreign...)), n)
		n.Name, n.Role, n.Boot = vm.Name, spec.PlainVM, &vm.VMBoot
		r.vms = append(r.vms, r.complete(n, nil))
		r.PutAt(n, vm)
		n.GPUs.Sharing = spec.Sharing{}
		vm.Node = *n
		vm.Node.Boot = nil // which is the VM's own
	}
}

// machines are the nodes, and the VMs that are not.
func (r *resolver) machines() []plannedNode { return slices.Concat(r.nodes, r.vms) }
