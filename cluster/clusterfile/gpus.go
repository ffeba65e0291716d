package clusterfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// mappingName is what Proxmox takes as the name of a resource mapping.
const mappingName = `^[A-Za-z][A-Za-z0-9_-]+$`

// gpus resolves a node's request.
func (r nvidiaSection) gpus(g *spec.GPURequest, external bool) {
	if r.IsSet(&g.Sharing) {
		r.sharing(&g.Sharing)
		if r.spec.NVIDIA.Stack == spec.StackNone && g.Sharing.Strategy != spec.SharingNone {
			r.Wrong(&g.Sharing.Strategy, "sharing is set up by the stack, and stack is none", "write nvidia.stack: device-plugin or operator")
		}
	} else {
		g.Sharing = r.spec.NVIDIA.Sharing
	}
	for i, a := range g.PCI {
		if g.PCI[i] = a.First(); g.AllFunctions.IsOn() {
			g.PCI[i] = a.Whole()
		}
	}
	named := len(g.PCI) + len(g.Mapping)
	switch {
	case len(g.PCI) > 0 && len(g.Mapping) > 0:
		r.Wrong(&g.Mapping, "gpus are named by PCI address and by mapping", "keep one of pci and mapping")
	case !r.IsSet(&g.Count) && named == 0 && strings.TrimSpace(g.Model) != "" && r.Place(&g.Model) != r.Place(&r.spec.Defaults.GPUs.Model):
		r.Wrong(&g.Model, "gpus has a model and no count, so the node would get none", "write count: 1, or how many it gets")
	case g.Count < 0:
		r.Wrong(&g.Count, fmt.Sprintf("count is %d", g.Count), "write 0 or more")
	case r.IsSet(&g.Count) && named > 0 && g.Count != named:
		r.Wrong(&g.Count, fmt.Sprintf("count is %d and %d are named", g.Count, named), "remove count")
	case external && named > 0:
		r.Wrong(g, "an external machine's GPUs cannot be passed through", "write gpus: and how many it has")
	}
	if named > 0 {
		g.Count = named
	}
	if g.Count > unit.MaxPCI {
		r.Wrong(&g.Count, fmt.Sprintf("a VM takes at most %d PCI devices and the node asks for %d GPUs", unit.MaxPCI, g.Count), "spread them over more nodes")
	}
	g.Count = min(max(g.Count, 0), unit.MaxPCI) // it sizes lists from here on
	for i, m := range g.Mapping {
		if !decode.Matches(mappingName, m) {
			r.Wrong(&g.Mapping[i], fmt.Sprintf("%q cannot be a resource mapping", m), "write its name as under Datacenter, Resource Mappings")
		}
	}
	if strings.TrimSpace(g.Model) != g.Model {
		r.Wrong(&g.Model, "model begins or ends with a blank", "write a part of the name, e.g. A100")
	}
	r.layoutIndices(g)
	r.modelFits(g)
}

// layoutIndices checks that a node has the GPUs that its own layouts name.
func (r nvidiaSection) layoutIndices(g *spec.GPURequest) {
	if !r.IsSet(&g.Sharing) {
		return
	}
	for i := range g.Sharing.Layouts {
		for k, index := range g.Sharing.Layouts[i].GPUs {
			if index >= g.Count && index <= 15 {
				r.Wrong(&g.Sharing.Layouts[i].GPUs[k], fmt.Sprintf("the node has %d GPUs, and the layout names GPU %d", g.Count, index), "indices begin at 0")
			}
		}
	}
}

// modelFits compares a node's model filter with the driver and the sharing.
func (r nvidiaSection) modelFits(raw *spec.GPURequest) {
	sharing := raw.Sharing
	if raw.Model == "" {
		return
	}
	cards := nvidia.GPUsOfModel(raw.Model)
	divisible := slices.ContainsFunc(cards, func(g nvidia.GPU) bool { return g.MIGInstances > 0 })
	if len(cards) == 0 {
		r.Warn(&raw.Model, fmt.Sprintf("no card that NVIDIA lists is called %q", raw.Model), "write whole words of the name that lspci shows, e.g. A100 or RTX 4090")
		return
	}
	if refused := r.driverRefuses(cards); refused != nil {
		r.Wrong(&raw.Model, fmt.Sprintf("no driver fits the %s: %s", raw.Model, refused.Reason), refused.Do)
	}
	if what, do := nvidia.CheckMPS(raw.Model, cards, sharing.Replicas); what != "" && sharing.Strategy == spec.SharingMPS {
		r.Wrong(&raw.Model, what, do)
	}
	if sharing.Strategy == spec.SharingMIG && !divisible {
		r.Wrong(&raw.Model, fmt.Sprintf("the %s does not support MIG", raw.Model), "write sharing: {strategy: time-slicing, replicas: 4}")
		return
	}
	for _, l := range sharing.Layouts {
		sure, why := mig.CheckFitAny(cards, l.Profiles)
		r.misfit(&raw.Model, sure, why, fmt.Sprintf("the %s cannot be divided into %s: ", raw.Model, l))
	}
}

