package helm_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// bubble runs a test with a cluster in process, where time costs nothing. The same
// is held to a real API server in sim/lab/charttest.
func bubble(t *testing.T, test func(t *testing.T, k *kube.Client, c *helm.Client, before *func(*http.Request) error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := func(*http.Request) error { return nil }
		var one sync.Mutex // requests are made at the same time
		k := form(t)(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				one.Lock()
				err := before(r)
				one.Unlock()
				if errors.Is(err, errRefused) {
					return &http.Response{StatusCode: http.StatusForbidden, Request: r, Body: io.NopCloser(strings.NewReader(
						`{"kind": "Status", "code": 403, "message": "no way"}`))}, nil
				}
				if err != nil {
					return nil, err
				}
				return next.RoundTrip(r)
			})
		})
		test(t, k, helm.NewClient(k, local), &before)
	})
}

// errRefused has the API server answer that something is not allowed.
var errRefused = errors.New("refused")

// form makes a cluster, and returns what makes clients of it.
func form(t *testing.T) func(wrap func(http.RoundTripper) http.RoundTripper) *kube.Client {
	t.Helper()
	sim := &kubesim.Sim{}
	p, err := sim.Form(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	return func(wrap func(http.RoundTripper) http.RoundTripper) *kube.Client {
		k, err := kube.New(kube.Config{Kubeconfig: p.Kubeconfig("https://10.0.0.10:6443"),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) },
			Wrap: wrap})
		require.NoError(t, err)
		t.Cleanup(func() { _ = k.Close() })
		return k
	}
}

func TestClient(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, c *helm.Client, before *func(*http.Request) error) {
		writes := 0
		*before = func(r *http.Request) error {
			if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" {
				writes++
			}
			return nil
		}
		settled := func(r chart.Release, revision int) {
			t.Helper()
			writes = 0
			s, err := c.Observe(t.Context(), r)
			require.NoError(t, err)
			require.Empty(t, s.Diff().String())
			assert.Equal(t, revision, s.Revision)
			require.NoError(t, c.Apply(t.Context(), r))
			assert.Zero(t, writes)
		}
		r := chart.Release{Name: "t", Namespace: "test", Chart: "tiny", Version: "1.0.0"}
		s, err := c.Observe(t.Context(), r)
		require.NoError(t, err)
		assert.Equal(t, "tiny-1.0.0", s.Diff().String())
		assert.Zero(t, writes, "looking writes nothing")
		require.NoError(t, c.Apply(t.Context(), r))
		settled(r, 1)

		_, err = k.WithFieldManager("kubectl-edit").Apply(t.Context(), &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "t"},
			Data: map[string][]byte{"drawn": []byte("hunter2")}})
		require.NoError(t, err)
		s, err = c.Observe(t.Context(), r)
		require.NoError(t, err)
		assert.Equal(t, "secret/test/t/data.drawn: "+secret.Mask+" → "+secret.Mask, s.Diff().String())
		require.NoError(t, c.Apply(t.Context(), r))
		settled(r, 1)

		r.Version, r.Values = "1.1.0", map[string]any{"text": "bye"}
		s, err = c.Observe(t.Context(), r)
		require.NoError(t, err)
		for _, want := range []string{"chart: tiny-1.0.0 → tiny-1.1.0", "values/text: bye", "configmap/test/t-1.1.0: new", "configmap/test/t-1.0.0: obsolete → (none)", "gadget/test/t/text: hello → bye"} {
			assert.Contains(t, s.Diff().String(), want)
		}
		require.NoError(t, c.Apply(t.Context(), r))
		settled(r, 2)
		require.NoError(t, c.Uninstall(t.Context(), "test", "t"))
	})
}

// TestOneRevisionStands: however often a release is changed, one revision, the last, is
// said to be deployed; of one that was uninstalled nothing stays but its hooks' objects,
// as with Helm.
func TestOneRevisionStands(t *testing.T) {
	bubble(t, func(t *testing.T, k *kube.Client, c *helm.Client, _ *func(*http.Request) error) {
		r := chart.Release{Name: "t", Namespace: "test", Chart: "tiny", Version: "1.0.0"}
		for i := 1; i <= 4; i++ {
			r.Values = map[string]any{"text": "text " + strconv.Itoa(i)}
			require.NoError(t, c.Apply(t.Context(), r))
			records, err := k.List(t.Context(), "v1", "Secret", "test", "owner=helm,name=t")
			require.NoError(t, err)
			stand := map[string]string{}
			for _, u := range records {
				stand[u.GetLabels()["version"]] = u.GetLabels()["status"]
			}
			require.Len(t, stand, i)
			for n := 1; n < i; n++ {
				require.Equal(t, "superseded", stand[strconv.Itoa(n)])
			}
			require.Equal(t, "deployed", stand[strconv.Itoa(i)])
		}
		there := func() (names []string) {
			for _, kind := range []string{"Secret", "ConfigMap"} {
				all, err := k.List(t.Context(), "v1", kind, "test", "")
				require.NoError(t, err)
				for _, u := range all {
					names = append(names, u.GetName())
				}
			}
			return names
		}
		require.Subset(t, there(), []string{"t", "t-1.0.0", "t-hook"})
		require.NoError(t, c.Uninstall(t.Context(), "test", "t"))
		require.Equal(t, []string{"t-hook"}, there())
	})
}

// TestNeverReady: what never becomes ready is named, and removed again after the time
// that the release gives it.
func TestNeverReady(t *testing.T) {
	bubble(t, func(t *testing.T, _ *kube.Client, c *helm.Client, _ *func(*http.Request) error) {
		r := chart.Release{Name: "t", Namespace: "test", Chart: "web", Version: "1.0.0", Timeout: 3 * time.Minute}
		began := time.Now()
		err := c.Apply(t.Context(), r)
		var failed *helm.FailedError
		require.ErrorAs(t, err, &failed)
		assert.Contains(t, err.Error(), "not ready within 3m0s: still waiting: job test/t-pre-install: it is pending")
		assert.Contains(t, err.Error(), "the installed objects were removed again")
		assert.GreaterOrEqual(t, time.Since(began), r.Timeout)
		assert.Less(t, time.Since(began), r.Timeout+time.Minute)
		s, err := c.Observe(t.Context(), r)
		require.NoError(t, err)
		assert.False(t, s.Installed)
		assert.Empty(t, s.Status)
	})
}

// TestAway: an API server that does not answer for a while, as K3s' while it restarts,
// is waited for, whatever was being done.
func TestAway(t *testing.T) {
	bubble(t, func(t *testing.T, _ *kube.Client, c *helm.Client, before *func(*http.Request) error) {
		r := chart.Release{Name: "t", Namespace: "test", Chart: "tiny"}
		begun := false
		var away time.Time
		*before = func(r *http.Request) error {
			if r.Method == http.MethodPost { // the record of the revision
				begun = true
				return nil
			}
			if begun && away.IsZero() {
				away = time.Now().Add(20 * time.Second)
			}
			if time.Now().Before(away) {
				return errors.New("connect: connection refused")
			}
			return nil
		}
		for i, version := range []string{"1.0.0", "1.1.0", "1.0.0"} {
			r.Version, begun, away = version, false, time.Time{}
			require.NoError(t, c.Apply(t.Context(), r))
			assert.False(t, away.IsZero())
			s, err := c.Observe(t.Context(), r)
			require.NoError(t, err)
			require.Empty(t, s.Diff().String())
			assert.Equal(t, i+1, s.Revision)
		}
	})
}
