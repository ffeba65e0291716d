// Package kubeadmnodes is kubeadm's Kubernetes as the [distribution.Distribution] of a cluster.
// What it cannot do yet, it refuses in words, and changes nothing.
package kubeadmnodes

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// Nodes is Kubernetes on the machines of a cluster.
type Nodes struct {
	spec *spec.Spec
	root func(node string) remote.Runner
}

// New returns the Kubernetes of a cluster whose machines root reaches.
func New(s *spec.Spec, root func(node string) remote.Runner) *Nodes { return &Nodes{s, root} }

// Facts returns what it is called.
func (ns *Nodes) Facts() distribution.Facts {
	return distribution.Facts{Title: "Kubernetes", Step: "kubeadm", Server: "kubelet", Agent: "kubelet", Images: "kubeadm config images list", Lacks: map[string]error{
		"k3s:upgrade": errors.New("k3s:upgrade writes k3s.version, and kubeadm's clusters have none: write kubeadm.version, and run homelab cluster:up"),
	}}
}

// Compare compares two releases of Kubernetes.
func (ns *Nodes) Compare(a, b string) int { return kubeadm.CompareVersions(a, b) }

// CheckUpgrade says why a machine cannot go from a version to that of the file.
func (ns *Nodes) CheckUpgrade(from string) error {
	return kubeadm.CheckUpgrade(from, ns.spec.K3s.Version)
}

// Claim marks a machine as this cluster's.
func (ns *Nodes) Claim(ctx context.Context, n spec.Node) error {
	return kubeadm.Claim(ctx, ns.root(n.Name), ns.spec.Name)
}

// Restart restarts kubelet. It registers its Node again if that was deleted: its login outlives it.
func (ns *Nodes) Restart(ctx context.Context, n spec.Node, _ distribution.Admission) error {
	return remote.Run(ctx, ns.root(n.Name), "systemctl", "restart", "kubelet")
}

// Remove removes Kubernetes with all its data, and what was installed for it.
func (ns *Nodes) Remove(ctx context.Context, n spec.Node) error {
	return kubeadm.Remove(ctx, ns.root(n.Name))
}

// meaning adds to an error what it means to a cluster.
func meaning(err error) error {
	if errors.Is(err, kubeadm.ErrNoCluster) {
		return distribution.Means(err, distribution.ErrNoCluster)
	}
	return err
}

// Kubeconfig reads the administrator's.
func (ns *Nodes) Kubeconfig(ctx context.Context, server string) (secret.Value, error) {
	config, err := kubeadm.Kubeconfig(ctx, ns.root(server), distribution.APIURL(ns.spec), ns.spec.Name)
	return config, meaning(err)
}

// failedCheck is a line of /readyz?verbose for a check that fails (k8s.io/apiserver, pkg/server/healthz).
var failedCheck = regexp.MustCompile(`\[-\]([\w/.-]+) failed`)

// Unwell says why the API server does not work.
func (ns *Nodes) Unwell(ctx context.Context, server string) string {
	err := kubeadm.Ready(ctx, ns.root(server))
	var exit *remote.ExitError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &exit):
		return "cannot ask its API server: " + printable.FirstLine(err.Error())
	}
	var failed []string
	for _, m := range failedCheck.FindAllStringSubmatch(exit.Stderr, -1) {
		failed = append(failed, m[1])
	}
	if failed == nil {
		return "its API server is not ready: " + printable.FirstLine(strings.TrimSpace(exit.Stderr))
	}
	return "its API server is not ready: " + strings.Join(failed, ", ") + " failed"
}

// clusterOf is what the machines agree on.
func (ns *Nodes) clusterOf() kubeadm.Cluster {
	k := ns.spec.K3s
	var vip *kubeadm.VIP
	if k.VIP.IsValid() {
		vip = &kubeadm.VIP{Interface: k.VIPInterface}
	}
	return kubeadm.Cluster{
		VIP: vip, Name: ns.spec.Name, Version: k.Version, Endpoint: netip.AddrPortFrom(ns.spec.APIAddress(), 6443), SANs: k.TLSSANs,
		Pods: k.PodCIDR, Services: k.ServiceCIDR, Domain: k.ClusterDomain, Proxy: !k.Cilium(),
	}
}

func (ns *Nodes) nodeOf(n spec.Node, w distribution.Wish) kubeadm.Node {
	node := kubeadm.Node{Name: n.Name, ProviderID: w.ProviderID, Labels: w.Labels, Runtime: kubeadm.Runtime(ns.spec.Kubeadm.Runtime)}
	if !n.DHCP() {
		node.Address = n.Address.Addr()
	}
	for _, t := range n.Taints {
		node.Taints = append(node.Taints, kubeadm.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return node
}
