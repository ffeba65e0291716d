package fleet

import (
	"fmt"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// chartQuirks has what Fleet needs to know about a chart.
type chartQuirks struct {
	chart string
	// hooks names its hooks. Fleet uses Helm 4 since 0.15, which gives a hook 30 s without a
	// time limit (helm v4 pkg/kube/statuswait.go, DefaultStatusWatcherTimeout): less than a
	// slow pull of its image.
	hooks string
	// patches are the fields that others change in what it deployed: without them the bundle
	// is Modified forever, and its dependents wait. why names the program that changes them.
	patches []api.ComparePatch
	why     string
}

// habits of the pinned charts, from their templates at the pinned versions.
var habits = [...]chartQuirks{
	{
		chart: "cert-manager", hooks: "startupapicheck, which waits until the webhook answers",
		patches: webhooks(1, mutating, validating), why: "cert-manager's cainjector writes the webhooks' caBundle (Fleet knows by itself since 0.16.1)",
	},
	{
		chart: "kube-prometheus-stack", hooks: "the admission webhook's certificate jobs",
		patches: webhooks(1, mutating, validating), why: "its patch job writes the webhooks' caBundle (rancher/fleet#715; Fleet knows by itself since 0.16.1)",
	},
	{
		chart: "metallb", patches: webhooks(6, validating),
		why: "MetalLB's controller writes the webhooks' caBundle (Fleet knows by itself since 0.16.1)",
	},
	{chart: "longhorn", hooks: "longhorn-pre-upgrade and longhorn-post-upgrade"},
	{chart: "jupyterhub", hooks: "the image puller, where prePuller.hook is on"},
	{chart: "velero", hooks: "velero-upgrade-crds"},
	{chart: "gpu-operator", hooks: "gpu-operator-upgrade-crd"},
}

const (
	mutating   = "MutatingWebhookConfiguration"
	validating = "ValidatingWebhookConfiguration"
)

// webhooks makes patches for the first n webhooks of the bundle's configurations of these kinds, whatever
// their names. They are pointers, not operations, because one operation on a missing field disables the
// others (internal/cmd/agent/deployer/normalizers).
func webhooks(n int, kinds ...string) []api.ComparePatch {
	pointers := make([]string, n)
	for i := range pointers {
		pointers[i] = fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i)
	}
	var out []api.ComparePatch
	for _, kind := range kinds {
		out = append(out, api.ComparePatch{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind, JsonPointers: pointers})
	}
	return out
}

func quirksOf(chart string) chartQuirks {
	for _, h := range habits {
		if h.chart == chart {
			return h
		}
	}
	return chartQuirks{}
}
