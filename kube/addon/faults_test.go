package addon_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/faults"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// faulty is a client of its own that knows nothing yet, whose requests fail as f says.
func (s *site) faulty(t *testing.T, f *faults.Faults) *kube.Client {
	t.Helper()
	no := faults.Answer{Status: http.StatusForbidden, Type: "application/json",
		Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"` + faults.ErrInjected.Error() + `"}`}
	k, err := kube.New(kube.Config{Kubeconfig: s.sim.Kubeconfig("https://10.0.0.10:6443"),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.sim.Dial(ctx) },
		Wrap: func(next http.RoundTripper) http.RoundTripper { return f.RoundTripper(next, no) }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// left says what of a probe is still there, "" for nothing.
func (s *site) left() string {
	all := append(s.sim.Names("persistentvolumes"), s.sim.Names("persistentvolumeclaims")...)
	for _, name := range s.sim.Names("pods") {
		if strings.HasSuffix(name, "-write") || strings.HasSuffix(name, "-read") {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// TestEveryRequestOfAProbeFails: whatever request fails, in whatever way, a probe that says
// that it has passed has, and left nothing; one that failed says what came back, leaves no
// note that it passed, and passes when it is run again.
func TestEveryRequestOfAProbeFails(t *testing.T) {
	faults.Each(t, []faults.Kind{faults.Lost, faults.Unheard, faults.Refused}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
		withSite(t, func(t *testing.T, s *site) {
			s.provide(t, nfsClass(t))
			p, k := must(t, addon.NFS{NFS: nfs()}, addon.Site{Nodes: []spec.Node{{Name: "a"}, {Name: "b"}, {Name: "gpu"}}}).Probes[0], s.faulty(t, f)
			passed := func() bool {
				state, err := p.Observe(t.Context(), s.Client)
				require.NoError(t, err)
				return state.Passed
			}
			use(t, faults.Case{
				Do:      func() error { return p.Run(t.Context(), k) },
				Patient: true, // what passes is waited for
				Done: func() string {
					if !passed() {
						return "there is no note of it"
					}
					return s.left()
				},
				Failed: func(error) string {
					if passed() && len(s.ran) < 2 {
						return "it is noted as passed, and was not tried"
					}
					return ""
				},
			})
		})
	})
}

// TestEveryRequestOfALookFails: what a look is refused it says; it never takes a class for
// one that has passed, or an authority for one that is not there.
func TestEveryRequestOfALookFails(t *testing.T) {
	kinds := []faults.Kind{faults.Lost, faults.Refused, faults.CutShort}
	for name, look := range map[string]func(ctx context.Context, k *kube.Client) error{
		"a class": func(ctx context.Context, k *kube.Client) error {
			state, err := addon.Probe{Class: "local-path", Local: true, Nodes: []string{"a"}}.Observe(ctx, k)
			if err == nil {
				require.True(t, state.Found)
			}
			return err
		},
		"an authority": func(ctx context.Context, k *kube.Client) error {
			cert, err := addon.IssuerCA(ctx, k, "lab")
			if err == nil {
				require.Equal(t, "the certificate", string(cert))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			faults.Each(t, kinds, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				withSite(t, func(t *testing.T, s *site) {
					_, err := s.Apply(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cert-manager"}},
						&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cert-manager", Name: "lab-ca"}, Data: map[string][]byte{corev1.TLSCertKey: []byte("the certificate")}})
					require.NoError(t, err)
					time.Sleep(10 * time.Second)
					k := s.faulty(t, f)
					use(t, faults.Case{Do: func() error { return look(t.Context(), k) }, Patient: true})
				})
			})
		})
	}
}
