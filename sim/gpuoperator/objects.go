package gpuoperator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Policy is a ClusterPolicy, as far as the simulation follows it.
type Policy struct {
	object    *unstructured.Unstructured
	namespace string
}

// NewPolicy reads a ClusterPolicy. The operator runs in namespace.
func NewPolicy(object *unstructured.Unstructured, namespace string) Policy {
	return Policy{object, namespace}
}

type values = map[string]any

func (p Policy) text(path ...string) string {
	s, _, _ := unstructured.NestedString(p.object.Object, append([]string{"spec"}, path...)...)
	return s
}

func (p Policy) is(path ...string) bool {
	b, _, _ := unstructured.NestedBool(p.object.Object, append([]string{"spec"}, path...)...)
	return b
}

func (p Policy) list(path ...string) []any {
	l, _, _ := unstructured.NestedSlice(p.object.Object, append([]string{"spec"}, path...)...)
	return l
}

// image is that of one of the operator's parts.
func (p Policy) image(part string) string {
	return p.text(part, "repository") + "/" + p.text(part, "image") + ":" + p.text(part, "version")
}

// Objects are what the operator creates, with itself as their owner. kernels are those of the nodes
// with GPUs: a driver with prebuilt modules has a DaemonSet for each.
func (p Policy) Objects(kernels ...string) []*unstructured.Unstructured {
	out := []*unstructured.Unstructured{p.runtimeClass(cmp.Or(p.text("operator", "runtimeClass"), "nvidia"))}
	if p.is("cdi", "enabled") {
		out = append(out, p.runtimeClass("nvidia-cdi"), p.runtimeClass("nvidia-legacy"))
	}
	if p.is("driver", "enabled") {
		out = append(out, p.drivers(kernels)...)
	}
	if p.is("toolkit", "enabled") {
		out = append(out, p.daemonSet("nvidia-container-toolkit-daemonset", "nvidia-container-toolkit-ctr", p.image("toolkit"), "", p.list("toolkit", "env")...))
	}
	config := p.text("devicePlugin", "config", "name")
	plugin := p.daemonSet("nvidia-device-plugin-daemonset", "nvidia-device-plugin", p.image("devicePlugin"), "nvidia",
		values{"name": "DEFAULT_CONFIG", "value": p.text("devicePlugin", "config", "default")},
		values{"name": "CDI_ENABLED", "value": fmt.Sprint(p.is("cdi", "enabled"))},
		values{"name": "DEVICE_LIST_STRATEGY", "value": "cdi-annotations,cdi-cri"})
	if config != "" {
		spec := plugin.Object["spec"].(values)["template"].(values)["spec"].(values)
		spec["volumes"] = []any{values{"name": "nvidia-device-plugin-entrypoint-config", "configMap": values{"name": config}}}
	}
	out = append(out, plugin, p.daemonSet("nvidia-operator-validator", "nvidia-operator-validator", "nvcr.io/nvidia/gpu-operator-validator:v26.7.2", "nvidia"))
	if p.is("gfd", "enabled") {
		out = append(out, p.daemonSet("gpu-feature-discovery", "gpu-feature-discovery", "nvcr.io/nvidia/gpu-feature-discovery:v0.20.0", "nvidia"))
	}
	if p.is("dcgmExporter", "enabled") {
		out = append(out, p.daemonSet("nvidia-dcgm-exporter", "nvidia-dcgm-exporter", p.image("dcgmExporter"), "nvidia"))
	}
	return out
}

// drivers are the DaemonSets of the driver.
func (p Policy) drivers(kernels []string) []*unstructured.Unstructured {
	const name, system = "nvidia-driver-daemonset", "ubuntu24.04"
	env := append([]any{values{"name": "KERNEL_MODULE_TYPE", "value": p.text("driver", "kernelModuleType")}}, p.list("driver", "env")...)
	if !p.is("driver", "usePrecompiled") {
		return []*unstructured.Unstructured{p.onDelete(p.daemonSet(name, "nvidia-driver-ctr", p.image("driver")+"-"+system, "", env...))}
	}
	var out []*unstructured.Unstructured
	for _, kernel := range slices.Compact(slices.Sorted(slices.Values(kernels))) {
		out = append(out, p.onDelete(p.daemonSet(name+"-"+kernel+"-"+system, "nvidia-driver-ctr", p.image("driver")+"-"+kernel+"-"+system, "", env...)))
	}
	return out
}

// onDelete has a driver's pods replaced when they are deleted (assets/state-driver/0500_daemonset.yaml).
// With autoUpgrade the operator deletes them itself (controllers/upgrade_controller.go), which is
// simulated by a rolling update.
func (p Policy) onDelete(set *unstructured.Unstructured) *unstructured.Unstructured {
	if !p.is("driver", "upgradePolicy", "autoUpgrade") {
		set.Object["spec"].(values)["updateStrategy"] = values{"type": "OnDelete"}
	}
	return set
}

func (p Policy) ownedObject(api, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: values{"apiVersion": api, "kind": kind, "metadata": values{"name": name, "ownerReferences": []any{values{
		"apiVersion": p.object.GetAPIVersion(), "kind": p.object.GetKind(), "name": p.object.GetName(), "uid": string(p.object.GetUID()),
		"controller": true, "blockOwnerDeletion": true,
	}}}}}
	if namespace != "" {
		u.SetNamespace(namespace)
	}
	return u
}

func (p Policy) runtimeClass(name string) *unstructured.Unstructured {
	u := p.ownedObject("node.k8s.io/v1", "RuntimeClass", "", name)
	u.Object["handler"] = name
	return u
}

// daemonSet is one on all nodes with GPUs. Its tolerations are those of the policy.
func (p Policy) daemonSet(name, container, image, class string, env ...any) *unstructured.Unstructured {
	u := p.ownedObject("apps/v1", "DaemonSet", p.namespace, name)
	labels := values{"app": name}
	ctr := values{"name": container, "image": image}
	if len(env) > 0 {
		ctr["env"] = env
	}
	pod := values{"nodeSelector": values{"nvidia.com/gpu.present": "true"}, "tolerations": p.list("daemonsets", "tolerations"), "containers": []any{ctr}}
	if class != "" {
		pod["runtimeClassName"] = class
	}
	u.Object["spec"] = values{
		"selector": values{"matchLabels": labels},
		"template": values{"metadata": values{"labels": labels}, "spec": pod},
	}
	return u
}

// IsHost reports whether a container of an image changes its machine: it loads the driver, or
// installs the container toolkit.
func IsHost(image string) bool {
	return strings.Contains(image, "/nvidia/driver:") || strings.Contains(image, "/container-toolkit:")
}

// NoSuchImage is containerd's error for an image that its registry does not have, or "". The
// simulated registry has no driver with prebuilt modules: NVIDIA makes those for some kernels.
func NoSuchImage(image string) string {
	if !strings.Contains(image, "/nvidia/driver:") || strings.Count(image[strings.LastIndexByte(image, ':'):], "-") < 2 {
		return ""
	}
	return fmt.Sprintf("Back-off pulling image %[1]q: ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image %[1]q: "+
		"failed to resolve reference %[1]q: %[1]s: not found", image)
}
