package workload

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// without answers no request whose path ends so.
type without struct {
	http.RoundTripper
	path string
}

func (w without) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.path != "" && strings.HasSuffix(req.URL.Path, w.path) {
		return nil, errors.New("no answer")
	}
	return w.RoundTripper.RoundTrip(req)
}

// What is read is all pods that have not ended, all volumes and all claims. A list that is not
// available is an error, and no empty list.
func TestRead(t *testing.T) {
	sim, err := kubesim.New(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}}, 1000)
	require.NoError(t, err)
	defer func() { _ = sim.Close() }()
	require.NoError(t, sim.Join(t.Context(), guest.Node{Name: "a", Run: func(context.Context, guest.Container) (int, string, string) { return 0, "", "" }}))
	require.NoError(t, sim.Apply(t.Context(), []byte(`{apiVersion: v1, kind: Pod, metadata: {name: lone, namespace: default}, spec: {nodeName: a, containers: [{name: a, image: a}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: done, namespace: default}, spec: {nodeName: a, restartPolicy: Never, containers: [{name: a, image: a}]}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}, persistentVolumeReclaimPolicy: Delete, claimRef: {namespace: default, name: c}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: default, annotations: {meta.helm.sh/release-name: r, meta.helm.sh/release-namespace: default}},
  spec: {accessModes: [ReadWriteOnce], volumeName: pv, resources: {requests: {storage: 1Gi}}}}`)))
	look := func(unanswered string) (*Work, error) {
		client, err := kube.New(kube.Config{
			Kubeconfig: sim.Kubeconfig("https://10.0.0.10:6443"),
			Dial:       func(ctx context.Context, _, _ string) (net.Conn, error) { return sim.Dial(ctx) },
			Wrap:       func(way http.RoundTripper) http.RoundTripper { return without{way, unanswered} },
		})
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		return Read(t.Context(), client)
	}
	var w *Work
	require.EventuallyWithT(t, func(t *assert.CollectT) { // the other pod ends
		w, err = look("")
		require.NoError(t, err)
		assert.Equal(t, []string{"pod default/lone, which nobody makes again"}, converge.LossTexts(w.LossesOn("a")))
	}, 10*time.Second, 10*time.Millisecond)
	assert.Equal(t, []string{"volume default/c (1Gi)"}, converge.LossTexts(w.ClaimsOf("default", "r")))
	for _, list := range []string{"/pods", "/persistentvolumes", "/persistentvolumeclaims"} {
		_, err := look(list)
		require.Error(t, err, list)
	}
}
