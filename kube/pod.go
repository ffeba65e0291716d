package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Termination is how a container ended.
type Termination struct {
	Pod, Node, Container string
	ExitCode             int
	Reason               string // e.g. Completed, Error, OOMKilled
	Message              string // what it wrote to /dev/termination-log
}

// PodTermination returns how the containers of the pods that selector matches
// ended, by pod and container. Those that still run are left out.
func (c *Client) PodTermination(ctx context.Context, namespace, selector string) ([]Termination, error) {
	pods, err := c.pods(ctx, fmt.Sprintf("read how the pods %s of %s ended", selector, namespace), namespace,
		map[string][]string{"labelSelector": {selector}})
	if err != nil {
		return nil, err
	}
	var out []Termination
	for i := range pods {
		out = append(out, terminations(&pods[i])...)
	}
	slices.SortFunc(out, func(a, b Termination) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	return out, nil
}

func terminations(p *corev1.Pod) []Termination {
	var out []Termination
	for _, cs := range p.Status.ContainerStatuses {
		if t := cs.State.Terminated; t != nil {
			out = append(out, Termination{Pod: p.Name, Node: p.Spec.NodeName, Container: cs.Name,
				ExitCode: int(t.ExitCode), Reason: t.Reason, Message: t.Message})
		}
	}
	return out
}

// Holder is a pod that holds some of a resource.
type Holder struct {
	Namespace, Pod, Node string
	Resource             string // e.g. nvidia.com/gpu
	Count                int64
	Phase                string
	User                 string    // the owner of a notebook, as JupyterHub's annotation has it; empty for other pods
	Since                time.Time // when its node took it
}

// userNote is KubeSpawner's annotation with the owner of a notebook pod (kubespawner/spawner.py,
// _build_common_annotations).
const userNote = "hub.jupyter.org/username"

// String returns e.g. "jupyter/jupyter-teacher holds 2 on wk-gpu1".
func (h Holder) String() string {
	return fmt.Sprintf("%s/%s holds %d on %s", h.Namespace, h.Pod, h.Count, h.Node)
}

// Holders returns the pods that hold some of a resource such as "nvidia.com/gpu" and have not
// ended, on one node, or on all if node is empty. A resource that ends in a slash stands for all
// with that prefix: "nvidia.com/" covers shares and MIG instances too.
func (c *Client) Holders(ctx context.Context, resource, node string) ([]Holder, error) {
	pods, err := c.pods(ctx, "ask who holds "+resource, "", fieldSelectorForNode(node))
	if err != nil {
		return nil, err
	}
	var out []Holder
	for i := range pods {
		p := &pods[i]
		if PodEnded(p.Status.Phase) || p.Spec.NodeName == "" {
			continue
		}
		for name, taken := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
			below := strings.HasSuffix(resource, "/") && strings.HasPrefix(string(name), resource)
			if string(name) != resource && !below || taken.Value() <= 0 {
				continue
			}
			h := Holder{Namespace: p.Namespace, Pod: p.Name, Node: p.Spec.NodeName, Resource: string(name), Count: taken.Value(), Phase: string(p.Status.Phase),
				User: p.Annotations[userNote]}
			if p.Status.StartTime != nil {
				h.Since = p.Status.StartTime.Time
			}
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Resource, b.Resource))
	})
	return out, nil
}

// NodePods returns the pods of a node.
func (c *Client) NodePods(ctx context.Context, node string) ([]corev1.Pod, error) {
	return c.pods(ctx, "list the pods of node "+node, "", fieldSelectorForNode(node))
}

// stuckReason says what keeps a pod from running, as the scheduler, the kubelet or the container
// runtime report it; empty if nothing does.
func stuckReason(p *corev1.Pod) string {
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			return joinReason(cond.Reason, cond.Message)
		}
	}
	for _, cs := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := cs.State.Waiting; w != nil && w.Reason != "" {
			return fmt.Sprintf("container %s: %s", cs.Name, joinReason(w.Reason, w.Message))
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		return joinReason(p.Status.Reason, p.Status.Message)
	}
	return ""
}
