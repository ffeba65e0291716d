package kubeadm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// upgradeTime is how long the API is away while its containers are replaced.
const upgradeTime = 10 * time.Second

// upgrade is kubeadm upgrade apply on the first server, and kubeadm upgrade node on an agent.
func upgrade(ctx context.Context, p *machine.Proc, opts map[string][]string, args []string) int {
	n := stateOf(p.Sys).running.Load()
	if n == nil {
		return fails(p, 1, "couldn't create a Kubernetes client from file %q: failed to load admin kubeconfig, or connection refused", etc+"/admin.conf")
	}
	switch {
	case args[0] == "apply" && n.server && len(args) == 2:
		return n.apply(ctx, p, args[1], getopt.Has(opts, "y", "yes"))
	case args[0] == "node" && n.server:
		return n.follow(ctx, p)
	case args[0] == "node":
		if minor(ownVersion(p)) > minor(n.cluster.release()) {
			return fails(p, 1, "the control plane is of %s, and this kubeadm of %s: the servers are upgraded first", n.cluster.release(), ownVersion(p))
		}
		if p.Wait(ctx, time.Second) != nil {
			return 1
		}
		p.Sys.RecordChange("kubeadm upgrade node")
		return 0
	}
	return fails(p, 1, "kubeadm upgrade %s is not simulated on this machine", strings.Join(args, " "))
}

// apply upgrades the control plane, by kubeadm's rules of versions (phases/upgrade/policy.go).
func (n *node) apply(ctx context.Context, p *machine.Proc, to string, agreed bool) int {
	have, own := n.cluster.release(), ownVersion(p)
	const invalid = "error execution phase preflight: the version argument is invalid due to these "
	switch {
	case minor(to) > minor(have)+1:
		return fails(p, 1, invalid+"fatal errors:\n\n\t- Specified version to upgrade to %q is too high; kubeadm can upgrade only 1 minor version at a time", to)
	case minor(to) < minor(have)-1:
		return fails(p, 1, invalid+"fatal errors:\n\n\t- Specified version to downgrade to %q is too low; kubeadm can downgrade only 1 minor version at a time", to)
	case minor(to) > minor(own):
		return fails(p, 1, invalid+"fatal errors:\n\n\t- Specified version to upgrade to %q is at least one minor release higher than the kubeadm minor release (%d > %d). Such an upgrade is not supported", to, minor(to), minor(own))
	case to != own && minor(to) == minor(own):
		return fails(p, 1, invalid+"errors:\n\n\t- Specified version to upgrade to %q is higher than the kubeadm version %q. Upgrade kubeadm first using the tool you used to install kubeadm", to, own)
	case !agreed:
		return fails(p, 1, "won't proceed; the user didn't answer (Y|y) in order to continue")
	}
	p.Sys.RecordChange("kubeadm upgrade apply " + to)
	if !n.replace(ctx, p, to) {
		return 1
	}
	n.cluster.mu.Lock()
	n.cluster.version = to
	n.cluster.mu.Unlock()
	p.Printf("[upgrade] SUCCESS! A control plane node of your cluster was upgraded to %q.\n", to)
	return 0
}

// follow brings a further server to what the cluster has (cmd/phases/upgrade/node/controlplane.go).
func (n *node) follow(ctx context.Context, p *machine.Proc) int {
	p.Sys.RecordChange("kubeadm upgrade node")
	if !n.replace(ctx, p, n.cluster.release()) {
		return 1
	}
	p.Printf("[upgrade/control-plane] The control plane instance for this node was successfully upgraded!\n")
	return 0
}

// replace replaces the containers of a server, and renews their certificates.
func (n *node) replace(ctx context.Context, p *machine.Proc, version string) bool {
	defer n.stopAPI()()
	if p.Wait(ctx, upgradeTime) != nil {
		return false
	}
	saveManifests(p, version)
	saveCertificates(p)
	return true
}

// stopAPI takes a server's API away until back is called.
func (n *node) stopAPI() (back func()) {
	all := network.StateOf[servers](n.sys.Config.Network)
	at := n.sys.Answers()
	all.set(at, nil)
	return func() {
		if stateOf(n.sys).running.Load() == n {
			all.set(at, n)
		}
	}
}

// release is that of the control plane.
func (c *cluster) release() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// saveManifests writes those of a server, without some.
func saveManifests(p *machine.Proc, version string, but ...string) {
	for _, name := range components() {
		if slices.Contains(but, name) {
			continue
		}
		image := "registry.k8s.io/" + name + ":" + version
		if name == "etcd" {
			image = etcdImage
		}
		p.Sys.Root().Save(manifests+"/"+name+".yaml", fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: kube-system}\nspec: {containers: [{name: %[1]s, image: %q}]}\n", name, image), 0o600)
	}
}

// saveCertificates makes those of a server that are not the authorities' (phases/certs/certlist.go).
func saveCertificates(p *machine.Proc) {
	_, key, _ := ed25519.GenerateKey(rand.Reader) // never fails, see crypto/rand
	for file, subject := range map[string]string{
		"apiserver": "kube-apiserver", "apiserver-kubelet-client": "kube-apiserver-kubelet-client", "apiserver-etcd-client": "kube-apiserver-etcd-client",
		"front-proxy-client": "front-proxy-client", "etcd/server": p.Sys.Hostname(), "etcd/peer": p.Sys.Hostname(), "etcd/healthcheck-client": "kube-etcd-healthcheck-client",
	} {
		p.Sys.Root().Save(etc+"/pki/"+file+".crt", k3s.Certificate(subject, "kubernetes", key), 0o644)
	}
}

// renew is kubeadm certs renew all.
func renew(p *machine.Proc) int {
	if _, err := p.FS.Stat(etc + "/admin.conf"); err != nil {
		return fails(p, 1, "failed to load admin kubeconfig: open %s/admin.conf: no such file or directory", etc)
	}
	saveCertificates(p)
	p.Sys.RecordChange("kubeadm certs renewed")
	p.Printf("Done renewing certificates. You must restart the kube-apiserver, kube-controller-manager, kube-scheduler and etcd, so that they can use the new certificates.\n")
	return 0
}
