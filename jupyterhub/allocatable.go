package jupyterhub

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cps-gpu/homelab/kube"
)

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
// yet: never all of it. Take [NodeOf] as soon as it does.
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

// NodeOf says what notebooks can have on a node: what it offers, less what pods on it
// request that are no notebooks. Pods of other nodes, and those that have ended, are
// not counted.
func NodeOf(node corev1.Node, pods []corev1.Pod) Node {
	offer := node.Status.Allocatable
	n := Node{
		Name:   node.Name,
		CPU:    offer.Cpu().AsApproximateFloat64(),
		Memory: Bytes(offer.Memory().Value()),
		Pods:   int(offer.Pods().Value()),
	}
	for name, amount := range offer {
		n.resource(string(name), amount, 1)
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != node.Name || kube.Ended(pod.Status.Phase) {
			continue
		}
		if notebook(pod) {
			continue
		}
		need := podRequests(pod)
		n.CPU -= need.Cpu().AsApproximateFloat64()
		n.Memory -= Bytes(need.Memory().Value())
		n.Pods--
		for name, amount := range need {
			n.resource(string(name), amount, -1)
		}
	}
	n.CPU, n.Memory, n.Pods = math.Max(0, n.CPU), max(0, n.Memory), max(1, n.Pods)
	return n
}

func (n *Node) resource(name string, amount resource.Quantity, sign int) {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage:
	case ResourceGPU:
		n.GPUs = max(0, n.GPUs+sign*int(amount.Value()))
	default:
		if n.Resources == nil {
			n.Resources = map[string]int{}
		}
		n.Resources[name] = max(0, n.Resources[name]+sign*int(amount.Value()))
	}
}

// notebook says whether a pod is a user's server: kubespawner's label.
func notebook(pod corev1.Pod) bool {
	return pod.Labels["component"] == "singleuser-server" || pod.Labels["app.kubernetes.io/component"] == "singleuser-server"
}

// podRequests is what the scheduler counts for a pod: the sum of its containers, or
// the greatest of those that run before them, and what its runtime takes.
func podRequests(pod corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, c := range pod.Spec.Containers {
		add(sum, c.Resources.Requests)
	}
	before := corev1.ResourceList{}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(sum, c.Resources.Requests) // goes on running beside the others
			continue
		}
		for name, amount := range c.Resources.Requests {
			if have := before[name]; amount.Cmp(have) > 0 {
				before[name] = amount
			}
		}
	}
	for name, amount := range before {
		if have := sum[name]; amount.Cmp(have) > 0 {
			sum[name] = amount
		}
	}
	add(sum, pod.Spec.Overhead)
	return sum
}

func add(to, more corev1.ResourceList) {
	for name, amount := range more {
		have := to[name]
		have.Add(amount)
		to[name] = have
	}
}
