package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func (r *resolver) nvidia() {
	raw := &r.raw.NVIDIA
	r.spec.NVIDIA = NVIDIA{
		Branch:  cmp.Or(raw.Driver.Branch, "auto"),
		Flavour: r.choice(&raw.Driver.Flavour, "flavour", "auto", "open", "proprietary"),
		Sharing: r.sharing(&raw.Sharing),
		Values:  raw.Values,
	}
	if raw.Stack != "" {
		r.spec.NVIDIA.Stack = r.choice(&raw.Stack, "stack", StackDevicePlugin, StackOperator, StackNone)
	}
	if raw.Driver.Mode != "" {
		r.spec.NVIDIA.DriverMode = r.choice(&raw.Driver.Mode, "mode", DriverPrebuilt, DriverDKMS, DriverOperator, DriverNone)
	}
	r.driverBranch()
	r.driverMode()
}

// driverMode checks that stack, driver and the image fit together.
func (r *resolver) driverMode() {
	raw, n := &r.raw.NVIDIA, r.spec.NVIDIA
	switch {
	case n.DriverMode == DriverOperator && n.Stack != StackOperator:
		r.wrong(&raw.Driver.Mode, "the driver cannot come from the GPU operator without the operator", "write stack: operator, or mode: prebuilt")
	case n.DriverMode == DriverDKMS && r.raw.Image.SecureBoot:
		r.wrong(&raw.Driver.Mode, "modules that DKMS builds are not signed, and secure boot refuses them", "write mode: prebuilt, whose modules Ubuntu signs, or secureBoot: false")
	}
	if n.Stack == StackNone && n.Sharing.Strategy != SharingNone {
		r.wrong(&raw.Sharing.Strategy, "sharing is set up by the stack, and stack is none", "write stack: device-plugin or stack: operator")
	}
}

var branchSyntax = regexp.MustCompile(`^(?:nvidia-(?:driver-)?)?([0-9]{3})(-server)?(-open)?$`)

// endedBranches get no fixes any more, or never were for servers.
// Source: NVIDIA's list of supported data-center drivers, autumn 2026.
var endedBranches = []int{390, 418, 450, 460, 470, 510, 515, 520, 525, 530, 535, 545, 550, 555, 560, 565, 570, 575, 590}

// Branches where what is supported changes.
const (
	lastBeforeTuring = 580 // the last for Maxwell, Pascal and Volta
	firstOpenOnly    = 615 // from here there are no proprietary modules
)

// beforeTuring finds models that the open modules do not know and that 580 was the last branch for.
var beforeTuring = regexp.MustCompile(`(?i)\b(V100S?|GV100|TITAN V|P100|P40|P4|P6|P[1-6]000|TITAN X[Pp]?|M60|M40|M4|M[2456]000|GTX (9|10)[0-9]{2}( Ti)?|Quadro GP100)\b`)

func (r *resolver) driverBranch() {
	at, n := &r.raw.NVIDIA.Driver.Branch, &r.spec.NVIDIA
	if n.Branch == "auto" {
		return
	}
	m := branchSyntax.FindStringSubmatch(n.Branch)
	if m == nil {
		r.wrong(at, fmt.Sprintf("%q is not a driver branch", n.Branch), "write auto, or a pinned one such as 580-server")
		return
	}
	number, _ := strconv.Atoi(m[1])
	n.Branch = m[1] + m[2]
	switch {
	case slices.Contains(endedBranches, number):
		r.wrong(at, fmt.Sprintf("driver branch %d gets no fixes any more", number), "write auto, or 580-server, which is supported until June 2028")
	case number < lastBeforeTuring:
		r.wrong(at, fmt.Sprintf("there is no driver branch %d", number), "write auto, or 580-server")
	case m[3] != "" && n.Flavour == "proprietary":
		r.wrong(at, "the branch is an -open one and flavour is proprietary", "remove one of them")
	case m[3] != "":
		n.Flavour = "open"
	case number >= firstOpenOnly && n.Flavour == "proprietary":
		r.wrong(&r.raw.NVIDIA.Driver.Flavour, fmt.Sprintf("from branch %d on there are open modules only", firstOpenOnly), "write flavour: open, or branch: 580-server")
	}
}

// modelFits holds a node's model filter against the driver.
func (r *resolver) modelFits(raw *rawGPUs) {
	if !beforeTuring.MatchString(raw.Model) {
		return
	}
	number, _ := strconv.Atoi((r.spec.NVIDIA.Branch + "000")[:3])
	switch {
	case r.spec.NVIDIA.Flavour == "open":
		r.wrong(&raw.Model, fmt.Sprintf("the open driver modules do not know the %s", raw.Model), "write nvidia.driver.flavour: proprietary, or auto")
	case number > lastBeforeTuring:
		r.wrong(&raw.Model, fmt.Sprintf("driver branch %d does not know the %s", number, raw.Model), "write nvidia.driver.branch: 580-server, or auto")
	}
}

var migProfile = regexp.MustCompile(`^[1-7]g\.[0-9]{1,3}gb(\+me|\+me\.all|\+gfx|-me)?$`)

// MPS serves at most 48 clients a GPU on Volta and later (NVIDIA's MPS guide, Limitations).
const maxMPS = 48

