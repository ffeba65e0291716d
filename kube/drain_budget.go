package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cps-gpu/homelab/internal/printable"
)

// heldPod is a pod that a drain waits for.
type heldPod struct {
	pod    *corev1.Pod
	phrase string
	budget bool // a disruption budget forbids its eviction
}

func phrases(all []heldPod) []string {
	out := make([]string, len(all))
	for i, h := range all {
		out[i] = h.phrase
	}
	return out
}

// explainHeld returns the phrases of pods that did not go, with the reasons and the cures of
// those that a disruption budget holds back.
func (c *Client) explainHeld(ctx context.Context, all []heldPod) []string {
	budgets := map[string][]policyv1.PodDisruptionBudget{}
	for i, h := range all {
		if !h.budget {
			continue
		}
		list, known := budgets[h.pod.Namespace]
		if !known {
			var found policyv1.PodDisruptionBudgetList
			err := c.do(ctx, request{doing: "read the disruption budgets of " + h.pod.Namespace,
				path: path(policyv1.SchemeGroupVersion, h.pod.Namespace, "poddisruptionbudgets", "")}, &found)
			if err != nil {
				continue // the API server's own words stay
			}
			list = found.Items
			budgets[h.pod.Namespace] = list
		}
		pods, err := c.pods(ctx, "read the pods of "+h.pod.Namespace, h.pod.Namespace, nil)
		if err != nil {
			continue
		}
		for j := range list {
			if why := budgetReason(&list[j], h.pod, pods); why != "" {
				all[i].phrase = "pod " + podRef(h.pod) + ": " + why
				break
			}
		}
	}
	return phrases(all)
}

// budgetReason says why a budget forbids the eviction of a pod and what helps, "" if it does not.
func budgetReason(b *policyv1.PodDisruptionBudget, p *corev1.Pod, pods []corev1.Pod) string {
	if !budgetCovers(b, p) {
		return ""
	}
	var healthy, sick []string
	for i := range pods {
		switch {
		case PodEnded(pods[i].Status.Phase) || !budgetCovers(b, &pods[i]):
		case isReady(&pods[i]) && pods[i].DeletionTimestamp == nil:
			healthy = append(healthy, pods[i].Name)
		default:
			sick = append(sick, pods[i].Name)
		}
	}
	all, well, rule := len(healthy)+len(sick), len(healthy), ""
	needs, err := 0, error(nil)
	switch {
	case b.Spec.MinAvailable != nil:
		rule = "minAvailable: " + b.Spec.MinAvailable.String()
		needs, err = intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, all, true)
	case b.Spec.MaxUnavailable != nil:
		rule = "maxUnavailable: " + b.Spec.MaxUnavailable.String()
		needs, err = intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, all, true)
		needs = all - needs
	}
	if st := b.Status; st.ExpectedPods > 0 { // what the disruption controller has counted
		all, needs, well = int(st.ExpectedPods), int(st.DesiredHealthy), int(st.CurrentHealthy)
	}
	if rule == "" || err != nil {
		return ""
	}
	name, edit := b.Name, fmt.Sprintf("kubectl -n %s edit pdb %s", printable.Word(b.Namespace), printable.Word(b.Name))
	switch {
	case well-1 >= needs: // it allows one now, so another pod is on its way
		return ""
	case needs >= all:
		return fmt.Sprintf("the PodDisruptionBudget %s (%s) never lets one of its %d pods go: add a replica, or change the budget until the node is back: %s", name, rule, all, edit)
	case len(sick) > 0:
		slices.Sort(sick)
		return fmt.Sprintf("the PodDisruptionBudget %s (%s) wants %d healthy pods, and of its %d pods %s are not ready: bring those back first (kubectl -n %s describe pod %s)",
			name, rule, needs, all, strings.Join(sick, ", "), printable.Word(b.Namespace), printable.Word(sick[0]))
	}
	return fmt.Sprintf("the PodDisruptionBudget %s (%s) wants %d healthy pods and has %d: add a replica, or change it: %s", name, rule, needs, well, edit)
}

func budgetCovers(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	if b.Spec.Selector == nil || b.Namespace != p.Namespace {
		return false
	}
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && s.Matches(labels.Set(p.Labels))
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
