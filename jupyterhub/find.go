package jupyterhub

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/secret"
)

// FindClient reads from the cluster what a Client of the hub needs: the token of its service, the
// authorities of its certificate, and the address of its name, which need not be in the DNS.
// The Client dials with dial; nil: directly.
func (h Hub) FindClient(ctx context.Context, k *kube.Client,
	dial func(ctx context.Context, network, addr string) (net.Conn, error)) (Client, error) {
	c := Client{URL: h.URL(), Dial: dial}
	if dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	note := h.TokenSecret()
	hidden := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: note.Namespace, Name: note.Name}}
	if err := get(ctx, k, hidden, "the hub does not exist yet: cluster:up creates it"); err != nil {
		return Client{}, err
	}
	c.Token = secret.New(string(hidden.Data[note.Key]))
	if c.Token.IsZero() {
		return Client{}, fmt.Errorf("secret %s/%s has no %s: cluster:up creates it", note.Namespace, note.Name, note.Key)
	}
	roots, err := h.roots(ctx, k)
	if err != nil {
		return Client{}, err
	}
	c.TLS = &tls.Config{RootCAs: roots}
	address, err := h.address(ctx, k)
	if err != nil {
		return Client{}, err
	}
	if address != "" {
		c.Dial = lead(c.Dial, h.Hostname, address)
	}
	return c, nil
}

// lead dials address instead of host.
func lead(dial func(ctx context.Context, network, addr string) (net.Conn, error), host, address string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(addr)
		if err == nil && name == host {
			addr = net.JoinHostPort(address, port)
		}
		return dial(ctx, network, addr)
	}
}

func get(ctx context.Context, k *kube.Client, o runtime.Object, absent string) error {
	err := k.Get(ctx, o)
	if errors.Is(err, kube.ErrNotFound) {
		return fmt.Errorf("%w: %s", err, absent)
	}
	return err
}

// roots returns the system's authorities and those of the hub's bundle; nil, which means the
// system's, if there is no bundle.
func (h Hub) roots(ctx context.Context, k *kube.Client) (*x509.CertPool, error) {
	m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace(), Name: caConfigMap}}
	if err := k.Get(ctx, m); errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without authorities
	}
	pool.AppendCertsFromPEM([]byte(m.Data["ca.crt"]))
	return pool, nil
}

// address is where the hub's name should lead: the address of its Ingress, its Gateway or its
// Service. If it is empty because nothing has one yet, the DNS decides.
func (h Hub) address(ctx context.Context, k *kube.Client) (string, error) {
	switch cmp.Or(h.Ingress.Kind, ByIngress) {
	case ByGateway:
		gateway := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
			"metadata": map[string]any{"namespace": cmp.Or(h.Ingress.GatewayNamespace, h.namespace()), "name": h.Ingress.Gateway},
		}}
		if err := get(ctx, k, gateway, "the route to the hub leads through it"); err != nil {
			return "", err
		}
		all, _, _ := unstructured.NestedSlice(gateway.Object, "status", "addresses")
		for _, one := range all {
			if m, ok := one.(map[string]any); ok && fmt.Sprint(m["value"]) != "" {
				return fmt.Sprint(m["value"]), nil
			}
		}
	case ByLoadBalancer:
		s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace(), Name: "proxy-public"}}
		if err := get(ctx, k, s, "the hub does not exist yet: cluster:up creates it"); err != nil {
			return "", err
		}
		for _, one := range s.Status.LoadBalancer.Ingress {
			return cmp.Or(one.IP, one.Hostname), nil
		}
	default:
		i := &networkingv1.Ingress{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}, ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace(), Name: "jupyterhub"}}
		if err := get(ctx, k, i, "the hub does not exist yet: cluster:up creates it"); err != nil {
			return "", err
		}
		for _, one := range i.Status.LoadBalancer.Ingress {
			return cmp.Or(one.IP, one.Hostname), nil
		}
	}
	return "", nil
}

// UnresolvedText says that a hub's name does not resolve here although the hub answers: users need
// a DNS entry. It is empty if the name resolves.
func UnresolvedText(ctx context.Context, r *net.Resolver, hub string) string {
	u, err := url.Parse(hub)
	if err != nil {
		return ""
	}
	var unknown *net.DNSError
	if _, err := r.LookupHost(ctx, u.Hostname()); !errors.As(err, &unknown) || !unknown.IsNotFound {
		return ""
	}
	return "no DNS entry for " + u.Hostname() + " here: browsers need an entry for it that leads to the cluster"
}