func (r *resolver) sharing(raw *rawSharing) Sharing {
	s := Sharing{Strategy: r.choice(&raw.Strategy, "strategy", SharingNone, SharingTimeSlicing, SharingMPS, SharingMIG), Replicas: or(raw.Replicas, 0)}
	slicing := s.Strategy == SharingTimeSlicing || s.Strategy == SharingMPS
	switch {
	case slicing && raw.Replicas == nil:
		r.wrong(&raw.Replicas, fmt.Sprintf("%s has no replicas", s.Strategy), "write replicas: 4, or how many pods share a GPU")
	case slicing && s.Replicas < 2:
		r.wrong(&raw.Replicas, fmt.Sprintf("replicas is %d, which shares nothing", s.Replicas), "write 2 or more, or strategy: none")
	case s.Strategy == SharingMPS && s.Replicas > maxMPS:
		r.wrong(&raw.Replicas, fmt.Sprintf("MPS serves at most %d clients a GPU and replicas is %d", maxMPS, s.Replicas), fmt.Sprintf("write %d or less", maxMPS))
	case !slicing && raw.Replicas != nil:
		r.wrong(&raw.Replicas, fmt.Sprintf("replicas means nothing with strategy %s", s.Strategy), "remove it, or write strategy: time-slicing or mps")
	}
	switch {
	case s.Strategy == SharingMIG && len(raw.Layouts) == 0:
		r.wrong(&raw.Layouts, "mig has no layouts", "write layouts: [{profiles: {3g.20gb: 2}}]")
	case s.Strategy != SharingMIG && len(raw.Layouts) > 0:
		r.wrong(&raw.Layouts, fmt.Sprintf("layouts mean nothing with strategy %s", s.Strategy), "remove them, or write strategy: mig")
	}
	seen := map[int]bool{}
	for i := range raw.Layouts {
		s.Layouts = append(s.Layouts, r.layout(&raw.Layouts[i], seen, len(raw.Layouts)))
	}
	return s
}

func (r *resolver) layout(raw *rawMIGLayout, seen map[int]bool, layouts int) MIGLayout {
	if len(raw.GPUs) == 0 && layouts > 1 {
		r.wrong(&raw.GPUs, "a layout for all GPUs stands beside another", "write gpus: [0] and so on in each")
	}
	for i, g := range raw.GPUs {
		switch {
		case g < 0 || g > 15:
			r.wrong(&raw.GPUs[i], fmt.Sprintf("a node has no GPU with index %d", g), "write indices from 0")
		case seen[g]:
			r.wrong(&raw.GPUs[i], fmt.Sprintf("GPU %d has two layouts", g), "keep it in one of them")
		}
		seen[g] = true
	}
	slices := 0
	for _, name := range sortedNames(raw.Profiles) {
		at := r.marks[member{&raw.Profiles, name}].at
		switch count := raw.Profiles[name]; {
		case !migProfile.MatchString(name):
			r.wrong(at, fmt.Sprintf("%q is not a MIG profile", name), "write e.g. 1g.5gb, 3g.20gb or 7g.40gb, as nvidia-smi mig -lgip lists them")
		case count < 1 || count > 7:
			r.wrong(at, fmt.Sprintf("a GPU cannot be cut into %d of %s", count, name), "write a number from 1 to 7")
		default:
			slices += count * int(name[0]-'0')
		}
	}
	if slices > 7 {
		r.wrong(&raw.Profiles, fmt.Sprintf("the layout needs %d slices and a GPU has 7", slices), "the first digit of a profile is its slices: take some away")
	}
	return MIGLayout{GPUs: raw.GPUs, Profiles: raw.Profiles}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// gpus resolves a node's request.
func (r *resolver) gpus(raw *rawGPUs, external bool) GPURequest {
	g := GPURequest{
		Count: or(raw.Count, 0), Model: raw.Model, Mapping: raw.Mapping,
		PCIe: or(raw.PCIe, true), ROMBar: or(raw.ROMBar, true), AllFunctions: or(raw.AllFunctions, true),
		Sharing: r.spec.NVIDIA.Sharing,
	}
	if raw.Sharing != nil {
		g.Sharing = r.sharing(raw.Sharing)
	}
	for _, a := range raw.PCI {
		if g.AllFunctions {
			g.PCI = append(g.PCI, a.Whole())
		} else {
			g.PCI = append(g.PCI, a.First())
		}
	}
	named := len(raw.PCI) + len(raw.Mapping)
	switch {
	case len(raw.PCI) > 0 && len(raw.Mapping) > 0:
		r.wrong(&raw.Mapping, "gpus are named by PCI address and by mapping", "keep one of pci and mapping")
	case raw.Count != nil && *raw.Count < 0:
		r.wrong(&raw.Count, fmt.Sprintf("count is %d", *raw.Count), "write 0 or more")
	case raw.Count != nil && named > 0 && *raw.Count != named:
		r.wrong(&raw.Count, fmt.Sprintf("count is %d and %d are named", *raw.Count, named), "remove count")
	case external && named > 0:
		r.wrong(raw, "an external machine's GPUs cannot be passed through", "write gpus: and how many it has")
	}
	if named > 0 {
		g.Count = named
	}
	if g.Count > 16 {
		r.wrong(&raw.Count, fmt.Sprintf("a VM takes at most 16 PCI devices and the node asks for %d GPUs", g.Count), "spread them over more nodes")
	}
	for i, m := range raw.Mapping {
		if !matches(`^[A-Za-z][A-Za-z0-9_-]+$`, m) {
			r.wrong(&raw.Mapping[i], fmt.Sprintf("%q cannot be a resource mapping", m), "write its name as under Datacenter, Resource Mappings")
		}
	}
	if strings.TrimSpace(raw.Model) != raw.Model {
		r.wrong(&raw.Model, "model begins or ends with a blank", "write a part of the name, e.g. A100")
	}
	if raw.Sharing != nil && r.spec.NVIDIA.Stack == StackNone && g.Sharing.Strategy != SharingNone {
		r.wrong(&raw.Sharing.Strategy, "sharing is set up by the stack, and stack is none", "write nvidia.stack: device-plugin or operator")
	}
	r.modelFits(raw)
	return g
}
