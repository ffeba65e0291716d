package nvidia

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/remote"
)

// Link is how two devices of a machine reach each other, in the words of nvidia-smi.
type Link string

// Links over PCIe, the nearest first. NVLink is "NV" and the number of bonded links, such as
// NV18.
const (
	linkSelf Link = "X"
	LinkPIX  Link = "PIX"  // one PCIe bridge at most
	LinkPXB  Link = "PXB"  // several bridges, and no host bridge
	LinkPHB  Link = "PHB"  // a host bridge
	linkNode Link = "NODE" // several host bridges of one NUMA node
	LinkSys  Link = "SYS"  // between NUMA nodes
)

// NVLinks is how many NVLinks the link bonds; 0: it is not NVLink.
func (l Link) NVLinks() int {
	n, err := strconv.Atoi(strings.TrimPrefix(string(l), "NV"))
	if err != nil || !strings.HasPrefix(string(l), "NV") {
		return 0
	}
	return n
}

// Topology is the report of "nvidia-smi topo -m".
type Topology struct {
	Devices []TopologyDevice `json:"devices"` // GPUs, and network cards after them
}

// TopologyDevice is a GPU or a network card.
type TopologyDevice struct {
	Name  string `json:"name"`           // "GPU0", "NIC0", or in old reports "mlx5_0"
	GPU   bool   `json:"gpu"`            // otherwise a network card
	As    string `json:"as,omitempty"`   // name of a network card in the legend, e.g. "mlx5_0"
	CPUs  string `json:"cpus,omitempty"` // those near a GPU, e.g. "0-31,64-95"
	NUMA  string `json:"numa,omitempty"` // NUMA nodes near a GPU, e.g. "0" or "0-3"
	Links []Link `json:"links"`          // to each device, in their order
}

// Link is the link between two devices; empty if one of them is not there.
func (t Topology) Link(a, b string) Link {
	named := func(name string) int {
		return slices.IndexFunc(t.Devices, func(d TopologyDevice) bool { return d.Name == name || d.As == name })
	}
	i, j := named(a), named(b)
	if i < 0 || j < 0 {
		return ""
	}
	return t.Devices[i].Links[j]
}

var (
	escapes    = regexp.MustCompile("\x1b\\[[0-9;]*m") // the header is underlined
	linkWord   = regexp.MustCompile(`^(X|PIX|PXB|PHB|NODE|SYS|NV\d{1,2})$`)
	deviceWord = regexp.MustCompile(`^[A-Za-z][A-Za-z_]*\d[\w.-]*$`)
	nicLegend  = regexp.MustCompile(`^(NIC\d+): (\S+)$`)
)

// ParseTopology reads the output of "nvidia-smi topo -m". If the program reports an error
// instead, that is one of the Err values, with the program's message.
func ParseTopology(out string) (Topology, error) {
	var t Topology
	var names []string
	for line := range strings.Lines(escapes.ReplaceAllString(out, "")) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case names == nil:
			names = header(f)
		case len(t.Devices) < len(names) && f[0] == names[len(t.Devices)]:
			d, err := topologyRow(f, len(names))
			if err != nil {
				return Topology{}, err
			}
			t.Devices = append(t.Devices, d)
		default:
			if m := nicLegend.FindStringSubmatch(strings.Join(f, " ")); m != nil {
				if i := slices.Index(names, m[1]); i >= 0 && i < len(t.Devices) {
					t.Devices[i].As = m[2]
				}
			}
		}
	}
	switch {
	case names == nil:
		return Topology{}, smiRefusal(out)
	case len(t.Devices) < len(names):
		return Topology{}, fmt.Errorf("nvidia-smi topo: the row of %s is missing", names[len(t.Devices)])
	}
	return t, nil
}

// header reads the names of the columns; nil if the line is another one.
func header(f []string) []string {
	if f[0] != "GPU0" || linkWord.MatchString(f[1]) {
		return nil
	}
	var names []string
	for _, name := range f {
		if !deviceWord.MatchString(name) {
			break // CPU Affinity, NUMA Affinity, GPU NUMA ID
		}
		names = append(names, name)
	}
	return names
}

func topologyRow(f []string, columns int) (TopologyDevice, error) {
	d := TopologyDevice{Name: f[0], GPU: strings.HasPrefix(f[0], "GPU")}
	for _, word := range f[1:] {
		if len(d.Links) == columns {
			break
		}
		if !linkWord.MatchString(word) {
			return d, fmt.Errorf("nvidia-smi topo: the row of %s has %q where a link should be", d.Name, word)
		}
		d.Links = append(d.Links, Link(word))
	}
	if len(d.Links) < columns {
		return d, fmt.Errorf("nvidia-smi topo: the row of %s has %d links, and there are %d devices", d.Name, len(d.Links), columns)
	}
	for i, to := range []*string{&d.CPUs, &d.NUMA} {
		if at := 1 + columns + i; d.GPU && at < len(f) && f[at] != "N/A" {
			*to = f[at]
		}
	}
	return d, nil
}

// ReadTopology asks a machine how its devices reach each other.
func ReadTopology(ctx context.Context, r remote.Runner) (Topology, error) {
	out, err := remote.Output(ctx, r, "nvidia-smi", "topo", "-m")
	if err != nil {
		return Topology{}, fmt.Errorf("ask nvidia-smi for the topology: %w", err)
	}
	return ParseTopology(string(out))
}
