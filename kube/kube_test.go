package kube_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// world is a simulated cluster and a client of it.
type world struct {
	*kube.Client
	sim    *kubesim.Cluster
	writes *writes
}

// bubble runs a test on virtual time with a cluster of three servers and n GPU
// workers with two GPUs each.
func bubble(t *testing.T, n int, test func(t *testing.T, w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := bare(t)
		for i := range 3 {
			w.join(t, server(fmt.Sprintf("cp%d", i+1), i))
		}
		for i := range n {
			w.join(t, worker(fmt.Sprintf("wk%d", i+1), i, 2))
		}
		time.Sleep(10 * time.Second)
		test(t, w)
	})
}

// bare is a cluster without nodes, which ends with the test.
func bare(t *testing.T) world {
	t.Helper()
	sim, err := kubesim.New(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, 1)
	require.NoError(t, err)
	t.Cleanup(func() { _ = sim.Close() })
	w := world{sim: sim, writes: &writes{}}
	w.Client = w.client(t, w.writes.wrap)
	return w
}

// client is one more of the cluster's clients.
func (w world) client(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *kube.Client {
	t.Helper()
	c, err := kube.New(kube.Config{
		Kubeconfig: w.sim.Kubeconfig("https://10.0.0.10:6443"),
		Dial:       func(ctx context.Context, _, _ string) (net.Conn, error) { return w.sim.Dial(ctx) },
		Wrap:       wrap,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w world) join(t *testing.T, n guest.Node) {
	t.Helper()
	require.NoError(t, w.sim.Join(t.Context(), n))
}

func server(name string, i int) guest.Node {
	return guest.Node{Name: name, Role: "server", Version: "v1.36.5+k3s1", CPUs: 4, Memory: 8 << 30,
		InternalIP: netip.AddrFrom4([4]byte{10, 0, 0, byte(11 + i)})}
}

// worker is a node whose containers understand "exit N WORDS…".
func worker(name string, i, gpus int) guest.Node {
	return guest.Node{Name: name, Role: "agent", Version: "v1.36.5+k3s1", CPUs: 16, Memory: 64 << 30,
		InternalIP: netip.AddrFrom4([4]byte{10, 0, 1, byte(11 + i)}),
		GPUs: func() []guest.GPU {
			out := make([]guest.GPU, gpus)
			for g := range out {
				out[g] = guest.GPU{UUID: fmt.Sprintf("GPU-%s-%d", name, g), Model: "NVIDIA A100-PCIE-40GB", Index: g}
			}
			return out
		},
		Run: func(ctx context.Context, c guest.Container) (int, string, string) {
			var code int
			_, _ = fmt.Sscanf(c.Args[1], "%d", &code)
			return code, "output", strings.Join(c.Args[2:], " ") + " " + c.Env["NVIDIA_VISIBLE_DEVICES"]
		},
	}
}

// writes counts the requests that could change something.
type writes struct {
	mu   sync.Mutex
	seen []string
}

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" {
			w.mu.Lock()
			w.seen = append(w.seen, r.Method+" "+r.URL.Path)
			w.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// take returns what was written since the last take.
func (w *writes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func decode(t *testing.T, manifest string) []runtime.Object {
	t.Helper()
	objs, err := kube.Decode([]byte(manifest))
	require.NoError(t, err)
	return objs
}

func TestReachable(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		require.NoError(t, w.CheckReachable(t.Context()))
		v, err := w.Version(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "v1.36.5+k3s1", v)
	})
}

func TestApplyTwiceWritesOnce(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		objs := []runtime.Object{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "gpu"}, Data: map[string]string{"k": "v", "gone": "soon"}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		}
		d, err := w.Diff(t.Context(), objs...)
		require.NoError(t, err)
		assert.Equal(t, "configmap/gpu/a: new; namespace/gpu: new", d.String())
		assert.Empty(t, w.writes.take(), "looking writes nothing")

		changes, err := w.Apply(t.Context(), objs...)
		require.NoError(t, err)
		assert.Equal(t, "[configmap gpu/a created namespace gpu created]", fmt.Sprint(changes))
		assert.Len(t, w.writes.take(), 2)

		changes, err = w.Apply(t.Context(), objs...)
		require.NoError(t, err)
		assert.Equal(t, "[configmap gpu/a unchanged namespace gpu unchanged]", fmt.Sprint(changes))
		assert.Empty(t, w.writes.take(), "the second time there is nothing to do")

		objs[0] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "gpu"}, Data: map[string]string{"k": "w"}}
		d, err = w.Diff(t.Context(), objs...)
		require.NoError(t, err)
		assert.Equal(t, "configmap/gpu/a/data.gone: soon → (none); configmap/gpu/a/data.k: v → w", d.String())
		_, err = w.Apply(t.Context(), objs...)
		require.NoError(t, err)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "gpu"}}
		require.NoError(t, w.Get(t.Context(), cm))
		assert.Equal(t, map[string]string{"k": "w"}, cm.Data, "a field that is no longer wanted is removed")
	})
}

func TestApplyLeavesForeignFieldsAndTakesOverOnes(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		require.NoError(t, w.sim.Apply(t.Context(), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v, other: x}}")))
		ours := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}
		d, err := w.Diff(t.Context(), ours)
		require.NoError(t, err)
		assert.Equal(t, "configmap/default/a/fields: another's → ours [the values are right; from now on this field manager owns them]", d.String())
		_, err = w.Apply(t.Context(), ours)
		require.NoError(t, err)
		d, err = w.Diff(t.Context(), ours)
		require.NoError(t, err)
		assert.Empty(t, d)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
		require.NoError(t, w.Get(t.Context(), cm))
		assert.Equal(t, "x", cm.Data["other"])
	})
}

