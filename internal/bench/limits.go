package bench

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
)

// speedFloor is the speed below which a link is not as it should be, in GB/s.
type speedFloor struct {
	GBps float64
	Why  string // e.g. "PHB, generation 4, x16"
}

// What is expected at least. A machine's bridges, its IOMMU and a hypervisor take a share that
// nobody can know before, so these are far below what a good machine reaches.
const (
	perNVLink     = 10.0 // GB/s in one direction; the slowest NVLinks of two bridged cards do 14, an H100's 25
	throughSwitch = 0.5  // of the PCIe link: the copy does not leave the PCIe switches
	throughHost   = 0.2  // through host bridges, or in two steps through the host's memory where peers cannot reach each other
	unknownLink   = 1.0  // GB/s, if neither the link nor its speed is known
	ofSlowestPair = 0.4  // all-reduce in a node, in bus bandwidth: several pairs share bridges
	ofNetwork     = 0.3  // all-reduce across nodes: over TCP, and through the pods' network
	unknownNet    = 0.05 // GB/s: half of what a network of 1 Gbit/s does
)

// laneSpeed is what a PCIe lane carries in one direction, in GB/s, by generation from 1 (PCI-SIG).
func laneSpeed(generation int) float64 {
	lanes := [...]float64{0.25, 0.5, 0.985, 1.969, 3.938, 7.563}
	return lanes[min(generation, len(lanes))-1]
}

// peerFloor is what copying between two GPUs of a node must reach, by the link between them and by
// their PCIe links. Whatever is unknown lowers it.
func peerFloor(link nvidia.Link, a, b nvidia.PCIeLink) speedFloor {
	if n := link.NVLinks(); n > 0 {
		return speedFloor{perNVLink * float64(n), fmt.Sprintf("%d NVLinks", n)}
	}
	generation, width := min(top(a), top(b)), min(a.Width, b.Width)
	if generation <= 0 || width <= 0 {
		return speedFloor{unknownLink, strings.TrimPrefix(string(link)+", unknown PCIe link", ", ")}
	}
	why := fmt.Sprintf("PCIe generation %d, x%d", generation, width)
	if link != "" {
		why = string(link) + ", " + why
	}
	share := throughHost
	if link == nvidia.LinkPIX || link == nvidia.LinkPXB {
		share = throughSwitch
	}
	return speedFloor{share * laneSpeed(generation) * float64(width), why}
}

// top is the generation of a link that computes: an idle one is lower.
func top(l nvidia.PCIeLink) int { return max(l.MaxGeneration, l.Generation) }

// allReduceFloor is the bus bandwidth that summing over all GPUs of a node must reach, by the
// lowest floor of its pairs.
func allReduceFloor(slowest speedFloor) speedFloor {
	return speedFloor{slowest.GBps * ofSlowestPair, "slowest pair: " + slowest.Why}
}

// networkFloor is the same for GPUs of several nodes, by the speed of the slowest node's network in
// Mbit/s; 0 means unknown.
func networkFloor(mbit int) speedFloor {
	if mbit <= 0 {
		return speedFloor{unknownNet, "speed of the network unknown"}
	}
	return speedFloor{ofNetwork * float64(mbit) / 8000, fmt.Sprintf("network of %g Gbit/s", float64(mbit)/1000)}
}
