package nvidia

import "strings"

// Names of GPUs in Kubernetes. They are declared only here; everything that is deployed uses
// these.
const (
	Resource     = "nvidia.com/gpu"         // what a container requests
	LabelPresent = "nvidia.com/gpu.present" // set to "true" on nodes with a GPU; device plugins look for it
	// LabelConfig names the configuration of a node's device plugin, where the GPU operator deploys
	// it (NVIDIA/k8s-device-plugin, cmd/config-manager, v0.20.0).
	LabelConfig  = "nvidia.com/device-plugin.config"
	RuntimeClass = "nvidia" // made by K3s itself; the default runtime sees no GPU

	// PluginName is the name of the device plugin's namespace, DaemonSet and ConfigMap.
	PluginName = "nvidia-device-plugin"

	// TaintKey and TaintValue are those of the taint that keeps pods without GPUs off nodes with GPUs:
	// the one that NVIDIA's and NFD's DaemonSets tolerate.
	TaintKey   = "nvidia.com/gpu"
	TaintValue = "present"
)

// MIGStrategy says how instances of divided GPUs are offered.
type MIGStrategy string

// The strategies.
const (
	MIGNone   MIGStrategy = "none"   // whole GPUs only
	MIGSingle MIGStrategy = "single" // every GPU of a node divided alike; instances are called nvidia.com/gpu
	MIGMixed  MIGStrategy = "mixed"  // instances are called by their profile, e.g. nvidia.com/mig-1g.5gb
)

// MIGResource is what a container requests for an instance of a profile, where a node's GPUs are
// not all divided alike. A plus sign may not be in such a name (k8s-device-plugin, rm.go).
func MIGResource(profile string) string {
	return "nvidia.com/mig-" + strings.ReplaceAll(profile, "+", ".")
}

// Labels are the labels of a node with a GPU.
func Labels() map[string]string { return map[string]string{LabelPresent: "true"} }