var migProfile = regexp.MustCompile(`^[1-7]g\.[0-9]{1,3}gb(\+me|\+me\.all|\+gfx|-me)?$`)

// MPS serves at most 48 clients a GPU on Volta and later (NVIDIA's MPS guide, Limitations).
const maxMPS = 48

func (r nvidiaSection) sharing(s *spec.Sharing) {
	slicing := s.Strategy == spec.SharingTimeSlicing || s.Strategy == spec.SharingMPS
	switch {
	case slicing && !r.IsSet(&s.Replicas):
		r.Wrong(&s.Replicas, fmt.Sprintf("%s has no replicas", s.Strategy), "write replicas: 4, or how many pods share a GPU")
	case slicing && s.Replicas < 2:
		r.Wrong(&s.Replicas, fmt.Sprintf("replicas is %d, which shares nothing", s.Replicas), "write 2 or more, or strategy: none")
	case s.Strategy == spec.SharingMPS && s.Replicas > maxMPS:
		r.Wrong(&s.Replicas, fmt.Sprintf("MPS serves at most %d clients a GPU and replicas is %d", maxMPS, s.Replicas), fmt.Sprintf("write %d or less", maxMPS))
	case !slicing && r.IsSet(&s.Replicas):
		r.Wrong(&s.Replicas, fmt.Sprintf("replicas has no effect with strategy %s", s.Strategy), "remove it, or write strategy: time-slicing or mps")
	}
	switch {
	case s.Strategy == spec.SharingMIG && len(s.Layouts) == 0:
		r.Wrong(&s.Layouts, "mig has no layouts", "write layouts: [{profiles: {3g.20gb: 2}}]")
	case s.Strategy != spec.SharingMIG && len(s.Layouts) > 0:
		r.Wrong(&s.Layouts, fmt.Sprintf("layouts have no effect with strategy %s", s.Strategy), "remove them, or write strategy: mig")
	}
	seen := map[int]bool{}
	for i := range s.Layouts {
		r.layout(&s.Layouts[i], seen, len(s.Layouts))
	}
}

func (r nvidiaSection) layout(raw *spec.MIGLayout, seen map[int]bool, layouts int) {
	if len(raw.GPUs) == 0 && layouts > 1 {
		r.Wrong(&raw.GPUs, "a layout for all GPUs is next to another", "write gpus: [0] and so on in each")
	}
	for i, g := range raw.GPUs {
		switch {
		case g < 0 || g > 15:
			r.Wrong(&raw.GPUs[i], fmt.Sprintf("a node has no GPU with index %d", g), "write indices from 0")
		case seen[g]:
			r.Wrong(&raw.GPUs[i], fmt.Sprintf("GPU %d has two layouts", g), "keep it in one of them")
		}
		seen[g] = true
	}
	sound := true
	for _, name := range sortedNames(raw.Profiles) {
		at := r.MemberAt(&raw.Profiles, name)
		switch count := raw.Profiles[name]; {
		case !migProfile.MatchString(name):
			r.Wrong(at, fmt.Sprintf("%q is not a MIG profile", name), "write e.g. 1g.5gb, 3g.20gb or 7g.40gb, as nvidia-smi mig -lgip lists them")
		case count < 1 || count > 7:
			r.Wrong(at, fmt.Sprintf("a GPU cannot be divided into %d of %s", count, name), "write a number from 1 to 7")
		default:
			continue
		}
		sound = false
	}
	if sound {
		sure, why := mig.CheckFitSome(raw.Profiles)
		r.misfit(&raw.Profiles, sure, why, "no GPU whose profiles NVIDIA documents can be divided so: ")
	}
}

// misfit says why a layout fits no GPU. Where an undocumented one may have such profiles, the
// machine's driver decides.
func (r nvidiaSection) misfit(at any, sure bool, why error, what string) {
	var no *mig.LayoutError
	if !errors.As(why, &no) {
		return
	}
	say := r.Wrong
	if !sure {
		say = r.Warn
	}
	say(at, fmt.Sprintf("%s%s: %s", what, no.Chip, no.Reason), no.Do)
}
