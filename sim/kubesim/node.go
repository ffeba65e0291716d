package kubesim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// Durations in simulated time, about those of K3s.
const (
	readyAfter   = 5 * time.Second  // from registering to Ready: the network plugin
	unknownAfter = 40 * time.Second // from the last heartbeat to Unknown
	settle       = 200 * time.Millisecond
	lookAgain    = 10 * time.Second // how often kubelets look at their GPUs

	gpuResource = "nvidia.com/gpu"
)

// kubelet is a node's kubelet.
type kubelet struct {
	node  guest.Node
	since time.Time // of the last change of alive
	alive bool
	ctx   context.Context // ends when the kubelet's machine does
	stop  context.CancelFunc

	reported     *entry                        // the Node object as this kubelet, Ready, has last left it
	reportedGPUs map[corev1.ResourceName]int64 // that it offered then, nil without a device plugin
}

// Join starts the kubelet of n.
func (c *Cluster) Join(_ context.Context, n guest.Node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.machines.kubelets[n.Name]; old != nil {
		old.stop()
	}
	k := &kubelet{node: n, since: time.Now(), alive: true}
	k.ctx, k.stop = context.WithCancel(c.ctx)
	c.machines.kubelets[n.Name] = k
	if e := c.get(mustKind("nodes"), "", n.Name); e == nil {
		c.make(newNode(n))
	} else {
		// K3s sets the labels of its configuration at every start, and taints only
		// when the node registers (configureNode, pkg/agent/run.go).
		if again := entryAs[corev1.Node](e).DeepCopy(); !holds(again.Labels, n.Labels) {
			maps.Copy(again.Labels, n.Labels)
			c.putTyped(mustKind("nodes"), again)
			e = c.get(mustKind("nodes"), "", n.Name)
		}
		// A kubelet that was away briefly stays as ready as before.
		if ready(entryAs[corev1.Node](e)) {
			k.since = k.since.Add(-c.scale(readyAfter))
		}
		c.machines.restartPods(n.Name)
	}
	c.machines.putNodePassword(n.Name)
	c.kick()
	return nil
}

// holds reports whether have has all of some.
func holds(have, some map[string]string) bool {
	for k, v := range some {
		if h, there := have[k]; !there || h != v {
			return false
		}
	}
	return true
}

// Leave stops the kubelet of a node.
func (c *Cluster) Leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.machines.kubelets[name]; k != nil && k.alive {
		k.alive, k.since = false, time.Now()
		k.stop()
		c.kick()
	}
}

// forget ends the kubelet of a node whose object was deleted.
func (c *machines) forget(name string) {
	if k := c.kubelets[name]; k != nil {
		k.stop()
		delete(c.kubelets, name)
	}
	if e := c.get(mustKind("secrets"), metav1.NamespaceSystem, name+".node-password.k3s"); e != nil {
		c.remove(e)
	}
}

// putNodePassword stores K3s' node password: a name belongs to the machine that first
// registered it.
func (c *machines) putNodePassword(name string) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name + ".node-password.k3s", Namespace: metav1.NamespaceSystem},
		Data: map[string][]byte{"hash": []byte("$1:simulated")}}
	if c.get(mustKind("secrets"), s.Namespace, s.Name) == nil {
		c.make(s)
	}
}

func newNode(n guest.Node) *corev1.Node {
	labels := map[string]string{"kubernetes.io/hostname": n.Name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
	annotations, id := map[string]string{}, n.ProviderID
	if isK3s(n) {
		labels["node.kubernetes.io/instance-type"] = "k3s"
		annotations["k3s.io/internal-ip"], annotations["k3s.io/hostname"] = n.InternalIPs(), n.Name
		id = cmp.Or(id, "k3s://"+n.Name) // InstanceMetadata, pkg/cloudprovider/instances.go
	}
	switch {
	case n.Role == "server" && isK3s(n):
		labels["node-role.kubernetes.io/control-plane"] = "true"
		labels["node-role.kubernetes.io/etcd"] = "true"
	case n.Role == "server": // kubeadm's phase mark-control-plane
		labels["node-role.kubernetes.io/control-plane"] = ""
		labels["node.kubernetes.io/exclude-from-external-load-balancers"] = ""
	}
	maps.Copy(labels, n.Labels)
	for beta, label := range topologyLabels() {
		if v := labels[label]; v != "" {
			labels[beta] = v
		}
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: id},
	}
	for _, t := range n.Taints {
		if taint, ok := parseTaint(t); ok {
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}
	node.Status = nodeStatus(n, node.Status, nil)
	return node
}

// isK3s reports whether a node runs K3s, which says so in its version.
func isK3s(n guest.Node) bool { return strings.Contains(n.Version, "+k3s") }

// topologyLabels are those that the cloud node controller, which runs within K3s, copies when a node
// registers, by their older names. From then on it sets each to what the older one says
// (labelReconcileInfo and getNodeModifiersFromCloudProvider, k8s.io/cloud-provider/controllers/node).
func topologyLabels() map[string]string {
	return map[string]string{
		corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	}
}

// reconcileTopology is what the cloud node controller does with a node that changed.
func (c *machines) reconcileTopology(e *entry) *entry {
	for beta, label := range topologyLabels() {
		n := entryAs[corev1.Node](e)
		if v, there := n.Labels[beta]; there && n.Labels[label] != v {
			n = n.DeepCopy()
			n.Labels[label] = v
			e = c.putTyped(mustKind("nodes"), n)
		}
	}
	return e
}

func parseTaint(s string) (corev1.Taint, bool) {
	head, effect, ok := strings.Cut(s, ":")
	k, v, _ := strings.Cut(head, "=")
	return corev1.Taint{Key: k, Value: v, Effect: corev1.TaintEffect(effect)}, ok
}

// nodeStatus is what a kubelet reports. plugin is what its device plugin offers, nil when
// none runs.
func nodeStatus(n guest.Node, was corev1.NodeStatus, plugin map[corev1.ResourceName]int64) corev1.NodeStatus {
	s := corev1.NodeStatus{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(int64(n.CPUs), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(n.Memory/1024*1024, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
		},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: n.InternalIP.String()}, {Type: corev1.NodeHostName, Address: n.Name}},
		NodeInfo: corev1.NodeSystemInfo{
			BootID: n.BootID, KubeletVersion: n.Version, ContainerRuntimeVersion: "containerd://2.1.4-k3s1", OperatingSystem: "linux",
			Architecture: "amd64", OSImage: "Ubuntu 24.04 LTS (simulated)", KernelVersion: "6.8.0-simulated"},
		Conditions: was.Conditions,
	}
	if n.SecondIP.IsValid() {
		s.Addresses = slices.Insert(s.Addresses, 1, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: n.SecondIP.String()})
	}
	if n.ExternalIP.IsValid() {
		s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: n.ExternalIP.String()})
	}
	s.Allocatable = maps.Clone(s.Capacity)
	for name := range was.Capacity {
		if strings.HasPrefix(string(name), "nvidia.com/") { // a kubelet keeps the capacity of a plugin that has ended
			s.Capacity[name], s.Allocatable[name] = was.Capacity[name], resource.Quantity{Format: resource.DecimalSI}
			if plugin != nil { // and forgets what a new one does not register
				s.Capacity[name] = s.Allocatable[name]
			}
		}
	}
	for name, count := range plugin {
		s.Capacity[name] = *resource.NewQuantity(count, resource.DecimalSI)
		s.Allocatable[name] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	if len(s.Conditions) == 0 {
		s.Conditions = []corev1.NodeCondition{readyCondition(corev1.ConditionFalse, "KubeletNotReady",
			"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized")}
	}
	return s
}

