package charttest_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/lab/plane"
)

const (
	vip     = "10.0.0.100"
	version = "v1.36.5+k3s1"
)

// form makes a cluster of some nodes, on which commands do what run does.
func form(t *testing.T, nodes int) guest.Plane {
	t.Helper()
	return formWith(t, nodes, run)
}

func formWith(t *testing.T, nodes int, run func(context.Context, guest.Container) (code int, output, log string)) guest.Plane {
	t.Helper()
	f := plane.New(context.WithoutCancel(t.Context()), labtest.Planes(t, labtest.Real()))
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	p, err := f.Form(t.Context(), guest.PlaneConfig{Version: version, TLSSANs: []string{vip}})
	require.NoError(t, err)
	for i := range nodes {
		require.NoError(t, p.Join(t.Context(), guest.Node{
			Name: fmt.Sprintf("wk%d", i+1), Role: "agent", InternalIP: netip.AddrFrom4([4]byte{10, 0, 0, byte(21 + i)}),
			Version: version, CPUs: 64, Memory: 256 << 30, Run: run,
		}))
	}
	return p
}

// run is what commands do: "exit N" ends so.
func run(_ context.Context, c guest.Container) (code int, output, log string) {
	if len(c.Args) != 2 || c.Args[0] != "exit" {
		return 127, "sh: not found", ""
	}
	code, err := strconv.Atoi(c.Args[1])
	if err != nil {
		return 126, err.Error(), ""
	}
	return code, "", fmt.Sprintf("the command ended with %d", code)
}

// user is a client of the cluster whose requests are counted, and cut off at one.
type user struct {
	*helm.Client
	kube *kube.Client

	mu     sync.Mutex
	reads  int
	writes []string // requests that change something
	cut    int      // end the work at this request, 0: never
	end    context.CancelFunc
}

func newUser(t *testing.T, p guest.Plane) *user {
	t.Helper()
	u := &user{}
	var err error
	u.kube, err = kube.New(kube.Config{
		Kubeconfig: p.Kubeconfig("https://" + vip + ":6443"),
		Dial:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) },
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) { return u.count(r, next) })
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = u.kube.Close() })
	u.Client = helm.NewClient(u.kube, helm.Source{Folder: "../../../kube/helm/testdata/charts", Offline: true, Cache: t.TempDir()})
	return u
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (u *user) count(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	u.mu.Lock()
	if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" {
		u.reads++
	} else {
		u.writes = append(u.writes, r.Method+" "+r.URL.Path)
	}
	if u.cut > 0 && u.reads+len(u.writes) == u.cut {
		u.end()
	}
	u.mu.Unlock()
	return next.RoundTrip(r)
}

// reset forgets what was counted, and returns it.
func (u *user) reset() (reads int, writes []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	reads, writes = u.reads, u.writes
	u.reads, u.writes, u.cut = 0, nil, 0
	return reads, writes
}

func web(version string, values map[string]any) chart.Release {
	return chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: version, Values: values, Timeout: 20 * time.Second}
}

// see observes.
func (u *user) see(t *testing.T, r chart.Release) helm.State {
	t.Helper()
	s, err := u.Observe(t.Context(), r)
	require.NoError(t, err)
	return s
}

// done checks that nothing is left to do, and that finding out writes nothing.
func (u *user) done(t *testing.T, r chart.Release, revision int) {
	t.Helper()
	u.reset()
	s := u.see(t, r)
	assert.Empty(t, s.Diff().String())
	assert.Equal(t, "deployed", s.Status)
	assert.Equal(t, revision, s.Revision)
	reads, writes := u.reset()
	assert.Empty(t, writes)
	t.Logf("a no-op takes %d requests", reads)
}

// get reads an object; nil when it is not there.
func (u *user) get(t *testing.T, apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	err := u.kube.Get(t.Context(), o)
	if assert.ObjectsAreEqual(true, isGone(err)) {
		return nil
	}
	require.NoError(t, err)
	return o
}

func (u *user) config(t *testing.T, name string) map[string]string {
	t.Helper()
	o := u.get(t, "v1", "ConfigMap", "web", name)
	if o == nil {
		return nil
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	require.NoError(t, err)
	return data
}

func (u *user) password(t *testing.T, name string) string {
	t.Helper()
	o := u.get(t, "v1", "Secret", "web", name)
	require.NotNil(t, o)
	s, _, err := unstructured.NestedString(o.Object, "data", "password")
	require.NoError(t, err)
	return s
}
