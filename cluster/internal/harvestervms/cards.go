package harvestervms

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/nvidia"
)

// share are the GPUs of a node, or why it does not get them.
type share struct {
	devices []harvester.HostDevice
	ids     []string // vendor and device
	err     error
}

// allot deals the GPUs of all hosts to the nodes of the file: each keeps what it has, then those in the order of the file
// get free ones of one host. A repeated run deals the same.
func (vs *VMs) allot(ctx context.Context) (map[string]share, error) {
	out := map[string]share{}
	if len(vs.Spec.GPUNodes()) == 0 {
		return out, nil
	}
	all, err := vs.Client.Devices(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(d harvester.Device) bool { return !d.IsGPU() })
	taken := map[string]bool{}
	for _, keeps := range []bool{true, false} {
		for _, n := range vs.Spec.GPUNodes() {
			if !n.OnHarvester || !keeps && len(out[n.Name].devices) == wantedGPUs(n) {
				continue
			}
			var got []harvester.Device
			if own := vs.devicesOf(n, all); keeps {
				got = own[:min(len(own), wantedGPUs(n))]
			} else if got, err = vs.choose(n, own, all, taken); err != nil {
				out[n.Name] = share{err: err}
				continue
			}
			s := share{}
			for _, d := range got {
				taken[d.Name] = true
				s.devices, s.ids = append(s.devices, harvester.HostDevice{Name: d.Name, Resource: d.Resource}), append(s.ids, d.ID)
			}
			out[n.Name] = s
		}
	}
	return out, nil
}

// devicesOf are the devices that a node's machine has, or that were claimed for it.
func (vs *VMs) devicesOf(n spec.Node, all []harvester.Device) []harvester.Device {
	name := vs.Client.Namespace() + "/" + n.Name
	return slices.DeleteFunc(slices.Clone(all), func(d harvester.Device) bool {
		return d.UsedBy != name && (d.UsedBy != "" || d.Cluster != vs.Spec.Name || d.Machine != name)
	})
}

// choose adds free devices of the wanted model to those that a node has, all of one host: that with the fewest to spare.
func (vs *VMs) choose(n spec.Node, own, all []harvester.Device, taken map[string]bool) ([]harvester.Device, error) {
	free := map[string][]harvester.Device{}
	total, models := 0, []string{}
	for _, d := range all {
		if !slices.Contains(models, d.Description) {
			models = append(models, d.Description)
		}
		if d.Free() && !taken[d.Name] && strings.Contains(strings.ToLower(d.Description), strings.ToLower(n.GPUs.Model)) {
			free[d.Node] = append(free[d.Node], d)
			total++
		}
	}
	host, missing := "", wantedGPUs(n)-len(own)
	for _, at := range slices.Sorted(maps.Keys(free)) {
		if len(own) > 0 && own[0].Node != at || len(free[at]) < missing {
			continue
		}
		if host == "" || len(free[at]) < len(free[host]) {
			host = at
		}
	}
	if host == "" {
		return nil, converge.Permanent(fmt.Errorf("no host of Harvester has %d free GPUs%s for %s: %d are free on all hosts together, of %s; "+
			"ask for fewer, or delete the PCIDeviceClaim of one that nobody needs", missing, ofModel(n), n.Name, total, strings.Join(models, ", ")))
	}
	return append(slices.Clone(own), free[host][:missing]...), nil
}

func ofModel(n spec.Node) string {
	if n.GPUs.Model == "" {
		return ""
	}
	return " of model " + n.GPUs.Model
}

// Cards are the GPUs that a machine has.
func (vs *VMs) Cards(ctx context.Context, n spec.Node) ([]nvidia.PCIID, error) {
	all, err := vs.allot(ctx)
	if err != nil {
		return nil, err
	}
	var out []nvidia.PCIID
	for _, id := range all[n.Name].ids {
		card, err := nvidia.ParsePCIID(id)
		if err != nil {
			return nil, err
		}
		out = append(out, card)
	}
	return out, all[n.Name].err
}

// wantedGPUs is how many GPUs a node asks for.
func wantedGPUs(n spec.Node) int { return offer.GPUsOf(n).Cards }
