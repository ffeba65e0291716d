package offer

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Reservation is what a node keeps from pods, by the kubelet's settings in the file, and how many pods it
// takes.
type Reservation struct {
	CPU    float64   // reserved for the system and for Kubernetes
	Memory spec.Size // the same, and what the kubelet evicts pods for beyond its usual 100 MiB
	Pods   int       // that the node takes, those that run on every node among them
}

// The kubelet's own settings (KubeletConfiguration, v1beta1). K3s sets none for memory. The eviction
// threshold of 100 MiB counts in [Memory], so only a larger one is added.
const (
	maxPods      = 110
	evictionHard = 100 * spec.MiB
)

// What is used before the kubelet counts. The kernel keeps 64 bytes for each page of 4 KiB, and memory
// for its own text, firmware tables and crash reserves.
const (
	kernelShare = 64 // one in so many bytes
	kernelFixed = 320 * spec.MiB
)

// Memory estimates what a node that does not exist yet has for pods, before it keeps anything.
func Memory(n spec.Node) spec.Size {
	return n.Memory - n.Memory/kernelShare - kernelFixed - evictionHard
}

// ReservedBy returns what a node keeps. Wrong values are the kubelet's to refuse: they count as nothing.
func ReservedBy(s *spec.Spec, n spec.Node) Reservation {
	k := kubelet(s, n)
	out := Reservation{Pods: maxPods}
	if pods, err := strconv.Atoi(k.maxPods); err == nil && pods > 0 {
		out.Pods = pods
	}
	for _, list := range []map[string]string{k.kube, k.system} {
		out.CPU += quantity(list["cpu"])
		out.Memory += size(list["memory"], n.Memory)
	}
	if k.cpus != "" { // instead of the CPUs in the other two
		out.CPU = float64(countCPUs(k.cpus))
	}
	out.Memory += max(0, size(k.eviction, n.Memory)-evictionHard)
	return out
}

// OverReservedText says what a node would keep of more than it has, or nothing. The kubelet does not start
// then: "invalid Node Allocatable configuration" (validateNodeAllocatable of pkg/kubelet/cm).
func OverReservedText(s *spec.Spec, n spec.Node) string {
	k := ReservedBy(s, n)
	switch {
	case n.External: // its size is not in the file
	case k.Memory > 0 && k.Memory > n.Memory-evictionHard:
		return fmt.Sprintf("%s of memory, and %s has %s", k.Memory.Approximate(), n.Name, n.Memory.Approximate())
	case k.CPU > 0 && k.CPU > float64(n.Cores):
		return fmt.Sprintf("%g CPUs, and %s has %d", k.CPU, n.Name, n.Cores)
	}
	return ""
}

// settings are those of the kubelet that take from pods.
type settings struct {
	kube, system            map[string]string
	eviction, cpus, maxPods string
}

// kubelet returns the settings of a node's kubelet: those of its configuration file, if the file
// writes it, and over them its arguments.
func kubelet(s *spec.Spec, n spec.Node) settings {
	args := arguments(s, n)
	out := settings{}
	for _, f := range s.Guest.Files {
		if f.Path != args["config"] {
			continue
		}
		var c struct {
			MaxPods  *int           `yaml:"maxPods"`
			Kube     map[string]any `yaml:"kubeReserved"`
			System   map[string]any `yaml:"systemReserved"`
			Eviction map[string]any `yaml:"evictionHard"`
			CPUs     string         `yaml:"reservedSystemCPUs"`
		}
		if yaml.Unmarshal([]byte(*f.Content), &c) != nil {
			continue
		}
		out.kube, out.system, out.cpus = texts(c.Kube), texts(c.System), c.CPUs
		if c.MaxPods != nil {
			out.maxPods = strconv.Itoa(*c.MaxPods)
		}
		if c.Eviction != nil { // which replaces all thresholds
			out.eviction = texts(c.Eviction)["memory.available"]
		}
	}
	for name, to := range map[string]*map[string]string{"kube-reserved": &out.kube, "system-reserved": &out.system} {
		if list, there := args[name]; there {
			*to = pairs(list, "=")
		}
	}
	for name, to := range map[string]*string{"reserved-cpus": &out.cpus, "max-pods": &out.maxPods} {
		if value, there := args[name]; there {
			*to = value
		}
	}
	if list, there := args["eviction-hard"]; there {
		out.eviction = pairs(list, "<")["memory.available"]
	}
	return out
}

// arguments are the kubelet's arguments of a node, by name. A server's own replace those of all
// nodes, as they do in K3s' configuration.
func arguments(s *spec.Spec, n spec.Node) map[string]string {
	all := s.K3s.AgentConfig["kubelet-arg"]
	if own, there := s.K3s.ServerConfig["kubelet-arg"]; there && n.Role == spec.Server {
		all = own
	}
	out := map[string]string{}
	list, ok := all.([]any)
	if !ok {
		list = []any{all}
	}
	for _, one := range list {
		name, value, _ := strings.Cut(strings.TrimLeft(fmt.Sprint(one), "-"), "=")
		out[name] = strings.Trim(value, `"`)
	}
	return out
}

// texts writes values as texts: cpu: 1 is a number in YAML.
func texts(values map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range values {
		out[k] = fmt.Sprint(v)
	}
	return out
}

// pairs reads cpu=500m,memory=1Gi.
func pairs(list, between string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		if name, value, ok := strings.Cut(strings.TrimSpace(part), between); ok {
			out[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return out
}

// size reads an amount of memory: 1Gi, or 5% of all.
func size(text string, of spec.Size) spec.Size {
	if share, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(share, 64)
		if err != nil || percent < 0 || percent > 100 {
			return 0
		}
		return spec.Size(float64(of) * percent / 100)
	}
	return spec.Size(min(math.Ceil(quantity(text)), 1<<60))
}

// amount is one as Kubernetes writes it: 2, 1.5Gi, 500m, 1e3.
var amount = regexp.MustCompile(`^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i|)$`)

// quantity reads an amount. Anything else is 0, and so is a negative one.
func quantity(text string) float64 {
	m := amount.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	number, unit := m[1], m[2]
	if len(unit) > 2 || strings.ContainsAny(unit, "0123456789") {
		number, unit = number+unit, ""
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	if prefix, binary := strings.CutSuffix(unit, "i"); binary {
		return n * math.Pow(1024, float64(1+strings.Index("KMGTPE", prefix)))
	}
	return n * math.Pow(1000, float64(strings.Index("num kMGTPE", cmp.Or(unit, " "))-3))
}

// countCPUs counts a list of CPUs: 0,2-3 are three. A range is not longer than any machine's.
func countCPUs(list string) int {
	const most = 8192
	seen := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to >= most {
			continue
		}
		for cpu := from; cpu <= to; cpu++ {
			seen[cpu] = true
		}
	}
	return len(seen)
}
