package jupyterhub

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/internal/faults"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// TestEveryRequestOfFindFails: what cannot be read of a hub is not a hub without it. One
// whose authorities could not be read would be trusted by the system's instead.
func TestEveryRequestOfFindFails(t *testing.T) {
	no := faults.Answer{Status: http.StatusForbidden, Type: "application/json",
		Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"` + faults.ErrInjected.Error() + `"}`}
	for name, kind := range map[string]Ingress{"ingress": hubs()["oidc"].Ingress, "load balancer": {Kind: ByLoadBalancer}} {
		t.Run(name, func(t *testing.T) {
			h := hubs()["oidc"]
			h.Ingress = kind
			faults.Each(t, []faults.Kind{faults.Lost, faults.Refused, faults.CutShort}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				synctest.Test(t, func(t *testing.T) {
					sim, err := kubesim.New(t.Context(), guest.PlaneConfig{Version: "v1.36.5+k3s1", TLSSANs: []string{"10.0.0.10"}}, 1)
					require.NoError(t, err)
					defer sim.Close()
					k, err := kube.New(kube.Config{Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
						Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) },
						Wrap: func(next http.RoundTripper) http.RoundTripper { return f.RoundTripper(next, no) }})
					require.NoError(t, err)
					defer k.Close()
					hub(t, k, h)
					var c Client
					use(t, faults.Case{
						Do: func() (err error) { c, err = h.FindClient(t.Context(), k, nil); return err },
						Done: func() string {
							if c.Token.Reveal() != "t0ken" || c.TLS == nil || c.TLS.RootCAs == nil {
								return "the token or the authorities"
							}
							return ""
						},
						Patient: true,
					})
				})
			})
		})
	}
}

// hub makes what Find reads.
func hub(t *testing.T, k *kube.Client, h Hub) {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "jupyterhub", Name: name} }
	_, err := k.Apply(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "jupyterhub"}},
		&corev1.Secret{ObjectMeta: meta(secretName), Data: map[string][]byte{keyToken: []byte("t0ken")}},
		&corev1.ConfigMap{ObjectMeta: meta(caConfigMap), Data: map[string]string{"ca.crt": authority}},
		&corev1.Service{ObjectMeta: meta("proxy-public"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}},
		&networkingv1.Ingress{ObjectMeta: meta("jupyterhub"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: h.Hostname}}}},
	)
	require.NoError(t, err)
}

// TestEveryRequestOfDiscoverFails: half an answer of an issuer, or none, are no endpoints.
func TestEveryRequestOfDiscoverFails(t *testing.T) {
	var issuer string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{
			"issuer": issuer, "authorization_endpoint": issuer + "/a", "token_endpoint": issuer + "/t", "userinfo_endpoint": issuer + "/u"})
	}))
	defer server.Close()
	issuer = server.URL
	kinds := []faults.Kind{faults.Lost, faults.Refused, faults.CutShort}
	faults.Each(t, kinds, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
		client := &http.Client{}
		client.Transport = f.RoundTripper(server.Client().Transport, faults.Answer{Status: http.StatusForbidden, Body: faults.ErrInjected.Error()})
		var have Endpoints
		use(t, faults.Case{
			Do: func() (err error) { have, err = Discover(t.Context(), client, issuer); return err },
			Done: func() string {
				if have != (Endpoints{issuer + "/a", issuer + "/t", issuer + "/u"}) {
					return "endpoints"
				}
				return ""
			},
			Told: func(err error) bool { // of a page that refuses, its status says enough
				return errors.Is(err, faults.ErrInjected) || strings.Contains(err.Error(), http.StatusText(http.StatusForbidden))
			},
		})
	})
}
