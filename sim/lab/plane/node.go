package plane

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/cps-gpu/homelab/sim/guest"
)

// kubeletPort is the port at which the API server asks a node for logs.
const kubeletPort = 10250

// gpuResource is what NVIDIA's device plugin registers.
const gpuResource corev1.ResourceName = "nvidia.com/gpu"

// register does what a kubelet and K3s do at start: create the Node if it is missing, with all
// labels and taints of the configuration; update an existing one, except for the taints, which
// apply only at registration. The labels of the configuration K3s sets again at every start
// (configureNode, pkg/agent/run.go).
func (p *plane) register(ctx context.Context, n guest.Node) error {
	fresh, err := nodeObject(n)
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().Nodes().Create(ctx, fresh, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register node %s: %w", n.Name, err)
	}
	meta := map[string]any{"metadata": map[string]any{"labels": fresh.Labels, "annotations": fresh.Annotations}}
	fresh.Status.Conditions = nil
	old, err := patchNode(ctx, p.client, n.Name, meta)
	if err != nil {
		return err
	}
	for name := range old.Status.Capacity {
		if ofNVIDIA(name) { // the kubelet forgets devices until their plugin has registered again
			fresh.Status.Capacity[name], fresh.Status.Allocatable[name] = resource.Quantity{}, resource.Quantity{}
		}
	}
	if _, err = patchNode(ctx, p.client, n.Name, map[string]any{"status": fresh.Status}, "status"); err != nil {
		return err
	}
	return nil
}

// deregister sets the Node to the state after a long silence of its kubelet: its conditions are
// unknown.
func deregister(ctx context.Context, client kubernetes.Interface, name string) error {
	now := metav1.Now()
	var conditions []corev1.NodeCondition
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		conditions = append(conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionUnknown, LastTransitionTime: now, LastHeartbeatTime: now,
			Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
		})
	}
	_, err := patchNode(ctx, client, name, map[string]any{"status": map[string]any{"conditions": conditions}}, "status")
	return err
}

func patchNode(ctx context.Context, client kubernetes.Interface, name string, patch any, sub ...string) (*corev1.Node, error) {
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	node, err := client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, sub...)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return node, nil
}

// builtinLabels are those that K3s and its kubelet bring up to date at each start.
func builtinLabels(n guest.Node) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:               n.Name,
		corev1.LabelArchStable:             "amd64",
		corev1.LabelOSStable:               "linux",
		corev1.LabelInstanceTypeStable:     "k3s",
		"beta.kubernetes.io/arch":          "amd64",
		"beta.kubernetes.io/os":            "linux",
		"beta.kubernetes.io/instance-type": "k3s",
	}
	if n.Role == "server" {
		labels["node-role.kubernetes.io/control-plane"] = "true"
		labels["node-role.kubernetes.io/etcd"] = "true"
	}
	return labels
}

func nodeObject(n guest.Node) (*corev1.Node, error) {
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, builtinLabels(n))
	// As K3s' cloud controller does when a node registers, which this control plane does not run.
	for beta, label := range map[string]string{
		corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	} {
		if v := labels[label]; v != "" {
			labels[beta] = v
		}
	}
	taints, err := parseTaints(n.Taints)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	annotations := map[string]string{
		"k3s.io/hostname": n.Name, "k3s.io/internal-ip": n.InternalIPs(),
		"alpha.kubernetes.io/provided-node-ip": n.InternalIPs(),
	}
	if n.Role == "server" {
		annotations["etcd.k3s.cattle.io/node-address"] = n.InternalIP.String()
		annotations["etcd.k3s.cattle.io/node-name"] = n.Name + "-" + shortHash(n.Name)[:8]
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: cmp.Or(n.ProviderID, "k3s://"+n.Name), Taints: taints},
		Status:     nodeStatus(n),
	}, nil
}

func nodeStatus(n guest.Node) corev1.NodeStatus {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(n.CPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(n.Memory, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(110, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: resource.MustParse("60Gi"),
	}
	now := metav1.NewTime(time.Now())
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.InternalIP.String()}}
	if n.SecondIP.IsValid() {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: n.SecondIP.String()})
	}
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: maps.Clone(capacity),
		Addresses:       append(addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.Name}),
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: shortHash(n.Name), SystemUUID: shortHash(n.Name + "/uuid"), BootID: n.BootID,
			KernelVersion: "6.8.0-79-generic", OSImage: "Ubuntu 24.04.3 LTS (simulated)",
			ContainerRuntimeVersion: "containerd://2.1.5-k3s1", KubeletVersion: n.Version,
			OperatingSystem: "linux", Architecture: "amd64",
		},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: now, LastHeartbeatTime: now,
			Reason: "KubeletNotReady", Message: "container runtime network not ready: cni plugin not initialized",
		}},
	}
}

// parseTaints reads taints of the form key=value:Effect or key:Effect.
func parseTaints(texts []string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for _, text := range texts {
		rest, effect, ok := cutLast(text, ":")
		if !ok {
			return nil, fmt.Errorf("taint %q has no effect: write key=value:NoSchedule", text)
		}
		key, value, _ := strings.Cut(rest, "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// shortHash makes a realistic id that is always the same.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
