package addon

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// gpuOperatorKeys are the keys of the chart's values, dotted, a line each: those of its values.yaml,
// and those that only its templates read. What is below the last key of a line, the chart passes on.
//
//go:embed gpuoperator.keys
var gpuOperatorKeys string

// ValueFault is a key of raw values that the chart ignores, or that another setting decides.
type ValueFault struct {
	Path  string   // dotted
	What  string   // is wrong
	Known []string // the keys that the chart has at this place
	Cure  string   // of a key that another setting decides; else empty
}

// CheckGPUOperatorValues returns the keys of raw values that the operator's chart does not have:
// it ignores them silently (failure N10). It also returns those on which the cluster depends.
func CheckGPUOperatorValues(raw map[string]any) []ValueFault {
	known := map[string]any{}
	for line := range strings.Lines(gpuOperatorKeys) {
		at := known
		for key := range strings.SplitSeq(strings.TrimSpace(line), ".") {
			below, ok := at[key].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[key] = below
			}
			at = below
		}
	}
	return append(unknownKeys(raw, known, ""), derivedKeys(raw)...)
}

func unknownKeys(raw, known map[string]any, at string) []ValueFault {
	var out []ValueFault
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		their, ok := known[key].(map[string]any)
		if !ok {
			where := "at the top"
			if at != "" {
				where = "under " + strings.TrimSuffix(at, ".")
			}
			out = append(out, ValueFault{Path: at + key, What: fmt.Sprintf("the operator's chart has no key %s %s, and would ignore it", key, where),
				Known: slices.Sorted(maps.Keys(known))})
			continue
		}
		if below, isMap := raw[key].(map[string]any); isMap && len(their) > 0 {
			out = append(out, unknownKeys(below, their, at+key+".")...)
		}
	}
	return out
}

// derivedKeyTable are the keys that follow from the rest of the cluster, and what to write instead.
func derivedKeyTable() [][3]string {
	return [][3]string{
		{"driver.enabled", "nvidia.driver.mode decides it", "write mode: operator under nvidia.driver, or another mode"},
		{"driver.version", "nvidia.driver.branch decides it", "write branch: under nvidia.driver"},
		{"driver.kernelModuleType", "nvidia.driver.flavour decides it", "write flavour: under nvidia.driver"},
		{"driver.upgradePolicy", "homelab upgrades the driver, on one node after the other", "write upgrade: under k3s"},
		{"driver.nvidiaDriverCRD.enabled", "homelab waits for the driver of the ClusterPolicy", "remove it"},
		{"toolkit.enabled", "nvidia.driver.mode decides it: the toolkit comes with the driver", "write mode: operator under nvidia.driver, or another mode"},
		{"toolkit.env", "it says where K3s keeps its containerd, and a list replaces ours", "remove it"},
		{"toolkit.installDir", "K3s looks for the runtime in /usr/local/nvidia/toolkit only", "remove it"},
		{"operator.runtimeClass", "K3s knows the runtime as nvidia only", "remove it"},
		{"cdi.enabled", "without it containers lose their GPUs when systemd reloads its units", "remove it"},
		{"nfd.enabled", "the operator finds GPUs by the labels of node feature discovery", "remove it"},
		{"daemonsets.tolerations", "they follow from the nodes' taints, and a list replaces ours", "write taints: in pools or nodes"},
		{"devicePlugin.enabled", "without it no GPU is allocatable", "write stack: none under nvidia if you bring your own"},
		{"devicePlugin.config", "nvidia.sharing decides it", "write sharing: under nvidia, in pools or nodes"},
		{"mig.strategy", "nvidia.sharing decides it", "write sharing: {strategy: mig} under nvidia, in pools or nodes"},
		{"clusterPolicy.deployCR", "it is what makes the operator work", "remove it"},
		{"gpuCluster.deployCR", "DRA is a stack of its own", "remove it, and write stack: dra"},
	}
}

func derivedKeys(raw map[string]any) []ValueFault {
	var out []ValueFault
	for _, o := range derivedKeyTable() {
		keys := strings.Split(o[0], ".")
		at, there := any(raw), true
		for _, key := range keys {
			m, isMap := at.(map[string]any)
			if at, there = m[key]; !isMap || !there {
				there = false
				break
			}
		}
		if there {
			out = append(out, ValueFault{Path: o[0], What: o[0] + " cannot be set: " + o[1], Cure: o[2]})
		}
	}
	return out
}
