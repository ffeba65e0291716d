package jupyterhub

import "math"

// Capacity is what a machine has.
type Capacity struct {
	Name   string
	CPU    float64
	Memory Bytes
	GPUs   int // or shares of them
}

// Overhead is what notebooks cannot have of a node: what other pods request there, DaemonSets and the
// like, and what the kubelet reserves.
type Overhead struct {
	CPU     float64
	Memory  Bytes
	Pods    int
	MaxPods int // the kubelet's limit; 0: 110
}

// What is used before the kubelet counts. The kernel keeps 64 bytes for each page of 4 KiB,
// and memory for its own text, firmware tables and crash reserves.
const (
	kernelShare = 64 // one in so many bytes
	kernelFixed = 320 * MiB
	// evictionHard is the kubelet's default for memory.available, which it subtracts from the
	// allocatable memory. K3s reserves nothing else by default.
	evictionHard = 100 * MiB
)

// Allocatable estimates what notebooks can use on a machine that does not exist yet.
func Allocatable(c Capacity, o Overhead) Node {
	memory := c.Memory - c.Memory/kernelShare - kernelFixed - evictionHard - o.Memory
	return Node{
		Name:   c.Name,
		CPU:    math.Max(0, c.CPU-o.CPU),
		Memory: max(0, memory),
		GPUs:   c.GPUs,
		Pods:   max(1, or(o.MaxPods, maxPods)-o.Pods),
	}
}
