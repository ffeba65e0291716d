package kubesim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/table"
)

// kind is one kind of object that the API serves.
type kind struct {
	schema.GroupVersionKind
	plural     string
	namespaced bool
	custom     bool // comes from a CustomResourceDefinition
	singular   string
	short      []string
	columns    []table.Column // of kubectl get
}

// id names the kind in the store: its resource and group.
func (k kind) id() string { return k.resource().String() }

func (k kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.plural}
}

// as shows a custom object, or a list of such, in this version of its kind: conversion changes
// nothing else.
func (k kind) as(obj map[string]any) map[string]any {
	if !k.custom || obj["kind"] == "Status" {
		return obj
	}
	if items, list := obj["items"].([]any); list {
		out := maps.Clone(obj)
		all := make([]any, len(items))
		for i, item := range items {
			all[i] = k.as(item.(map[string]any))
		}
		out["items"] = all
		return out
	}
	if obj["apiVersion"] == k.GroupVersion().String() {
		return obj
	}
	obj = maps.Clone(obj)
	obj["apiVersion"] = k.GroupVersion().String()
	return obj
}

func builtins(group, version string, namespaced bool, kindsAndPlurals ...string) []kind {
	var out []kind
	for pair := range slices.Chunk(kindsAndPlurals, 2) {
		out = append(out, kind{
			GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: pair[0]},
			plural:           pair[1], namespaced: namespaced,
		})
	}
	return out
}

// builtin are the kinds that are always there.
var builtin = slices.Concat(
	builtins("", "v1", false, "Namespace", "namespaces", "Node", "nodes", "PersistentVolume", "persistentvolumes"),
	builtins("", "v1", true, "Pod", "pods", "ConfigMap", "configmaps", "Secret", "secrets", "Service", "services",
		"ServiceAccount", "serviceaccounts", "Event", "events", "Endpoints", "endpoints",
		"PersistentVolumeClaim", "persistentvolumeclaims", "ResourceQuota", "resourcequotas", "LimitRange", "limitranges"),
	builtins("apps", "v1", true, "DaemonSet", "daemonsets", "Deployment", "deployments", "StatefulSet", "statefulsets",
		"ReplicaSet", "replicasets", "ControllerRevision", "controllerrevisions"),
	builtins("batch", "v1", true, "Job", "jobs", "CronJob", "cronjobs"),
	builtins("rbac.authorization.k8s.io", "v1", false, "ClusterRole", "clusterroles", "ClusterRoleBinding", "clusterrolebindings"),
	builtins("rbac.authorization.k8s.io", "v1", true, "Role", "roles", "RoleBinding", "rolebindings"),
	builtins("coordination.k8s.io", "v1", true, "Lease", "leases"),
	builtins("admissionregistration.k8s.io", "v1", false, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
		"ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "ValidatingAdmissionPolicy", "validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings",
		"MutatingAdmissionPolicy", "mutatingadmissionpolicies", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"), // v1 since Kubernetes 1.36
	builtins("autoscaling", "v2", true, "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
	custom(builtins("apiregistration.k8s.io", "v1", false, "APIService", "apiservices")),
	builtins("policy", "v1", true, "PodDisruptionBudget", "poddisruptionbudgets"),
	builtins("scheduling.k8s.io", "v1", false, "PriorityClass", "priorityclasses"),
	builtins("storage.k8s.io", "v1", false, "StorageClass", "storageclasses", "CSIDriver", "csidrivers",
		"CSINode", "csinodes", "VolumeAttachment", "volumeattachments"),
	builtins("node.k8s.io", "v1", false, "RuntimeClass", "runtimeclasses"),
	// Served without a setting since Kubernetes 1.34. Only claims that the scheduler makes are allocated here.
	custom(builtins("resource.k8s.io", "v1", false, "DeviceClass", "deviceclasses", "ResourceSlice", "resourceslices")),
	custom(builtins("resource.k8s.io", "v1", true, "ResourceClaim", "resourceclaims", "ResourceClaimTemplate", "resourceclaimtemplates")),
	builtins("networking.k8s.io", "v1", true, "Ingress", "ingresses", "NetworkPolicy", "networkpolicies"),
	builtins("networking.k8s.io", "v1", false, "IngressClass", "ingressclasses"),
	builtins("discovery.k8s.io", "v1", true, "EndpointSlice", "endpointslices"),
	crds,
	// K3s' own, which its packaged components are made of.
	custom(builtins("helm.cattle.io", "v1", true, "HelmChart", "helmcharts", "HelmChartConfig", "helmchartconfigs")),
)

var crds = custom(builtins("apiextensions.k8s.io", "v1", false, "CustomResourceDefinition", "customresourcedefinitions"))

// custom marks kinds whose schema we do not have.
func custom(kinds []kind) []kind {
	for i := range kinds {
		kinds[i].custom = true
	}
	return kinds
}

func find(kinds []kind, match func(kind) bool) (kind, bool) {
	i := slices.IndexFunc(kinds, match)
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// mustKind finds a builtin kind by its resource.
func mustKind(plural string) kind {
	k, ok := find(builtin, func(k kind) bool { return k.plural == plural })
	if !ok {
		panic("kubesim: no resource " + plural)
	}
	return k
}

// define adds the kinds of a CustomResourceDefinition.
func (c *objectStore) define(crd map[string]any) {
	group, _ := dig(crd, "spec", "group").(string)
	plural, _ := dig(crd, "spec", "names", "plural").(string)
	name, _ := dig(crd, "spec", "names", "kind").(string)
	singular, _ := dig(crd, "spec", "names", "singular").(string)
	short, _, _ := unstructured.NestedStringSlice(crd, "spec", "names", "shortNames")
	versions, _ := dig(crd, "spec", "versions").([]any)
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if m["served"] == false {
			continue
		}
		version, _ := m["name"].(string)
		printed, _ := m["additionalPrinterColumns"].([]any)
		k := kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: name}, plural: plural, custom: true,
			namespaced: dig(crd, "spec", "scope") == "Namespaced", singular: singular, short: short, columns: table.Columns(printed)}
		i := slices.IndexFunc(c.kinds, func(known kind) bool { return known.GroupVersionKind == k.GroupVersionKind })
		if i < 0 {
			c.kinds = append(c.kinds, k)
		} else if c.kinds[i].custom {
			c.kinds[i] = k
		}
	}
}

// establish says of a CustomResourceDefinition that its kinds are served.
func establish(crd map[string]any) {
	if status, _ := crd["status"].(map[string]any); status["conditions"] != nil {
		return // it has been
	}
	spec, _ := crd["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	kind, _ := names["kind"].(string)
	for key, value := range map[string]string{"listKind": kind + "List", "singular": strings.ToLower(kind)} {
		if names != nil && names[key] == nil {
			names[key] = value
		}
	}
	if spec != nil && spec["conversion"] == nil {
		spec["conversion"] = map[string]any{"strategy": "None"}
	}
	var stored []any
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		if dig(v, "storage") == true {
			stored = append(stored, dig(v, "name"))
		}
	}
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(kind, reason, message string) any {
		return map[string]any{"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
	}
	crd["status"] = map[string]any{"acceptedNames": names, "storedVersions": stored, "conditions": []any{
		condition("NamesAccepted", "NoConflicts", "no conflicts found"),
		condition("Established", "InitialNamesAccepted", "the initial names have been accepted")}}
}

// dig returns what is at a path of nested mappings, or nil.
func dig(v any, keys ...string) any {
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}
