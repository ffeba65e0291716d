package addon

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
)

// The GPU operator's part, its namespace, and the objects in it that others look for. The operator
// gives its DaemonSets these names (NVIDIA/gpu-operator, assets, v26.7.0).
const (
	GPUOperatorName      = "gpu-operator"
	GPUOperatorNamespace = "gpu-operator"
	GPUDriverPods        = "nvidia-driver-daemonset" // the beginning of the driver's DaemonSets and pods
)

// Where K3s keeps its containerd (pkg/agent/containerd, v1.36). The operator's own paths are those
// of a containerd that systemd runs, which a machine with K3s does not have (failure N9).
const (
	k3sContainerd       = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	k3sContainerdDropIn = "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/99-nvidia.toml"
	k3sContainerdSocket = "/run/k3s/containerd/containerd.sock"
)

// GPUOperator provides everything that makes GPUs allocatable: NVIDIA's operator, which deploys
// the device plugin, the discovery of features, the exporter of metrics, and if asked the driver.
type GPUOperator struct {
	spec.NVIDIA
	Nodes []spec.Node // with GPUs
}

func (o GPUOperator) Info() Info {
	return Info{
		Name: GPUOperatorName, Section: "nvidia.stack", On: o.Stack == spec.StackOperator && len(o.Nodes) > 0,
		Namespace: GPUOperatorNamespace,
		Chart: chart.Pin{
			Chart: "gpu-operator", Repo: "https://helm.ngc.nvidia.com/nvidia",
			Version: "v26.7.2", Kubernetes: ">=1.16.0-0", Compared: "2026-10-21",
			Source: "pinned: an advisory of 2026-10-21; read: v26.7.0 of 2026-08-20, Chart.yaml",
		},
		NeverInFleet: "parts that need GPUs wait for it",
	}
}

func (o GPUOperator) Make(s *Site) (Recipe, error) {
	configs, strategy, err := o.configs()
	driver, driverErr := o.driver()
	if err := errors.Join(err, driverErr); err != nil {
		return Recipe{}, fmt.Errorf("%s: %w", GPUOperatorName, err)
	}
	v := values{
		// The job that upgrades the definitions is off: applying this part upgrades them.
		"operator": values{"runtimeClass": nvidia.RuntimeClass, "upgradeCRD": false},
		"nfd":      values{"enabled": true},
		// Containers get their GPUs by CDI, so that they keep them when systemd reloads its units
		// (failure N4). The nvidia runtime is not made the default.
		"cdi":        values{"enabled": true},
		"driver":     driver,
		"toolkit":    o.toolkit(),
		"mig":        values{"strategy": strategy},
		"migManager": values{"enabled": false}, // it would undo the layouts of the file
		"devicePlugin": values{"config": values{
			"create": true, "name": "homelab-device-plugin", "default": o.Sharing.Name(), "data": configs,
		}},
		"dcgmExporter": exporter(s.GPUMetrics),
	}
	tolerateAll(s, v)
	its := *s
	its.Charts.Values = map[string]map[string]any{GPUOperatorName: o.Values}
	r := its.release(o.Info(), v)
	// It deploys an exporter of its own, so the other one is removed first.
	recipe := Recipe{Part: chart.Part{Name: GPUOperatorName, Release: r, NamespaceLabels: privilegedLabels()}, Offers: true,
		Replaces: []string{DRADriverName, "dcgm-exporter"}}
	if own, _ := r.Values["driver"].(values); own["usePrecompiled"] == true {
		recipe.Unlisted = []string{"drivers of nvidia.values.driver.usePrecompiled: nvcr.io/nvidia/driver:BRANCH-KERNEL-ubuntu24.04, an image for each kernel"}
	}
	return recipe, nil
}

// configs are the device plugin's configurations for all ways in which nodes share their GPUs, by
// name. A node has the one that its label nvidia.com/device-plugin.config names. strategy is that of
// MIG.
func (o GPUOperator) configs() (all values, strategy string, err error) {
	sharings := []spec.Sharing{o.Sharing}
	for _, n := range o.Nodes {
		sharings = append(sharings, n.GPUs.Sharing)
	}
	all, strategy = values{}, "none"
	for _, sharing := range sharings {
		p := PluginOptions{}
		switch {
		case sharing.Shared():
			p.Sharing, p.Replicas = sharing.Strategy, sharing.Replicas
		case sharing.Strategy == spec.SharingMIG:
			p.MIG = nvidia.MIGMixed
			strategy = string(nvidia.MIGMixed)
		}
		config, err := p.Config()
		if err != nil {
			return nil, "", err
		}
		all[sharing.Name()] = config
	}
	return all, strategy, nil
}

// driver is the driver that the operator installs with containers, if the file asks for it.
func (o GPUOperator) driver() (values, error) {
	if o.DriverMode != spec.DriverOperator {
		return values{"enabled": false}, nil
	}
	version, err := nvidia.OperatorDriver(o.Branch)
	if err != nil {
		return nil, err
	}
	raw, _ := o.Values["driver"].(map[string]any)
	if on, _ := raw["usePrecompiled"].(bool); on { // containers with prebuilt modules are named by branch and kernel
		version, _, _ = strings.Cut(version, ".")
	}
	// The operator's own upgrades delete the pods that use GPUs. Without them its DaemonSet replaces a
	// driver's pod when that is deleted, which homelab does on one node after the other.
	v := values{"enabled": true, "upgradePolicy": values{"autoUpgrade": false}}
	if version != "" {
		v["version"] = version
	}
	if o.Flavour != "auto" {
		v["kernelModuleType"] = o.Flavour
	}
	return v, nil
}

// toolkit are the settings of the container that installs NVIDIA's runtime on a node. It would
// then stop containerd with a signal, and K3s with it, on all nodes as they come: instead, homelab
// restarts K3s on one node after the other.
func (o GPUOperator) toolkit() values {
	if o.DriverMode != spec.DriverOperator {
		return values{"enabled": false}
	}
	variable := func(name, value string) values { return values{"name": name, "value": value} }
	return values{"enabled": true, "env": []any{
		variable("CONTAINERD_CONFIG", k3sContainerd),
		variable("CONTAINERD_SOCKET", k3sContainerdSocket),
		variable("CONTAINERD_RUNTIME_CLASS", nvidia.RuntimeClass),
		variable("RUNTIME_CONFIG_SOURCE", "file="+k3sContainerd),
		variable("RUNTIME_DROP_IN_CONFIG", k3sContainerdDropIn),
		variable("RUNTIME_RESTART_MODE", "none"),
	}}
}

// exporter is that of metrics. The labels namespace and pod are those of the pod that uses the GPU.
func exporter(metrics bool) values {
	monitor := values{"enabled": metrics}
	if metrics {
		monitor["honorLabels"] = true
		monitor["relabelings"] = nodeOfExporter()
	}
	return values{"enabled": true, "serviceMonitor": monitor}
}

// tolerateAll gives every pod of the chart and of the operator the tolerations of the cluster's
// taints, in addition to the chart's own (failure N5).
func tolerateAll(s *Site, v values) {
	gpu := exists("nvidia.com/gpu", corev1.TaintEffectNoSchedule)
	server := exists("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)
	set(v, s.tolerations(gpu), "daemonsets", "tolerations")
	set(v, s.tolerations(server), "operator", "tolerations")
	for _, part := range []string{"worker", "master", "gc"} {
		set(v, s.tolerations(server, gpu), "node-feature-discovery", part, "tolerations")
	}
}
