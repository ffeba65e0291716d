package operators_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
)

// TestCiliumGateway: pages come in by Cilium's Gateway, with their certificate, at the address that is reserved for it.
// Traefik's Ingresses keep another one.
func TestCiliumGateway(t *testing.T) {
	s := newSite(t, "servicelb")
	in := spec.Ingress{Kind: spec.IngressGateway, By: spec.GatewayCilium, Class: "cilium"}
	lb := &spec.LoadBalancer{Kind: spec.LBCilium, Reserved: map[string]netip.Addr{"ingress": netip.MustParseAddr("10.0.0.120")},
		Addresses: []spec.AddressPool{{From: netip.MustParseAddr("10.0.0.120"), To: netip.MustParseAddr("10.0.0.139")}}}
	site := &addon.Site{Ingress: in, Balancer: lb, Hosts: []string{"page.lab.example"}}
	network := addon.Cilium{Kubernetes: spec.Kubernetes{CNI: "cilium", PodCIDR: spec.Ranges{netip.MustParsePrefix("10.42.0.0/16")}}}
	for _, part := range []addon.Part{addon.GatewayAPI{Ingress: in}, network, addon.CiliumPool{LoadBalancer: lb}, addon.Ingress{Ingress: in, Pages: true}} {
		p, err := part.Make(site)
		require.NoError(t, err)
		s.install(t, p.Part, nil)
		site.Made = append(site.Made, p)
	}
	roots := s.page(t, "page.lab.example")

	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(addr)
		conn, ok := s.factory.Reach("10.0.0.120:" + port)
		if !ok {
			return nil, errors.New("no load balancer gave 10.0.0.120 to anybody")
		}
		return conn, nil
	}}
	eventually(t, 30*time.Second, "the page opens by the Gateway", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://page.lab.example/", nil)
		if err != nil {
			return err
		}
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", res.Status)
		}
		return nil
	})
	eventually(t, 30*time.Second, "platform:verify finds the Gateway whole", func(ctx context.Context) error {
		made := site.Made[len(site.Made)-1]
		said, err := made.Verify[0].Try(ctx, verify.Cluster{Kube: s.kube})
		if err == nil {
			assert.Equal(t, "2 listeners at 10.0.0.120", said)
		}
		return err
	})
	eventually(t, 30*time.Second, "Traefik has another address", func(ctx context.Context) error {
		front, err := s.core.CoreV1().Services("kube-system").Get(ctx, "traefik", metav1.GetOptions{})
		if err != nil || len(front.Status.LoadBalancer.Ingress) == 0 {
			return errors.Join(err, errors.New("it has none"))
		}
		assert.NotEqual(t, "10.0.0.120", front.Status.LoadBalancer.Ingress[0].IP)
		return nil
	})
}

// page is a page of a name with a route and a certificate of an authority, which is returned.
func (s *site) page(t *testing.T, host string) *x509.CertPool {
	t.Helper()
	caCert, caKey, err := pki.NewCA("lab")
	require.NoError(t, err)
	ca, err := pki.Parse(caCert, caKey)
	require.NoError(t, err)
	certificate, key, err := pki.Make(pki.Leaf(host, host), nil, ca)
	require.NoError(t, err)
	authority := x509.NewCertPool()
	authority.AddCert(ca.Cert)
	labels := map[string]string{"app.kubernetes.io/name": "page"}
	own := metav1.ObjectMeta{Name: "page", Namespace: "default"}
	s.install(t, chart.Part{Name: "page", Secrets: []chart.Secret{{Namespace: "kube-system", Name: "page-lab-example-tls", Type: string(corev1.SecretTypeTLS),
		Data: map[string]secret.Value{"tls.crt": secret.New(string(certificate)), "tls.key": secret.New(string(key))}}}, Before: []runtime.Object{
		&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: own, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "page", Image: "page"}}}}}},
		&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: own, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}},
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": map[string]any{"name": "page", "namespace": "default"},
			"spec": map[string]any{"hostnames": []any{host}, "parentRefs": []any{map[string]any{"name": "homelab-cilium", "namespace": "kube-system"}},
				"rules": []any{map[string]any{"backendRefs": []any{map[string]any{"name": "page", "port": int64(80)}}}}}}},
	}}, nil)
	return authority
}
