package cluster_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// otherSettings is eight-a100 with a setting of kubelets.
func otherSettings(t *testing.T) (before, after string) {
	before = example(t, "eight-a100")
	return before, replace(t, before, "k3s:\n", "k3s:\n  agent: {kubelet-arg: [max-pods=100]}\n")
}

// awake lists the workers on which K3s runs.
func (w *world) awake(t *testing.T) []string {
	var out []string
	for name, m := range w.guests() {
		if strings.HasPrefix(name, "wk") {
			if strings.Contains(ask(t, m, "systemctl", "show", "--property=ActiveState", "k3s-agent"), "=active") {
				out = append(out, name)
			}
		}
	}
	return out
}

// K3s gets other settings on one node after the other, and no pod has to go for that.
func TestOtherSettingsOfK3sGoRound(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		before, after := otherSettings(t)
		w.up(t, parse(t, before))
		time.Sleep(time.Minute)
		done, fewest := make(chan struct{}), 4
		go func() {
			defer close(done)
			w.up(t, parse(t, after))
		}()
		for going := true; going; {
			select {
			case <-done:
				going = false
			case <-time.After(time.Second):
				fewest = min(fewest, len(w.awake(t)))
			}
		}
		assert.Equal(t, 3, fewest, "one is away at a time")
		assert.NotContains(t, w.output.String(), "draining wk")
		time.Sleep(time.Minute)
		assert.Empty(t, w.plan(t, parse(t, after)))
	})
}

// Settings with which a kubelet does not come up take one node, however often they are tried.
func TestBadSettingsOfK3sTakeOneNode(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		before, after := otherSettings(t)
		w.up(t, parse(t, before))
		time.Sleep(time.Minute)
		fault := func(f guest.Faults) {
			for name := range w.guests() {
				if strings.HasPrefix(name, "wk") {
					w.sim.SetGuestFaults(w.vm(t, name).ID, f)
				}
			}
		}
		away := func() (out []string) {
			time.Sleep(time.Minute)
			for name, n := range w.nodes(t) {
				if !n.Ready || n.Cordoned {
					out = append(out, name)
				}
			}
			return out
		}
		fault(guest.Faults{NodeNeverReady: true})
		_, err := w.cluster(t, parse(t, after)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "is not Ready with its new K3s settings within 10m0s")
		require.ErrorContains(t, err, "did not become healthy: fix that first, then run it again")
		first := away()
		assert.Len(t, first, 1)

		_, err = w.cluster(t, parse(t, after)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "stays up: not every other node was healthy within 15m0s: "+first[0])
		assert.Equal(t, first, away())

		fault(guest.Faults{})
		_, err = w.guests()[first[0]].AgentExec([]string{"systemctl", "restart", "k3s-agent"}, nil)
		require.NoError(t, err)
		w.up(t, parse(t, after))
		assert.Empty(t, away())
		assert.Empty(t, w.plan(t, parse(t, after)))
	})
}

// A right that is missing ends a wait at once, in the API server's words.
func TestAMissingRightIsNotWaitedFor(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		before, after := otherSettings(t)
		w.up(t, parse(t, before))
		time.Sleep(time.Minute)
		var refused atomic.Pointer[time.Time]
		w.kubeTap = func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/api/v1/nodes" {
					return next.RoundTrip(r)
				}
				now := time.Now()
				refused.CompareAndSwap(nil, &now)
				body := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": "nodes is forbidden: User \"x\" cannot list resource \"nodes\""}`
				return &http.Response{StatusCode: 403, Status: "403 Forbidden", Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
			})
		}
		_, err := w.cluster(t, parse(t, after)).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "nodes is forbidden")
		require.NotNil(t, refused.Load())
		assert.Less(t, time.Since(*refused.Load()), 2*time.Minute)
	})
}
