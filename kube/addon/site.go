package addon

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/secret"
)

// Site has what parts ask of the cluster beside their own section.
type Site struct {
	Nodes   []spec.Node
	Proxmox spec.Proxmox // that has the VMs

	Charts       spec.Charts // versions and values of single charts
	DefaultClass string      // of storage
	Balancer     *spec.LoadBalancer
	Ingress      spec.Ingress
	NoTraefik    bool      // K3s brings none
	TLS          *spec.TLS // nil: plain HTTP
	DNS          *spec.DNS // nil: the file has no zones
	Hosts        []string  // names of the parts with web pages
	HubNamespace string    // empty: there is no hub
	GPUMetrics   bool      // Prometheus reads them

	Offered map[string]int // what the nodes offer of GPUs, by resource

	// Discover asks the provider of the login for its addresses.
	Discover func(context.Context) (spec.Issuer, error)

	// Unread says that secrets are not read: stand-ins take their place.
	Unread bool

	// Made are the parts that were made before: a part may need them.
	Made []Recipe
}

// Has reports whether a part was made before.
func (s *Site) Has(name string) bool {
	return slices.ContainsFunc(s.Made, func(p Recipe) bool { return p.Name == name })
}

// Provider returns the part that provides a storage class; empty: K3s does.
func (s *Site) Provider(class string) string {
	for _, p := range s.Made {
		if slices.Contains(p.Classes, class) {
			return p.Name
		}
	}
	return ""
}

// Taints returns the taints of all nodes: everything that is deployed tolerates them (failure N5).
func (s *Site) Taints() []corev1.Taint { return Taints(s.Nodes) }

// Taints returns the taints of nodes, each once.
func Taints(nodes []spec.Node) []corev1.Taint {
	var out []corev1.Taint
	for _, n := range nodes {
		for _, t := range TaintsOf(n) {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// TaintsOf returns the taints of a node.
func TaintsOf(n spec.Node) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range n.Taints {
		out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}

// replicas is 1 if a second replica would have no other node to run on, else n.
func (s *Site) replicas(n int) int { return max(1, min(n, len(s.Nodes))) }

// issued reports whether an issuer of the cluster signs certificates.
func (s *Site) issued() bool { return s.TLS != nil && s.TLS.Source != spec.TLSSecret }

// scheme is that of the addresses of web pages.
func (s *Site) scheme() string {
	if s.TLS != nil {
		return "https://"
	}
	return "http://"
}

// gateway returns the one Gateway that routes attach to; nil: there is none.
func (s *Site) gateway() *gateway {
	if s.Ingress.Kind != spec.IngressGateway {
		return nil
	}
	g := &gateway{Ingress: s.Ingress, hosts: s.Hosts, secure: s.TLS != nil}
	if lb := s.Balancer; lb != nil {
		g.notes = AddressAnnotations(lb.Kind, lb.Reserved["ingress"])
	}
	if s.issued() {
		g.issuer = s.TLS.Issuer
	}
	return g
}

// Secret reads a secret that the file refers to at a key; or its stand-in.
func (s *Site) Secret(at string, ref spec.SecretRef) (secret.Value, error) {
	if ref.IsZero() {
		return secret.Value{}, nil
	}
	if s.Unread {
		return secret.New("to be read when it is needed"), nil
	}
	value, err := ref.Resolve()
	if err != nil {
		return secret.Value{}, fmt.Errorf("%s: %w", at, err)
	}
	return value, nil
}

// File reads a file that the spec names at a key; nothing if it names none.
func File(at, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	b, err := limit.File(path, limit.Named)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return b, nil
}
