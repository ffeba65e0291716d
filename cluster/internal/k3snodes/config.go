package k3snodes

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube/addon"
)

// nodeOf is the part that servers and agents have in common. It includes labels and taints,
// so that a node has them when it registers. A node that gets them later is Ready without
// them for a while, and pods land there that must not. After that, nodeStep keeps them as in
// the file.
func (ns *Nodes) nodeOf(n spec.Node, w distribution.Wish, extra map[string]any) (k3s.Node, error) {
	s := ns.spec
	node := k3s.Node{Name: n.Name, ProviderID: w.ProviderID, Labels: w.Labels, EmbeddedRegistry: s.K3s.EmbeddedRegistry, Extra: extra}
	for _, t := range n.Taints {
		node.Taints = append(node.Taints, t.String())
	}
	var err error
	if node.Registries, err = artifacts.Registries(s); err != nil {
		return node, err
	}
	if !n.DHCP() {
		node.IPs = append(node.IPs, n.Address.Addr())
	}
	if pods := s.K3s.PodCIDR; len(pods) == 2 {
		node.IPs = append(node.IPs, n.Address6.Addr())
		if pods[0].Addr().Is6() { // the family that Kubernetes prefers comes first
			slices.Reverse(node.IPs)
		}
	}
	if i := slices.IndexFunc(n.Networks, func(c spec.Card) bool { return c.Name == s.K3s.Network }); i >= 0 {
		node.ExternalIPs, node.IPs, node.Interface = node.IPs, []netip.Addr{n.Networks[i].Address.Addr()}, s.K3s.Network
	}
	return node, nil
}

// Server is the wanted state of a server, without the token to join with. The first server creates the cluster unless it
// joins an existing one; the others always join.
func (ns *Nodes) Server(n spec.Node, w distribution.Wish) (k3s.Server, error) {
	s := ns.spec
	extra := map[string]any{}
	for _, more := range []map[string]any{s.K3s.AgentConfig, s.K3s.ServerConfig} {
		for k, v := range more {
			extra[k] = v
		}
	}
	authority, err := addLogin(extra, s)
	if err != nil {
		return k3s.Server{}, err
	}
	node, err := ns.nodeOf(n, w, extra)
	if err != nil {
		return k3s.Server{}, err
	}
	srv := k3s.Server{
		Node: node, Version: s.K3s.Version, Files: authority,
		TLSSANs:     append([]string(nil), s.K3s.TLSSANs...),
		ClusterCIDR: s.K3s.PodCIDR, ServiceCIDR: s.K3s.ServiceCIDR, ClusterDomain: s.K3s.ClusterDomain,
		FlannelBackend: s.K3s.FlannelBackend, Disable: s.K3s.Disable,
		SecretsEncryption: s.K3s.SecretsEncryption.IsOn(),
		SnapshotSchedule:  s.K3s.Snapshots.Schedule, SnapshotRetention: s.K3s.Snapshots.Retention,
	}
	_, said := extra["flannel-ipv6-masq"]
	srv.FlannelIPv6Masq = !said && slices.ContainsFunc(s.K3s.PodCIDR, func(p netip.Prefix) bool { return p.Addr().Is6() }) && s.K3s.FlannelBackend != "none"
	if srv.S3, err = bucket(s); err != nil {
		return srv, err
	}
	if s.K3s.VIP.IsValid() {
		srv.TLSSANs = append([]string{s.K3s.VIP.String()}, srv.TLSSANs...)
	}
	if w.Joins {
		srv.URL = distribution.APIURL(s)
		return srv, nil
	}
	if s.K3s.VIP.IsValid() {
		manifest, err := k3s.KubeVIP(k3s.VIP{Address: s.K3s.VIP, Interface: s.K3s.VIPInterface})
		if err != nil {
			return srv, err
		}
		srv.Manifests = map[string][]byte{k3s.KubeVIPManifest: manifest}
	}
	return srv, nil
}

// addLogin lets the API server take the login's tokens, if the file gives groups roles. It returns the authority of the
// issuer's certificate as a file, if no public one signed it.
func addLogin(extra map[string]any, s *spec.Spec) (map[string][]byte, error) {
	args := s.Platform.LoginArgs()
	if args == nil {
		return nil, nil
	}
	ca, err := addon.LoginAuthority(&s.Platform)
	if err != nil {
		return nil, err
	}
	var files map[string][]byte
	if len(ca) > 0 { // the API server reads it at its start only: another authority has another name
		name := fmt.Sprintf("/etc/rancher/k3s/login.d/%x.pem", sha256.Sum256(ca))
		files, args = map[string][]byte{name: ca}, append(args, "oidc-ca-file="+name)
	}
	addArgs(extra, "kube-apiserver-arg", args)
	return files, nil
}

// addArgs adds to a list of arguments of the file, without changing that.
func addArgs(extra map[string]any, key string, more []any) {
	if plus := key + "+"; extra[plus] != nil {
		key = plus
	}
	var all []any
	switch have := extra[key].(type) {
	case nil:
	case []any:
		all = append(all, have...)
	default:
		all = append(all, have)
	}
	extra[key] = append(all, more...)
}

// bucket is where K3s copies snapshots to, with its keys; nil if the file has none.
func bucket(s *spec.Spec) (*k3s.S3, error) {
	b := s.K3s.Snapshots.S3
	if b == nil {
		return nil, nil
	}
	access, err := b.AccessKey.Resolve()
	if err != nil {
		return nil, fmt.Errorf("k3s.snapshots.s3.accessKey: %w", err)
	}
	key, err := b.SecretKey.Resolve()
	if err != nil {
		return nil, fmt.Errorf("k3s.snapshots.s3.secretKey: %w", err)
	}
	return &k3s.S3{Endpoint: b.Endpoint, Region: b.Region, Bucket: b.Bucket, Folder: b.Folder, Insecure: b.Insecure, AccessKey: access, SecretKey: key}, nil
}

// Agent is the wanted state of an agent.
func (ns *Nodes) Agent(n spec.Node, w distribution.Wish) (k3s.Agent, error) {
	node, err := ns.nodeOf(n, w, ns.spec.K3s.AgentConfig)
	return k3s.Agent{Node: node, Version: ns.spec.K3s.Version, URL: distribution.APIURL(ns.spec)}, err
}
