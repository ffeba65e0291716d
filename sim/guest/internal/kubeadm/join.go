package kubeadm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// certsTime is how long the Secret with the certificates stays (constants.DefaultCertTokenDuration).
const certsTime = 2 * time.Hour

// uploadCerts is kubeadm init phase upload-certs.
func (d *documents) uploadCerts(ctx context.Context, p *machine.Proc, opts map[string][]string) int {
	if !getopt.Has(opts, "upload-certs") {
		p.Printf("[upload-certs] Skipping phase. Please see --upload-certs\n")
		return 0
	}
	if minor(d.cluster.Version) < minor(ownVersion(p))-1 {
		return fails(p, 1, "this version of kubeadm only supports deploying clusters with the control plane version >= 1.%d.0. Current version: %s", minor(ownVersion(p))-1, d.cluster.Version)
	}
	c, err := administer(ctx, p, etc+"/admin.conf")
	if err != nil {
		return fails(p, 1, "error execution phase upload-certs: %v", err)
	}
	if _, err := p.FS.Stat(etc + "/pki/ca.key"); err != nil {
		return fails(p, 1, "error execution phase upload-certs: error uploading certs: open %s/pki/ca.key: no such file or directory", etc)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.certs = sharedCerts{d.init.CertificateKey, time.Now().Add(certsTime)}
	if c.certs.key == "" {
		c.certs.key = machine.HexID(32)
	}
	p.Sys.RecordChange("kubeadm certs uploaded")
	if !getopt.Has(opts, "skip-certificate-key-print") {
		p.Printf("[upload-certs] Using certificate key:\n%s\n", c.certs.key)
	}
	return 0
}

// discover finds the cluster that a token is for.
func (d *documents) discover(ctx context.Context, p *machine.Proc) (*cluster, error) {
	const unsure = "error execution phase preflight: couldn't validate the identity of the API Server: "
	t := d.joining.Discovery.Token
	c, err := reach(ctx, p.Sys, t.Endpoint)
	if err != nil { // it tries for five minutes (constants.DiscoveryTimeout)
		return nil, fmt.Errorf(unsure+"failed to request the cluster-info ConfigMap: Get \"https://%s/api/v1/namespaces/kube-public/configmaps/cluster-info\": %w", t.Endpoint, err)
	}
	if !slices.Contains(t.Hashes, keyDigest(c.ca)) {
		return nil, fmt.Errorf(unsure+"cluster CA found in cluster-info ConfigMap is invalid: none of the public keys %q are pinned", keyDigest(c.ca))
	}
	id, secret, _ := strings.Cut(t.Token, ".")
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, there := c.tokens[id]; !there || known.over() || known.secret != secret {
		return nil, fmt.Errorf(unsure+"could not find a JWS signature in the cluster-info ConfigMap for token ID %q", id)
	}
	return c, nil
}

// join is kubeadm join after its checks. starts is false without the phase kubelet-start.
func (d *documents) join(ctx context.Context, p *machine.Proc, starts bool) int {
	c, err := d.discover(ctx, p)
	if err != nil {
		return fails(p, 1, "%v", err)
	}
	v := p.Sys.Root()
	p.Sys.RecordChange("kubeadm join")
	if d.isServer() {
		if err := d.prepareServer(p, c); err != nil {
			return fails(p, 1, "error execution phase control-plane-prepare/%v", err)
		}
	}
	if starts {
		if err := c.nameIsFree(ctx, d.registration().Name); err != nil {
			return fails(p, 1, "error execution phase kubelet-start: %v", err)
		}
		v.Save(etc+"/bootstrap-kubelet.conf", "server: https://"+d.joining.Discovery.Token.Endpoint+"\n", 0o600)
		v.Save(etc+"/pki/ca.crt", string(c.ca), 0o644)
	}
	if p.Wait(ctx, time.Second) != nil {
		return 1
	}
	code := 0
	switch {
	case d.isServer():
		code = d.joinEtcd(ctx, p, c, starts)
	case starts:
		v.Save(etc+"/kubelet.conf", "apiVersion: v1\nclusters:\n- cluster:\n    server: https://"+d.joining.Discovery.Token.Endpoint+"\n", 0o600)
		code = d.startKubelet(ctx, p)
	}
	if code != 0 {
		return code
	}
	_ = v.Remove(etc + "/bootstrap-kubelet.conf")
	p.Printf("This node has joined the cluster:\n")
	return 0
}

// nameIsFree is a check before kubelet starts.
func (c *cluster) nameIsFree(ctx context.Context, name string) error {
	code, body, err := k3s.Get(ctx, c.plane, "/api/v1/nodes/"+name)
	if err != nil || code != http.StatusOK {
		return err
	}
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if err := json.Unmarshal(body, &node); err != nil {
		return err
	}
	for _, is := range node.Status.Conditions {
		if is.Type == "Ready" && is.Status == "True" {
			return fmt.Errorf("a Node with name %q and status \"Ready\" already exists in the cluster. You must delete the existing Node or change the name of this new joining Node", name)
		}
	}
	return nil
}

// prepareServer downloads the certificates, and writes what a server has but etcd.
func (d *documents) prepareServer(p *machine.Proc, c *cluster) error {
	c.mu.Lock()
	certs := c.certs
	c.mu.Unlock()
	switch {
	case d.certificateKey() == "":
		return fmt.Errorf("certs: failure loading certificate for CA: couldn't load the certificate file %s/pki/ca.crt", etc)
	case certs.key == "" || !time.Now().Before(certs.expires):
		return fmt.Errorf("download-certs: error downloading certs: error downloading the secret: Secret \"kubeadm-certs\" was not found in the \"kube-system\" Namespace. This Secret might have expired. Please, run `kubeadm init phase upload-certs --upload-certs` on a control plane to generate a new one")
	case certs.key != d.certificateKey():
		return fmt.Errorf("download-certs: error downloading certs: error decoding secret data with provided key: cipher: message authentication failed")
	}
	v := p.Sys.Root()
	saveAuthorities(v, c)
	for _, name := range []string{"admin", "controller-manager", "scheduler"} {
		v.Save(etc+"/"+name+".conf", string(c.plane.Kubeconfig("https://"+d.joining.Discovery.Token.Endpoint)), 0o600)
	}
	saveCertificates(p)
	saveManifests(p, c.release(), "etcd")
	return nil
}

// joinEtcd announces a member, starts it, makes it a voter, and waits for kubelet's login and the control plane.
func (d *documents) joinEtcd(ctx context.Context, p *machine.Proc, c *cluster, starts bool) int {
	v := p.Sys.Root()
	if !c.quorate() {
		return fails(p, 1, "error execution phase check-etcd: etcd cluster is not healthy")
	}
	if starts {
		d.configureKubelet(p)
		if err := systemd.Start(ctx, p.Sys, "kubelet.service", false); err != nil {
			return fails(p, 1, "error execution phase kubelet-start: %v", err)
		}
	}
	own, err := netip.ParseAddr(d.joining.ControlPlane.Local.Address)
	if err != nil {
		own = p.Sys.Address()
	}
	id, err := c.announce(own)
	if err != nil {
		return fails(p, 1, "error execution phase etcd-join: error creating local etcd static pod manifest file: %v", err)
	}
	if c.hasRun(id) && memberOn(p.Sys) != id {
		// etcd takes the identifier of the member that has the address, and panics, since the leader knows that it had more:
		// tocommit is out of range (etcd's raft, log.go).
		return fails(p, 1, "error execution phase etcd-join: error creating local etcd static pod manifest file: timeout waiting for etcd cluster to be available")
	}
	p.Sys.RecordChange("etcd member announced")
	if p.Wait(ctx, time.Second) != nil {
		return 1
	}
	saveManifests(p, c.release())
	v.Save(etcdMember, "cluster: "+c.id+"\nmember: "+id+"\n", 0o600)
	promoted := func() bool { return c.promote(id) == nil }
	if !waitFor(ctx, p, promoted) {
		return fails(p, 1, "error execution phase etcd-join: error creating local etcd static pod manifest file: %v", c.promote(id))
	}
	joined := func() bool { return stateOf(p.Sys).running.Load() != nil }
	if !waitFor(ctx, p, joined) {
		return fails(p, 1, "error execution phase kubelet-wait-bootstrap: failed while waiting for TLS bootstrap: context deadline exceeded")
	}
	return 0
}

// waitFor waits for something, for two minutes at most.
func waitFor(ctx context.Context, p *machine.Proc, is func() bool) bool {
	for range 60 {
		if is() {
			return true
		}
		if p.Wait(ctx, 2*time.Second) != nil {
			return false
		}
	}
	return false
}
