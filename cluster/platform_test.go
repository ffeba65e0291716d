package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// smallPlatform is what a host with one GPU may carry: storage, certificates, a hub.
const smallPlatform = `
storage:
  default: nfs
  nfs: {server: 192.168.1.5, export: /export/k3s}
tls: self-signed
hub:
  hostname: hub.lab.example
  auth: dummy
  profiles:
    small: {cpu: 1, memory: 2GiB}
    gpu: {cpu: 2, memory: 8GiB, gpus: 1}
`

// charts are the stand-ins of the lab: under the names and versions of the real ones,
// and with the values that those take. With HOMELAB_CHARTS these are real ones.
func charts(t testing.TB) string {
	t.Helper()
	if folder := os.Getenv("HOMELAB_CHARTS"); folder != "" {
		return folder
	}
	folder, err := filepath.Abs("../sim/lab/charts")
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(folder, "jupyterhub", "Chart.yaml"))
	require.NoError(t, err)
	return folder
}

// withPlatform is a file with a platform beside the cluster of an example.
func withPlatform(t testing.TB, name, more string) string {
	t.Helper()
	return lab(example(t, name)) + more + fmt.Sprintf("\ncharts: {folder: %s, offline: true}\n", charts(t))
}

// changed are the steps of a run that changed something.
func changedSteps(r *converge.Report) []string {
	var out []string
	for _, s := range r.Steps {
		if s.Kind == converge.Changed {
			out = append(out, s.Step)
		}
	}
	return out
}

func TestLifeOfAPlatform(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := withPlatform(t, "one-gpu", smallPlatform)
		spec := parse(t, text)
		report := w.up(t, spec)
		for _, step := range []string{"chart/nfs", "objects/nfs", "storage/nfs", "chart/cert-manager", "objects/issuer", "secrets/jupyterhub", "chart/jupyterhub"} {
			did, ok := report.Step(step)
			require.True(t, ok, step)
			assert.Equal(t, converge.Changed, did.Kind, step)
		}

		before := w.now()
		report = w.up(t, spec)
		assert.Empty(t, changedSteps(report), "the second time there is nothing to do")
		assert.Equal(t, changes{}, before.changes(), "and nothing is written")

		// A profile more is a change of the hub's release and of nothing else.
		spec = parse(t, replace(t, text, "    small: {cpu: 1, memory: 2GiB}\n", "    small: {cpu: 1, memory: 3GiB}\n"))
		assert.Len(t, w.plan(t, spec), 1)
		assert.Equal(t, []string{"chart/jupyterhub"}, changedSteps(w.up(t, spec)))
		assert.Empty(t, w.plan(t, spec))
	})
}

// What the file no longer names goes, and nothing else does.
func TestPartTakenOut(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := withPlatform(t, "one-gpu", smallPlatform)
		more := "monitoring: {size: 10GiB}\nlogs: {size: 10GiB}\n"
		w.up(t, parse(t, text+more))
		with := w.stands(t)
		assert.Contains(t, with, "configmaps kube-system/homelab-part-monitoring")
		more = strings.Replace(more, "logs: {size: 10GiB}", "logs: {size: 20GiB}", 1)
		assert.Equal(t, []string{"chart/logs"}, changedSteps(w.up(t, parse(t, text+more))), "a volume grows")

		spec := parse(t, text)
		assert.Equal(t, []string{
			"leftovers: part/dcgm-exporter: release monitoring/dcgm-exporter → (none) [no longer in the file]; " +
				"part/log-collector: release logs/log-collector → (none) [no longer in the file]; " +
				"part/logs: release logs/logs → (none) [no longer in the file; its volumes and CRDs stay]; " +
				"part/monitoring: release monitoring/monitoring → (none) [no longer in the file; its volumes and CRDs stay]",
		}, w.plan(t, spec))
		report := w.up(t, spec)
		assert.Equal(t, []string{"leftovers"}, changedSteps(report))
		assert.Empty(t, w.plan(t, spec))
		now := w.stands(t)
		for _, gone := range []string{"configmaps kube-system/homelab-part-monitoring", "deployments.apps monitoring/monitoring-grafana",
			"deployments.apps logs/victoria-logs", "daemonsets.apps logs/log-collector"} {
			assert.NotContains(t, now, gone)
		}
		for _, stays := range []string{"namespaces /monitoring", "persistentvolumeclaims logs/victoria-logs", "secrets monitoring/grafana-admin", "deployments.apps jupyterhub/hub"} {
			assert.Contains(t, now, stays)
		}
	})
}

// A plan says that a volume cannot grow, and what to do, before anything is changed.
func TestVolumeThatCannotGrow(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		text := withPlatform(t, "one-gpu", "logs: {size: 10GiB, class: local-path}\n")
		w.up(t, parse(t, text))
		c := w.cluster(t, parse(t, replace(t, text, "10GiB", "20GiB")))
		defer c.Close()
		before := w.now()
		plan, err := c.Up().Plan(t.Context())
		require.NoError(t, err)
		require.EqualError(t, plan.Err(), `chart/logs: apply persistentvolumeclaim logs/victoria-logs: the claim's storage class cannot grow volumes: persistentvolumeclaims "victoria-logs" is forbidden: `+
			"only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize: write the size that it has, or move its data to a claim of a class with allowVolumeExpansion")
		assert.Equal(t, changes{}, before.changes())
	})
}

// A changed password reaches what has read the old one, and nothing else restarts.
func TestChangedSecretRestartsItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("HUB_PASSWORD", "correct horse battery")
		w := newWorld(t, pvesim.OneGPU())
		spec := parse(t, replace(t, withPlatform(t, "one-gpu", smallPlatform), "auth: dummy", "auth: {dummy: {password: env:HUB_PASSWORD}}"))
		w.up(t, spec)
		t.Setenv("HUB_PASSWORD", "another horse battery")
		before := w.now()
		assert.Equal(t, []string{"secrets/jupyterhub", "chart/jupyterhub"}, changedSteps(w.up(t, spec)), "the hub is waited for")
		did := strings.Join(before.changes().Kubernetes, "\n")
		assert.Contains(t, did, "PATCH /apis/apps/v1/namespaces/jupyterhub/deployments/hub?fieldManager=homelab")
		assert.NotContains(t, did, "deployments/proxy")
		assert.NotContains(t, w.output.String(), "horse")
		time.Sleep(time.Minute)
		assert.Empty(t, w.plan(t, spec))
	})
}

// Checks are of all parts that are named, and a name that is none is said before anything is tried.
func TestPartsThatAreVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWorld(t, pvesim.OneGPU()).cluster(t, parse(t, withPlatform(t, "one-gpu", smallPlatform)))
		_, err := c.PlatformVerify(t.Context(), "nfs", "logs")
		require.ErrorContains(t, err, `the file has no part "logs"; it has `)
		_, err = c.PlatformVerify(t.Context(), "nfs", "jupyterhub")
		require.Error(t, err, "there is no cluster")
		assert.NotContains(t, err.Error(), "the file has no part")
	})
}