func readyCondition(status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(time.Now().UTC().Truncate(time.Second))}
}

func ready(n *corev1.Node) bool {
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}

// nodes updates the nodes' objects to the state of their kubelets.
func (c *machines) nodes() {
	plugins := map[string]*corev1.Pod{}
	for _, e := range c.all("pods") {
		if p := entryAs[corev1.Pod](e); isPlugin(p) && plugins[p.Spec.NodeName] == nil {
			plugins[p.Spec.NodeName] = p
		}
	}
	for _, e := range c.all("nodes") {
		e = c.reconcileTopology(e)
		n := entryAs[corev1.Node](e)
		k := c.kubelets[n.Name]
		if k == nil {
			continue
		}
		status := n.Status
		switch age := time.Since(k.since); {
		case k.alive && age >= c.scale(readyAfter):
			var plugin map[corev1.ResourceName]int64
			if p := plugins[n.Name]; p != nil {
				plugin = c.offerOf(p, k.gpus()).counts()
			}
			if k.reported == e && maps.Equal(k.reportedGPUs, plugin) && (k.reportedGPUs == nil) == (plugin == nil) {
				continue
			}
			k.reportedGPUs = plugin
			status = nodeStatus(k.node, n.Status, plugin)
			status.Conditions = withHeartbeat(turn(n, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"))
			k.reported = c.putStatus(e, &status)
			continue
		case k.alive:
			status = nodeStatus(k.node, n.Status, nil)
			c.wake(k.since.Add(c.scale(readyAfter)))
		case age >= c.scale(unknownAfter):
			status.Conditions = turn(n, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
		default:
			c.wake(k.since.Add(c.scale(unknownAfter)))
			continue
		}
		c.putStatus(e, &status)
	}
}

// withHeartbeat sets when a kubelet has last posted a node's conditions: at its start, and when
// something changes (kubernetes, pkg/kubelet/nodestatus/setters.go). Its reports every five
// minutes have nothing new, and are left out.
func withHeartbeat(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	out := slices.Clone(conditions)
	for i := range out {
		if out[i].Type != corev1.NodeReady {
			continue // somebody else's, such as K3s' EtcdIsVoter
		}
		out[i].LastHeartbeatTime = metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	}
	return out
}

// turn returns a node's conditions with another readiness, and keeps the time of an earlier
// transition.
func turn(n *corev1.Node, status corev1.ConditionStatus, reason, message string) []corev1.NodeCondition {
	out := slices.Clone(n.Status.Conditions)
	for i, cond := range out {
		switch {
		case cond.Type != corev1.NodeReady:
		case cond.Status == status:
			return n.Status.Conditions
		default:
			out[i] = readyCondition(status, reason, message)
			return out
		}
	}
	return append(out, readyCondition(status, reason, message))
}

// isPlugin reports whether a pod is a running device plugin.
func isPlugin(p *corev1.Pod) bool {
	return control.Ready(p) && slices.ContainsFunc(p.Spec.Containers, func(ct corev1.Container) bool {
		return strings.Contains(ct.Image, "k8s-device-plugin") && !slices.Contains(ct.Command, "mps-control-daemon")
	})
}

func (k *kubelet) gpus() []guest.GPU {
	if k.node.GPUs == nil {
		return nil
	}
	return k.node.GPUs()
}
