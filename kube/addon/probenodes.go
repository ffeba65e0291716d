package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// secondNode is how long a probe waits for a second node before it reads on the node where it
// wrote.
const secondNode = time.Minute

// choose returns the nodes to test. It waits for those that are not ready yet: a node joins
// before its network works. Nodes in proven need no test.
func (p *Probe) choose(ctx context.Context, k *kube.Client, proven []string) error {
	began := time.Now()
	return await(ctx, func(ctx context.Context) (string, error) {
		all, err := k.Nodes(ctx)
		if err != nil {
			return "", err
		}
		var ready, late, away []string
		for _, n := range p.coveredNodes(all) {
			if slices.Contains(proven, n.Name) {
				continue
			}
			why, never := p.unfitReason(n)
			switch {
			case n.Cordoned && p.Local:
				away = append(away, n.Name)
			case n.Cordoned, never && !p.Local:
			case never:
				return "", fmt.Errorf("volumes on %s cannot be tested: %s", n.Name, why)
			case why != "":
				late = append(late, n.Name+" "+why)
			default:
				ready = append(ready, n.Name)
			}
		}
		enough := len(late) == 0 || !p.Local && (len(ready) > 1 || len(ready) == 1 && time.Since(began) > secondNode)
		if !enough {
			return "waiting for nodes: " + strings.Join(late, "; "), nil
		}
		if len(ready) == 0 && !p.Local {
			return "", errors.New("no node can run a pod that tests it: all are cordoned or have taints that are not tolerated")
		}
		if len(away) > 0 {
			converge.Progressf(ctx, "cordoned, and not tested now: %s", strings.Join(away, ", "))
		}
		p.Nodes = ready
		return "", nil
	})
}

// coveredNodes are the nodes that a probe covers.
func (p *Probe) coveredNodes(all []kube.Node) []kube.Node {
	return slices.DeleteFunc(slices.Clone(all), func(n kube.Node) bool {
		return len(p.Nodes) > 0 && !slices.Contains(p.Nodes, n.Name)
	})
}

// unfitReason says why no pod of the probe can run on a node, and whether that is permanent.
func (p *Probe) unfitReason(n kube.Node) (why string, never bool) {
	for _, t := range n.Taints {
		taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		ok := taint.Effect == corev1.TaintEffectPreferNoSchedule ||
			slices.ContainsFunc(p.Tolerations, func(one corev1.Toleration) bool { return tolerates(one, taint) })
		switch {
		case ok:
		case isAutomaticTaint(t.Key):
			why = "has the taint " + t.String()
		default:
			return fmt.Sprintf("its taint %s is not tolerated", t), true
		}
	}
	if !n.Ready {
		why = "is not ready: " + n.Reason
	}
	return why, false
}

// isAutomaticTaint are taints that Kubernetes, its cloud provider (K3s has one) or the network set and
// clear automatically.
func isAutomaticTaint(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return slices.Contains([]string{"node.kubernetes.io", "node.cloudprovider.kubernetes.io", "node.cilium.io"}, prefix)
}

func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Value == taint.Value
}
