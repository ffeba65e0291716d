package addon

import (
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/kube/chart"
)

// The GPU operator's part, its namespace, and the objects in it that others look for. The operator
// gives its DaemonSets these names (NVIDIA/gpu-operator, assets, v26.7.0).
const (
	GPUOperatorName      = "gpu-operator"
	GPUOperatorNamespace = "gpu-operator"
	GPUDriverPods        = "nvidia-driver-daemonset" // the beginning of the driver's DaemonSets and pods
)

// GPUOperatorOptions configure NVIDIA's GPU operator.
type GPUOperatorOptions struct {
	Common
	RuntimeClass string // of pods that see all GPUs; K3s knows "nvidia" only
	// Configs are the device plugin's, by name. A node has the one that its label
	// nvidia.com/device-plugin.config names, others the one called Default.
	Configs map[string]string
	Default string

	MIG     string     // strategy: none, single or mixed; empty means none
	Driver  *GPUDriver // nil: the nodes have driver and container toolkit
	Metrics bool       // Prometheus reads them: the part "monitoring" is on
}

// GPUDriver is a driver that the operator installs with containers, together with the container
// toolkit.
type GPUDriver struct {
	Version string // e.g. 580.126.20; empty: the chart's
	Modules string // open, proprietary or auto; empty: auto
}

// Where K3s keeps its containerd (pkg/agent/containerd, v1.36). The operator's own paths are those
// of a containerd that systemd runs, which a machine with K3s does not have (failure N9).
const (
	k3sContainerd       = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	k3sContainerdDropIn = "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/99-nvidia.toml"
	k3sContainerdSocket = "/run/k3s/containerd/containerd.sock"
)

// GPUOperator provides everything that makes GPUs allocatable: NVIDIA's operator, which deploys
// the device plugin, the discovery of features, the exporter of metrics, and if asked the driver.
func GPUOperator(o GPUOperatorOptions) (chart.Part, error) {
	if o.RuntimeClass == "" || o.Configs[o.Default] == "" {
		return chart.Part{}, errors.New("gpu-operator: the runtime class and the device plugin's default configuration must be set")
	}
	if o.MIG == "" {
		o.MIG = "none"
	}
	v := values{
		// The job that upgrades the definitions is off: applying this part upgrades them.
		"operator": values{"runtimeClass": o.RuntimeClass, "upgradeCRD": false},
		"nfd":      values{"enabled": true},
		// Containers get their GPUs by CDI, so that they keep them when systemd reloads its units
		// (failure N4). The nvidia runtime is not made the default.
		"cdi":        values{"enabled": true},
		"driver":     o.driver(),
		"toolkit":    o.toolkit(),
		"mig":        values{"strategy": o.MIG},
		"migManager": values{"enabled": false}, // it would undo the layouts of the file
		"devicePlugin": values{"config": values{
			"create": true, "name": "homelab-device-plugin", "default": o.Default, "data": plain(maps.Clone(o.Configs)),
		}},
		"dcgmExporter": o.exporter(),
	}
	o.tolerateAll(v)
	r, err := o.release(GPUOperatorName, GPUOperatorNamespace, v)
	if err != nil {
		return chart.Part{}, err
	}
	return chart.Part{Name: GPUOperatorName, Release: r, NamespaceLabels: privileged()}, nil
}

func (o GPUOperatorOptions) driver() values {
	if o.Driver == nil {
		return values{"enabled": false}
	}
	// The operator's own upgrades delete the pods that use GPUs. Without them its DaemonSet replaces a
	// driver's pod when that is deleted, which homelab does on one node after the other.
	v := values{"enabled": true, "upgradePolicy": values{"autoUpgrade": false}}
	if o.Driver.Version != "" {
		v["version"] = o.Driver.Version
	}
	if o.Driver.Modules != "" {
		v["kernelModuleType"] = o.Driver.Modules
	}
	return v
}

// toolkit are the settings of the container that installs NVIDIA's runtime on a node. It would
// then stop containerd with a signal, and K3s with it, on all nodes as they come: instead, homelab
// restarts K3s on one node after the other.
func (o GPUOperatorOptions) toolkit() values {
	if o.Driver == nil {
		return values{"enabled": false}
	}
	variable := func(name, value string) values { return values{"name": name, "value": value} }
	return values{"enabled": true, "env": []any{
		variable("CONTAINERD_CONFIG", k3sContainerd),
		variable("CONTAINERD_SOCKET", k3sContainerdSocket),
		variable("CONTAINERD_RUNTIME_CLASS", o.RuntimeClass),
		variable("RUNTIME_CONFIG_SOURCE", "file="+k3sContainerd),
		variable("RUNTIME_DROP_IN_CONFIG", k3sContainerdDropIn),
		variable("RUNTIME_RESTART_MODE", "none"),
	}}
}

// exporter is that of metrics. The labels namespace and pod are those of the pod that uses the GPU.
func (o GPUOperatorOptions) exporter() values {
	monitor := values{"enabled": o.Metrics}
	if o.Metrics {
		monitor["honorLabels"] = true
		monitor["relabelings"] = nodeOfExporter()
	}
	return values{"enabled": true, "serviceMonitor": monitor}
}

// tolerateAll gives every pod of the chart and of the operator the tolerations of the cluster's
// taints, in addition to the chart's own (failure N5).
func (o GPUOperatorOptions) tolerateAll(v values) {
	gpu := exists("nvidia.com/gpu", corev1.TaintEffectNoSchedule)
	server := exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)
	set(v, o.tolerations(gpu), "daemonsets", "tolerations")
	set(v, o.tolerations(server), "operator", "tolerations")
	for _, part := range []string{"worker", "master", "gc"} {
		set(v, o.tolerations(server, gpu), "node-feature-discovery", part, "tolerations")
	}
}
