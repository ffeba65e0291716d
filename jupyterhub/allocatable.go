package jupyterhub

import "math"

// Capacity is what a machine is given.
type Capacity struct {
	Name   string
	CPU    float64
	Memory Bytes
	GPUs   int // or shares of them
}

// Overhead is what pods request on each node that are there without any notebook:
// DaemonSets, and what else runs there.
type Overhead struct {
	CPU    float64
	Memory Bytes
	Pods   int
}

// What is gone before the kubelet counts. The kernel keeps 64 bytes for each page of
// 4 KiB, and its own text, firmware tables and crash reserves beside.
const (
	kernelShare = 64 // one in so many bytes
	kernelFixed = 320 * MiB
	// evictionHard is the kubelet's default for memory.available, which it takes off
	// what it offers. K3s reserves nothing else unless it is told to.
	evictionHard = 100 * MiB
)

// Allocatable estimates what notebooks will have on a machine that does not exist
// yet: never all of it.
func Allocatable(c Capacity, o Overhead) Node {
	memory := c.Memory - c.Memory/kernelShare - kernelFixed - evictionHard - o.Memory
	return Node{
		Name:   c.Name,
		CPU:    math.Max(0, c.CPU-o.CPU),
		Memory: max(0, memory),
		GPUs:   c.GPUs,
		Pods:   max(1, maxPods-o.Pods),
	}
}
