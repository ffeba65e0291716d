package addon

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/nvidia"
)

// gpuGuardName is the part's name, and that of its objects.
const gpuGuardName = "gpu-guard"

// GPUGuard refuses pods that would see GPUs which they have not requested. NVIDIA's runtime obeys
// NVIDIA_VISIBLE_DEVICES in any container of its class (NVIDIA/nvidia-container-toolkit: internal/config/image,
// VisibleDevices), also where an image sets it, as CUDA's do; and a container's own value wins over that of the device
// plugin (kubernetes: pkg/kubelet/kubelet_pods.go, GenerateRunContainerOptions). So the variable must be void where no
// GPU is requested, and cannot be anything else where one is.
type GPUGuard struct{ Guard bool }

func (g GPUGuard) Info() Info {
	return Info{Name: gpuGuardName, Section: "nvidia.guard", On: g.Guard}
}

func (GPUGuard) Make(*Site) (Recipe, error) {
	return Recipe{TriedBy: "cluster:conformance -run", Part: chart.Part{Name: gpuGuardName, After: []runtime.Object{gpuGuardPolicy(), gpuGuardBinding()}}}, nil
}

// guarded says whether a pod is of NVIDIA's runtime; K3s has more than one class of it.
const guarded = `has(object.spec.runtimeClassName) && object.spec.runtimeClassName.startsWith('nvidia')`

// guardVariables are what the rules share.
func guardVariables() []admissionv1.Variable {
	return []admissionv1.Variable{
		{Name: "containers", Expression: `dyn(object.spec.containers)` +
			` + (has(object.spec.initContainers) ? dyn(object.spec.initContainers) : [])` +
			` + (has(object.spec.ephemeralContainers) ? dyn(object.spec.ephemeralContainers) : [])`},
		// A request of 0 gets nothing from the device plugin, and nothing of its variable either.
		{Name: "unasked", Expression: `variables.containers.filter(c, !(has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(r,` +
			` r.matches('^nvidia[.]com/(gpu|gpu[.]shared|mig-.+)$') && quantity(string(c.resources.limits[r])).isGreaterThan(quantity('0')))))`},
		{Name: "silent", Expression: `variables.unasked.filter(c, !(has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')))`},
	}
}

// guardRules are the rules, and what they say to who breaks them.
func guardRules() []admissionv1.Validation {
	rule := func(expression string, words ...string) admissionv1.Validation {
		forbidden := metav1.StatusReasonForbidden
		return admissionv1.Validation{Expression: expression, Reason: &forbidden, Message: strings.Join(words, "")}
	}
	return []admissionv1.Validation{
		rule(`variables.silent.size() == 0`,
			"a container of the runtime class nvidia requests no GPU, and its image may ask the runtime for all: request one in limits (nvidia.com/gpu: 1), or add",
			" NVIDIA_VISIBLE_DEVICES: void to its env; init containers, too"),
		rule(`variables.containers.all(c, !has(c.env) || c.env.all(e, e.name != 'NVIDIA_VISIBLE_DEVICES' || has(e.value) && e.value in ['void', 'none']))`,
			"NVIDIA_VISIBLE_DEVICES can only be void or none: a container sees the GPUs that it requests in limits (nvidia.com/gpu: 1)"),
		rule(`variables.containers.all(c, !has(c.envFrom) || has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')`+
			` || c.envFrom.all(f, has(f.prefix) && f.prefix != '' && !'NVIDIA_VISIBLE_DEVICES'.startsWith(f.prefix)))`,
			"envFrom could set NVIDIA_VISIBLE_DEVICES, past the device plugin: name the variables in env, or give envFrom a prefix"),
		// A kubelet drops requests of a resource that its node does not have, if the scheduler did not send the pod
		// (kubernetes: pkg/kubelet/lifecycle/predicate.go, removeMissingExtendedResources).
		rule(`request.operation != 'CREATE' || !has(object.spec.nodeName)`,
			"a pod of the runtime class nvidia cannot name its node, past the scheduler: choose it by nodeSelector"),
	}
}

func gpuGuardPolicy() *admissionv1.ValidatingAdmissionPolicy {
	fail := admissionv1.Fail
	// Others that change a pod, such as Kueue and the Job controller, change neither its containers nor its class.
	rules := func(resource string, operation admissionv1.OperationType) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{operation},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}}
	}
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"}, ObjectMeta: meta(gpuGuardName, "", gpuGuardName),
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				rules("pods", admissionv1.Create), rules("pods/ephemeralcontainers", admissionv1.Update)}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "nvidia", Expression: guarded}},
			Variables:       guardVariables(),
			Validations:     guardRules(),
		},
	}
}

// gpuGuardBinding leaves out the namespaces of those who hand out and watch the GPUs: they see all.
func gpuGuardBinding() *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBinding"}, ObjectMeta: meta(gpuGuardName, "", gpuGuardName),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: gpuGuardName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn,
				Values: []string{GPUOperatorNamespace, DRADriverNamespace, monitoringNamespace, nvidia.PluginName},
			}}}},
		},
	}
}
