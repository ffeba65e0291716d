// Package kubetest is for tests: a simulated Kubernetes API on which the nth request is
// refused.
package kubetest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// Refusal is the message of a refused request.
const Refusal = "refused by the test"

// FailNth is a transport to Kubernetes that refuses the request of one number.
type FailNth struct {
	Next http.RoundTripper
	mu   sync.Mutex
	On   bool
	At   int // from 1; 0 for none
	Seen []string
	// Answer returns the refusal, nil for that of Kubernetes.
	Answer func(*http.Request) *http.Response
}

// RoundTrip sends a request on, or refuses it.
func (w *FailNth) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	bad := false
	if w.On {
		w.Seen = append(w.Seen, r.Method+" "+r.URL.Path)
		bad = len(w.Seen) == w.At
	}
	w.mu.Unlock()
	if !bad {
		return w.Next.RoundTrip(r)
	}
	if w.Answer != nil {
		return w.Answer(r), nil
	}
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"` + Refusal + `"}`
	return &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden", Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, nil
}

// Kubernetes returns a simulated API at 10.0.0.10, and a client that reaches it through the FailNth.
// Both end with the test.
func Kubernetes(t *testing.T) (*kube.Client, *kubesim.Cluster, *FailNth) {
	t.Helper()
	sim, err := kubesim.New(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, 1)
	require.NoError(t, err)
	way := &FailNth{}
	client, err := kube.New(kube.Config{Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) },
		Wrap: func(next http.RoundTripper) http.RoundTripper { way.Next = next; return way }})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = client.Close(), sim.Close() })
	return client, sim, way
}

// FleetKinds are the definitions of the kinds that Fleet's chart adds, as YAML.
func FleetKinds() string {
	var out strings.Builder
	for _, kind := range []string{"GitRepo", "Bundle", "BundleDeployment", "Cluster"} {
		plural := strings.ToLower(kind) + "s"
		out.WriteString("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + plural + ".fleet.cattle.io}\n" +
			"spec:\n  group: fleet.cattle.io\n  scope: Namespaced\n  names: {kind: " + kind + ", plural: " + plural + ", singular: " + strings.ToLower(kind) + "}\n" +
			"  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n")
	}
	return out.String()
}

// ErrOf returns the error of a call that also returns another value.
func ErrOf[T any](_ T, err error) error { return err }

// Refusals is a step of a T, and what is there before it: every request of it that Kubernetes refuses
// must fail it, with what Kubernetes said.
type Refusals[T any] struct {
	There   string // objects
	Before  func(ctx context.Context, c T) error
	Step    func(ctx context.Context, c T) error
	NoReach bool // it succeeds also without the API
}

// Run runs the step once as it is, and then once for each of its requests. fresh makes a T with an API of
// its own; away takes the API from a T, and returns the error of a step then.
func (tt Refusals[T]) Run(t *testing.T, fresh func(t *testing.T) (T, *kubesim.Cluster, *FailNth), away func(c T) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for at := 0; ; at++ {
			c, sim, way := fresh(t)
			require.NoError(t, sim.Apply(t.Context(), []byte(FleetKinds())))
			if tt.There != "" {
				require.NoError(t, sim.Apply(t.Context(), []byte(tt.There)))
			}
			if tt.Before != nil {
				require.NoError(t, tt.Before(t.Context(), c))
			}
			way.On, way.At = true, at
			err := tt.Step(t.Context(), c)
			if at == 0 {
				require.NoError(t, err)
			} else if at > len(way.Seen) {
				break
			} else {
				assert.ErrorContains(t, err, Refusal, "request %d, %s", at, way.Seen[at-1])
			}
			_ = sim.Close()
		}
		if !tt.NoReach {
			c, _, _ := fresh(t)
			gone := away(c)
			assert.ErrorIs(t, tt.Step(t.Context(), c), gone, "nobody leads to the API")
		}
		synctest.Wait()
	})
}
