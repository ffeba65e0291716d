package kube

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const nodesPath = "/api/v1/nodes"

// etcdIsVoter is the condition in which K3s says how a server's etcd member is (etcdStatusType,
// pkg/etcd/etcd.go of release-1.34).
const etcdIsVoter corev1.NodeConditionType = "EtcdIsVoter"

// Node is a node as the cluster sees it.
type Node struct {
	Name       string
	Ready      bool
	Reason     string // why it is not ready; empty if it is
	Role       string // "server" or "agent", by the control-plane label
	Version    string // of its kubelet
	InternalIP netip.Addr
	Labels     map[string]string
	Taints     []Taint
	Cordoned   bool   // takes no new pods
	ProviderID string // spec.providerID, which never changes: e.g. k3s://cp1
	Created    time.Time
	Runtime    string    // e.g. "containerd://2.1.4-k3s1"
	Reported   time.Time // when its kubelet last reported: at its start, on a change, and every five minutes
	BootID     string    // changes whenever the machine boots, as its kubelet reports it

	// Voter is the status of K3s' condition EtcdIsVoter: "True" if the server's etcd member
	// votes and answers, "False" if not, with VoterReason. It is empty for an agent, and until
	// K3s has looked, which it does every 15 seconds.
	Voter, VoterReason string

	// Allocatable is what pods can get, Capacity what the node has.
	Allocatable, Capacity corev1.ResourceList

	// OwnedLabels and OwnedTaints are those that [Client.Mark] set: keys, and keys
	// with effect.
	OwnedLabels, OwnedTaints []string

	resourceVersion string
	devices         map[string]int64 // by resource, see [Devices]
}

// Count returns how much of a resource pods can get, in whole units, e.g. of "nvidia.com/gpu";
// 0 if the node does not have it.
func (n Node) Count(resource string) int64 {
	q := n.Allocatable[corev1.ResourceName(resource)]
	return q.Value() + n.devices[resource]
}

// Counts are what [Node.Count] counts of all resources whose names begin with a prefix, without those of
// which there is none.
func (n Node) Counts(prefix string) map[string]int64 {
	out := map[string]int64{}
	maps.Copy(out, n.devices)
	for name, q := range n.Allocatable {
		out[string(name)] += q.Value()
	}
	maps.DeleteFunc(out, func(name string, count int64) bool { return !strings.HasPrefix(name, prefix) || count == 0 })
	return out
}

// Taint keeps pods away that do not tolerate it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NoSchedule, PreferNoSchedule or NoExecute
}

// String returns e.g. "nvidia.com/gpu=present:NoSchedule".
func (t Taint) String() string {
	if t.Value == "" {
		return t.id()
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// id identifies a taint on a node.
func (t Taint) id() string { return t.Key + ":" + t.Effect }

// Nodes returns every node of the cluster, by name.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var list corev1.NodeList
	if err := c.do(ctx, request{doing: "list the nodes", path: nodesPath}, &list); err != nil {
		return nil, err
	}
	nodes := make([]Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = nodeOf(&list.Items[i])
	}
	if err := c.countDevices(ctx, nodes); err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}

// Node returns one node. The error is [ErrNotFound] if it does not exist.
func (c *Client) Node(ctx context.Context, name string) (Node, error) {
	var n corev1.Node
	err := c.do(ctx, request{doing: "read node " + name, path: nodePath(name)}, &n)
	if err != nil {
		return Node{}, err
	}
	out := []Node{nodeOf(&n)}
	if err := c.countDevices(ctx, out); err != nil {
		return Node{}, err
	}
	return out[0], nil
}

// DeleteNode deletes a node's object; K3s then deletes its password, and removes a server from
// etcd. A missing node is not an error.
func (c *Client) DeleteNode(ctx context.Context, name string) error {
	err := c.do(ctx, request{doing: "delete node " + name, verb: http.MethodDelete, path: nodePath(name)}, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func nodePath(name string) string { return path(corev1.SchemeGroupVersion, "", "nodes", name) }

// patchNode sends a JSON merge patch.
func (c *api) patchNode(ctx context.Context, doing, name string, patch map[string]any) error {
	return c.do(ctx, request{doing: doing, verb: http.MethodPatch, path: nodePath(name),
		query: map[string][]string{"fieldManager": {fieldManager}}, kind: string(types.MergePatchType), body: patch}, nil)
}

func nodeOf(n *corev1.Node) Node {
	out := Node{
		Name: n.Name, Role: roleOf(n.Labels), Version: n.Status.NodeInfo.KubeletVersion,
		Labels: n.Labels, Cordoned: n.Spec.Unschedulable, Created: n.CreationTimestamp.Time,
		Runtime:     n.Status.NodeInfo.ContainerRuntimeVersion,
		BootID:      n.Status.NodeInfo.BootID,
		ProviderID:  n.Spec.ProviderID,
		Allocatable: n.Status.Allocatable, Capacity: n.Status.Capacity,
		OwnedLabels: listOf(n.Annotations[ownedLabels]), OwnedTaints: listOf(n.Annotations[ownedTaints]),
		resourceVersion: n.ResourceVersion,
	}
	out.Ready, out.Reason = readiness(n)
	for _, cond := range n.Status.Conditions {
		switch cond.Type {
		case corev1.NodeReady:
			out.Reported = cond.LastHeartbeatTime.Time
		case etcdIsVoter:
			out.Voter = string(cond.Status)
			if cond.Status != corev1.ConditionTrue {
				out.VoterReason = joinReason(cond.Reason, cond.Message)
			}
		}
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && !out.InternalIP.IsValid() {
			out.InternalIP = ip
		}
	}
	return out
}

func roleOf(labels map[string]string) string {
	for _, key := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, ok := labels[key]; ok {
			return "server"
		}
	}
	return "agent"
}

func readiness(n *corev1.Node) (ok bool, reason string) {
	for _, cond := range n.Status.Conditions {
		if cond.Type != corev1.NodeReady {
			continue
		}
		switch cond.Status {
		case corev1.ConditionTrue:
			return true, ""
		case corev1.ConditionUnknown:
			return false, "its kubelet has not reported since " + cond.LastTransitionTime.UTC().Format(time.TimeOnly)
		default:
			return false, joinReason(cond.Reason, cond.Message)
		}
	}
	return false, "its kubelet has not reported yet"
}

// joinReason joins a reason and a message, either of which may be empty.
func joinReason(reason, message string) string {
	return strings.Trim(reason+": "+message, ": ")
}

// list reads a collection of pods.
func (c *api) pods(ctx context.Context, doing, namespace string, query map[string][]string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.do(ctx, request{doing: doing, path: path(corev1.SchemeGroupVersion, namespace, "pods", ""), query: query}, &list)
	return list.Items, err
}

// fieldSelectorForNode selects the pods of a node; of all nodes if it is empty.
func fieldSelectorForNode(node string) map[string][]string {
	if node == "" {
		return nil
	}
	return map[string][]string{"fieldSelector": {"spec.nodeName=" + node}}
}

func podRef(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
