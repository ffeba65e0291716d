package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestAlerts: Alertmanager reads where to send alerts from a Secret, a new address too, and nothing shows it.
func TestAlerts(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		t.Setenv("TOPIC", "https://ntfy.sh/the-first")
		text := withPlatform(t, "one-gpu", "monitoring: {size: 10GiB, alerts: {ntfy: env:TOPIC}}\n")
		w.up(t, parse(t, text))
		told := corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "homelab-alerts"}}
		require.NoError(t, w.api(t).Get(t.Context(), &told))
		assert.Contains(t, string(told.Data["ntfy"]), "https://ntfy.sh/the-first?template=alertmanager")
		assert.Empty(t, w.plan(t, parse(t, text)))

		t.Setenv("TOPIC", "https://ntfy.sh/the-second")
		assert.Equal(t, []string{"secrets/monitoring"}, changedSteps(w.up(t, parse(t, text))))
		require.NoError(t, w.api(t).Get(t.Context(), &told))
		assert.Contains(t, string(told.Data["ntfy"]), "the-second")
		assert.Empty(t, w.plan(t, parse(t, text)))

		without := strings.Replace(text, ", alerts: {ntfy: env:TOPIC}", "", 1)
		w.up(t, parse(t, without))
		assert.ErrorIs(t, w.api(t).Get(t.Context(), &told), kube.ErrNotFound, "its address is still in the cluster")
		assert.Empty(t, w.plan(t, parse(t, without)))
		assert.NotContains(t, w.output.String(), "the-first")
		assert.NotContains(t, w.output.String(), "the-second")
	})
}