func TestSecretsAreMasked(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("hunter2")}}
		_, err := w.Apply(t.Context(), s)
		require.NoError(t, err)
		s.Data["k"] = []byte("hunter3")
		d, err := w.Diff(t.Context(), s)
		require.NoError(t, err)
		assert.Equal(t, "secret/default/s/data.k: [secret] → [secret]", d.String())
	})
}

func TestImmutableFieldNeedsReplacement(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		_, err := w.Apply(t.Context(), job("a", 0, nil)...)
		require.NoError(t, err)
		d, err := w.Diff(t.Context(), job("a", 1, nil)...)
		require.NoError(t, err)
		assert.Contains(t, d.String(), "job/default/a: live object → wanted object (needs a replacement)")
		_, err = w.Apply(t.Context(), job("a", 1, nil)...)
		require.ErrorIs(t, err, kube.ErrInvalid)
		assert.ErrorContains(t, err, "field is immutable")
		assert.ErrorContains(t, err, "delete it and apply it again")
	})
}

func TestUnknownFieldIsRefused(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		_, err := w.Apply(t.Context(), decode(t, "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {typo: 1}}")...)
		assert.ErrorContains(t, err, "apply service default/a: ")
		assert.ErrorContains(t, err, "typo")
	})
}

func TestCustomResources(t *testing.T) {
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plans.upgrade.cattle.io}
spec:
  group: upgrade.cattle.io
  scope: Namespaced
  names: {plural: plans, kind: Plan}
  versions: [{name: v1, served: true, storage: true}]
`
	const plan = "{apiVersion: upgrade.cattle.io/v1, kind: Plan, metadata: {name: p}, spec: {version: v1}}"
	bubble(t, 0, func(t *testing.T, w world) {
		d, err := w.Diff(t.Context(), decode(t, plan)...)
		require.NoError(t, err)
		assert.Contains(t, d.String(), "CustomResourceDefinition is missing or not established yet")
		var noKind *kube.NoKindError
		_, err = w.Apply(t.Context(), decode(t, plan)...)
		require.ErrorAs(t, err, &noKind)
		reason, ok, err := w.Ready(t.Context(), decode(t, plan)[0])
		require.NoError(t, err)
		assert.False(t, ok)
		assert.Equal(t, "plan p is not there yet", reason)

		_, err = w.Apply(t.Context(), decode(t, plan+"\n---"+crd)...)
		require.NoError(t, err, "definitions go first, whatever the order")
		d, err = w.Diff(t.Context(), decode(t, strings.Replace(plan, "version: v1}", "version: v2}", 1))...)
		require.NoError(t, err)
		assert.Equal(t, "plan/default/p/spec.version: v1 → v2", d.String())
		require.NoError(t, w.Delete(t.Context(), decode(t, plan+"\n---"+crd)...))
		require.NoError(t, w.Delete(t.Context(), decode(t, plan)...), "twice is fine")
	})
}

func TestErrorsSayWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sims := make([]*kubesim.Cluster, 2)
		for i := range sims {
			var err error
			sims[i], err = kubesim.New(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}}, 1)
			require.NoError(t, err)
			defer func() { _ = sims[i].Close() }()
		}
		client := func(config []byte, dial func(context.Context, string, string) (net.Conn, error)) *kube.Client {
			c, err := kube.New(kube.Config{Kubeconfig: config, Dial: dial})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		zero := func(ctx context.Context, _, _ string) (net.Conn, error) { return sims[0].Dial(ctx) }

		err := client(sims[1].Kubeconfig("https://10.0.0.10:6443"), zero).CheckReachable(t.Context())
		require.ErrorIs(t, err, kube.ErrCertificate)
		assert.ErrorContains(t, err, "read it again from a server")

		err = client(sims[0].Kubeconfig("https://10.9.9.9:6443"), zero).CheckReachable(t.Context())
		require.ErrorIs(t, err, kube.ErrCertificate)
		assert.ErrorContains(t, err, "add it to tls-san of every server")

		refused := func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("connection refused")}
		}
		err = client(sims[0].Kubeconfig("https://10.0.0.10:6443"), refused).CheckReachable(t.Context())
		require.ErrorIs(t, err, kube.ErrUnreachable)
		assert.ErrorContains(t, err, "ask whether the API server is ready: the API server does not answer:")

		silent := func(context.Context, string, string) (net.Conn, error) { c, _ := net.Pipe(); return c, nil }
		err = client(sims[0].Kubeconfig("https://10.0.0.10:6443"), silent).CheckReachable(t.Context())
		require.ErrorIs(t, err, kube.ErrUnreachable)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err = client(sims[0].Kubeconfig("https://10.0.0.10:6443"), silent).CheckReachable(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(began), 1200*time.Millisecond)
	})
}

func TestStrangersAreRefused(t *testing.T) {
	bubble(t, 0, func(t *testing.T, w world) {
		config := w.sim.Kubeconfig("https://10.0.0.10:6443")
		var kept []string
		for line := range strings.SplitSeq(string(config), "\n") {
			if !strings.Contains(line, "client-") {
				kept = append(kept, line)
			}
		}
		c, err := kube.New(kube.Config{Kubeconfig: []byte(strings.Join(kept, "\n")),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.sim.Dial(ctx) }})
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		_, err = c.Nodes(t.Context())
		require.ErrorIs(t, err, kube.ErrUnauthorized)
	})
}
