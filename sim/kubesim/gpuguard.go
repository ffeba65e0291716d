package kubesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	guardName       = "gpu-guard"
	visibleVariable = "NVIDIA_VISIBLE_DEVICES"
)

var gpuRequest = regexp.MustCompile(`^nvidia[.]com/(gpu|gpu[.]shared|mig-.+)$`)

// guardGPUs plays the ValidatingAdmissionPolicy gpu-guard for new pods: this API evaluates no CEL. Its four rules are
// written here again, in its order; that both refuse the same pods shows where both a real API server and this one
// run (sim/lab/plane). The lock is held.
func (c *Cluster) guardGPUs(p *corev1.Pod) error {
	policy := c.objects["validatingadmissionpolicies.admissionregistration.k8s.io"][key("", guardName)]
	binding := c.objects["validatingadmissionpolicybindings.admissionregistration.k8s.io"][key("", guardName)]
	if policy == nil || binding == nil || !selects(binding.obj, p.Namespace) {
		return nil
	}
	rule := brokenGuardRule(p)
	if rule < 0 {
		return nil
	}
	rules, _ := dig(policy.obj, "spec", "validations").([]any)
	if len(rules) != 4 {
		return apierrors.NewInternalError(fmt.Errorf("kubesim plays %s with 4 rules, and this one has %d", guardName, len(rules)))
	}
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", guardName, guardName, dig(rules[rule], "message"))
	err := apierrors.NewForbidden(corev1.Resource("pods"), p.Name, errors.New(message))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	return err
}

// selects reports whether a binding is about the objects of a namespace.
func selects(binding map[string]any, namespace string) bool {
	var selector metav1.LabelSelector
	b, err := json.Marshal(dig(binding, "spec", "matchResources", "namespaceSelector"))
	if err != nil || json.Unmarshal(b, &selector) != nil {
		return false
	}
	s, err := metav1.LabelSelectorAsSelector(&selector)
	return err == nil && s.Matches(labels.Set{corev1.LabelMetadataName: namespace})
}

// brokenGuardRule is the index of the first rule that a new pod breaks; -1: none.
func brokenGuardRule(p *corev1.Pod) int {
	if p.Spec.RuntimeClassName == nil || !strings.HasPrefix(*p.Spec.RuntimeClassName, "nvidia") {
		return -1
	}
	all := slices.Concat(p.Spec.Containers, p.Spec.InitContainers)
	for _, e := range p.Spec.EphemeralContainers {
		all = append(all, corev1.Container(e.EphemeralContainerCommon))
	}
	names := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == visibleVariable })
	}
	for i, breaks := range []func(corev1.Container) bool{
		func(c corev1.Container) bool {
			for r, n := range c.Resources.Limits {
				if gpuRequest.MatchString(string(r)) && n.Sign() > 0 {
					return false
				}
			}
			return !names(c)
		},
		func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
				return e.Name == visibleVariable && e.Value != "void" && e.Value != "none"
			})
		},
		func(c corev1.Container) bool {
			return !names(c) && slices.ContainsFunc(c.EnvFrom, func(f corev1.EnvFromSource) bool { return strings.HasPrefix(visibleVariable, f.Prefix) })
		},
	} {
		if slices.ContainsFunc(all, breaks) {
			return i
		}
	}
	if p.Spec.NodeName != "" {
		return 3
	}
	return -1
}
