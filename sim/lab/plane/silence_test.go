package plane_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

const lasting = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: lasting, namespace: default}
spec:
  selector: {matchLabels: {app: lasting}}
  template:
    metadata: {labels: {app: lasting}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: "registry.example/lasting:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: working, namespace: default}
spec:
  restartPolicy: Never
  tolerations: [{operator: Exists}]
  containers: [{name: main, image: "busybox:1.37", command: [sleep, "600"]}]
`

// Pods on a node that was silent are Ready again when its kubelet is back: here in a cluster that was
// restored, where the controller of nodes finds pods of nodes without a kubelet when it starts.
func TestPodsAreReadyAfterSilence(t *testing.T) { labtest.OnEither(t, readyAfterSilence) }

func readyAfterSilence(t *testing.T, kind labctl.Guests) {
	f := factory(t, kind)
	config := guest.PlaneConfig{TLSSANs: []string{vip}, Version: "v1.36.5+k3s1"}
	first, err := f.Form(t.Context(), config)
	require.NoError(t, err)
	c, w := client(t, first), newWorker("wk-1", "10.0.0.21", 0)
	w.Run = func(ctx context.Context, _ guest.Container) (int, string, string) { // until its pod is gone
		<-ctx.Done()
		return 143, "", ""
	}
	require.NoError(t, first.Join(t.Context(), w.Node))
	require.NoError(t, first.Apply(t.Context(), []byte(lasting)))
	podsAre(t, c, corev1.ConditionTrue)
	config.Saved = save(t, first)

	again, err := f.Form(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	c = client(t, again)
	podsAre(t, c, corev1.ConditionFalse)
	require.NoError(t, again.Join(t.Context(), w.Node))
	podsAre(t, c, corev1.ConditionTrue)
}

// podsAre waits until both pods are Ready, or neither.
func podsAre(t *testing.T, c kubernetes.Interface, want corev1.ConditionStatus) {
	t.Helper()
	eventually(t, 5*time.Minute, "pods are Ready="+string(want), func(ctx context.Context) error {
		pods, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		some := 0
		for _, p := range pods.Items {
			for _, cond := range p.Status.Conditions {
				if cond.Type == corev1.PodReady && cond.Status == want {
					some++
				}
			}
		}
		return is("pods", 2, some)
	})
}
