package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// GPURequest says which GPUs a node gets. Without PCI and Mapping homelab chooses Count of
// them on the node's host, on one NUMA node if possible.
type GPURequest struct {
	Count        int          `yaml:"count" short:"number" doc:"Number of GPUs."` // equals len(PCI) or len(Mapping) if one is set
	Model        string       `yaml:"model" absent:"any" doc:"Only cards of this model: whole words of its name, e.g. ‘A100’, ‘RTX 4090’."`
	PCI          []PCIAddress `yaml:"pci" doc:"These cards of the host, instead of ‘count’."`
	Mapping      []string     `yaml:"mapping" doc:"These existing resource mappings, one for each GPU, instead of ‘count’."`
	PCIe         Switch       `yaml:"pcie" default:"true" doc:"Attach as PCI Express."`
	ROMBar       Switch       `yaml:"rombar" default:"true" doc:"Show the card's option ROM to the guest."`
	AllFunctions Switch       `yaml:"allFunctions" default:"true" doc:"Pass the card's other functions (audio, USB) too."`
	Sharing      Sharing      `yaml:"sharing" absent:"‘nvidia.sharing’" doc:"Replaces ‘nvidia.sharing’ for this node as a whole."`
}

// HasGPUs reports whether the node gets GPUs.
func (n Node) HasGPUs() bool { return n.GPUs.Count > 0 }

// GPUNodes returns the nodes with GPUs.
func (s *Spec) GPUNodes() []Node { return s.nodes(Node.HasGPUs) }

// InstallsDriver reports whether homelab installs NVIDIA's driver and container toolkit on VMs with GPUs.
func (s *Spec) InstallsDriver() bool {
	return s.NVIDIA.DriverMode == DriverPrebuilt || s.NVIDIA.DriverMode == DriverDKMS
}

// DriverNodes returns the nodes that get NVIDIA's driver and container toolkit from homelab. The owner of an external
// machine installs them.
func (s *Spec) DriverNodes() []Node {
	return s.nodes(func(n Node) bool { return n.HasGPUs() && !n.External && s.InstallsDriver() })
}

// GPUCount is the number of GPUs of all nodes.
func (s *Spec) GPUCount() int {
	total := 0
	for _, n := range s.Nodes {
		total += n.GPUs.Count
	}
	return total
}

// Choices of Sharing.Strategy.
const (
	SharingNone        = "none"
	SharingTimeSlicing = "time-slicing"
	SharingMPS         = "mps"
	SharingMIG         = "mig"
)

// Sharing says how one GPU serves several pods.
type Sharing struct {
	Strategy string      `yaml:"strategy" default:"none" enum:"none,time-slicing,mps,mig" doc:"‘none’, ‘time-slicing’, ‘mps’, or ‘mig’."`
	Replicas int         `yaml:"replicas" absent:"required for ‘time-slicing’ and ‘mps’" doc:"Pods that share one GPU; 2 or more, with MPS at most 48, on Volta 16."`
	Layouts  []MIGLayout `yaml:"layouts" absent:"required for ‘mig’" doc:"How GPUs are divided: [mig.md](mig.md)."`
}

// Shared reports whether several pods use one GPU.
func (s Sharing) Shared() bool { return s.Strategy == SharingTimeSlicing || s.Strategy == SharingMPS }

// Name tells apart the ways of sharing for which a device plugin needs different settings.
func (s Sharing) Name() string {
	switch {
	case s.Replicas > 1:
		return fmt.Sprintf("%s-%d", s.Strategy, s.Replicas)
	case s.Strategy == "":
		return SharingNone
	}
	return s.Strategy
}

// MIGLayout says how some GPUs of a node are partitioned.
type MIGLayout struct {
	GPUs     []int          `yaml:"gpus" absent:"all" doc:"Indices of a node's GPUs, from 0. Others stay whole."`
	Profiles map[string]int `yaml:"profiles" absent:"none: the GPU stays whole" doc:"Profiles and the number of each, e.g. ‘{3g.20gb: 2}’."` // empty: MIG off
}

// String returns e.g. "2 of 3g.20gb".
func (l MIGLayout) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(l.Profiles)) {
		out = append(out, fmt.Sprintf("%d of %s", l.Profiles[name], name))
	}
	return strings.Join(out, ", ")
}
