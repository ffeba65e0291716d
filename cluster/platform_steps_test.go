package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// stepsOf are the steps of a file's platform, in order.
func stepsOf(t *testing.T, text string) []string {
	t.Helper()
	w := newWorld(t, pvesim.EightA100())
	c := w.cluster(t, parse(t, text))
	var out []string
	for _, name := range c.Up().Names() {
		switch kind, of, _ := strings.Cut(name, "/"); kind {
		case "charts", "chart", "secrets", "objects", "storage", "ready", "push", "fleet":
			out = append(out, kind+"/"+of)
		}
	}
	return out
}

// Parts come in an order that can be read: what others stand on first.
func TestStepsOfAPlatform(t *testing.T) {
	t.Setenv("GIT_TOKEN", "not a secret")
	direct := withPlatform(t, "eight-a100", wholePlatform)
	assert.Equal(t, []string{
		"charts/",
		"chart/nfs", "objects/nfs", "storage/nfs", "chart/scratch", "objects/scratch", "storage/scratch",
		"chart/metallb", "objects/metallb", "chart/cert-manager", "objects/issuer", "objects/ingress",
		"secrets/rancher", "chart/rancher", "secrets/monitoring", "chart/monitoring", "chart/dcgm-exporter", "objects/dcgm-exporter",
		"secrets/jupyterhub", "chart/jupyterhub",
	}, stepsOf(t, direct))

	// Through Fleet all but what Fleet stands on: Secrets first, then one push, then
	// each part as Fleet gets to it.
	git := "fleet: {repo: https://git.lab.example/gpu.git, username: homelab, password: env:GIT_TOKEN, default: fleet}\n"
	assert.Equal(t, []string{
		"charts/", "chart/cert-manager", "objects/issuer", "secrets/rancher", "chart/rancher",
		"ready/fleet", "secrets/scratch", "secrets/metallb", "secrets/monitoring", "secrets/dcgm-exporter", "secrets/jupyterhub",
		"push/fleet", "secrets/gitops", "objects/gitops",
		"fleet/nfs", "storage/nfs", "fleet/scratch", "storage/scratch", "fleet/metallb", "fleet/ingress",
		"fleet/monitoring", "fleet/dcgm-exporter", "fleet/jupyterhub",
	}, stepsOf(t, direct+git))
}

// A part that cannot be made is said before anything changes.
func TestSecretOfAPartIsMissing(t *testing.T) {
	w := newWorld(t, pvesim.OneGPU())
	c := w.cluster(t, parse(t, withPlatform(t, "one-gpu", smallPlatform+
		"backup: {bucket: backups, accessKey: env:NO_SUCH_KEY, secretKey: env:NO_SUCH_SECRET}\n")))
	plan, err := c.Up().Plan(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, plan.Err(), "charts: backup.accessKey: ")
	require.ErrorContains(t, plan.Err(), "backup.secretKey: ")
	for _, it := range plan.Items {
		if it.Step == "template/pve1" {
			assert.Equal(t, "charts could not be checked", it.Reason)
		}
	}
	assert.Empty(t, w.mutations())
	assert.Empty(t, c.Parts())
}

// Longhorn's disks are kept from multipathd on every node, from its first boot on.
func TestLonghornIsKeptFromMultipath(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, withPlatform(t, "one-gpu", "storage: {default: longhorn, longhorn: {replicas: 1}}\n")))
		for name, m := range w.guests() {
			assert.Contains(t, content(t, m, "/etc/multipath/conf.d/longhorn.conf"), "blacklist", name)
			assert.Contains(t, content(t, m, "/etc/modules-load.d/homelab-storage.conf"), "iscsi_tcp", name)
		}
	})
}
