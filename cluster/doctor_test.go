package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/spec"
)

// examine returns what the doctor finds, as "failure of where: what", with what follows indented.
func (w *world) examine(t testing.TB, spec *spec.Spec) []string {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	report, err := doctor.Examine(t.Context(), c.Doctor())
	require.NoError(t, err)
	var out []string
	for _, f := range report.Causes() {
		out = append(out, f.Failure+" of "+f.Where+": "+f.What)
		for _, more := range report.Of(f) {
			out = append(out, "  "+more.Failure+" of "+more.Where)
		}
	}
	return out
}

// inside runs a command as root on a machine.
func (w *world) inside(t testing.TB, machine string, command string) {
	t.Helper()
	ask(t, w.guests()[machine], "sh", "-c", command)
}

// A healthy cluster has nothing wrong, and looking changes nothing.
func TestDoctorOfAHealthyCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		time.Sleep(5 * time.Minute)
		before, asked := w.now(), len(w.sim.Requests())
		assert.Empty(t, w.examine(t, spec))
		assert.Equal(t, changes{}, before.changes())
		assert.LessOrEqual(t, len(w.sim.Requests())-asked, 10+2*len(spec.Nodes), "requests to Proxmox")
	})
}

// One mishap is one cause, with everything that it brings about below it.
func TestDoctorFindsTheCause(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, w *world, spec *spec.Spec)
		want []string
	}{
		{"a stopped VM", func(t *testing.T, w *world, spec *spec.Spec) { w.byHand(t, spec, "wk-gpu1", "stop") }, []string{
			"vm-stopped of wk-gpu1: wk-gpu1 (VM ", "  no-login of wk-gpu1", "  node-not-ready of node wk-gpu1"}},
		{"the agent's token", func(t *testing.T, w *world, _ *spec.Spec) {
			w.inside(t, "wk-gpu2", "echo K10wrong::server:wrong >/etc/rancher/k3s/token; systemctl restart --no-block k3s-agent")
			time.Sleep(2 * time.Minute)
		}, []string{"k3s-down of wk-gpu2: K3s does not run: the token is of another cluster", "  node-not-ready of node wk-gpu2"}},
		{"a driver under the loaded one", func(t *testing.T, w *world, _ *spec.Spec) {
			w.inside(t, "wk-gpu3", "apt-get remove -y --allow-change-held-packages libnvidia-compute-580-server nvidia-utils-580-server nvidia-headless-no-dkms-580-server-open; apt-get install -y nvidia-utils-595-server")
		}, []string{"driver-mismatch of wk-gpu3: a driver was installed over the one that is loaded: no program can use a GPU until the machine restarts"}},
		{"no quorum", func(t *testing.T, w *world, spec *spec.Spec) {
			w.byHand(t, spec, "cp1", "stop")
			w.byHand(t, spec, "cp2", "stop")
		}, []string{"vm-stopped of cp1", "  api-down of Kubernetes", "vm-stopped of cp2"}},
		{"a node that was drained", func(t *testing.T, w *world, spec *spec.Spec) {
			require.NoError(t, w.api(t).Cordon(t.Context(), "wk-gpu4"))
		}, []string{"node-cordoned of node wk-gpu4"}},
		{"a lock that was left", func(t *testing.T, w *world, _ *spec.Spec) { w.lock("cp3", "backup") }, []string{"vm-locked of cp3: cp3 (VM "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pvesim.EightA100())
				defer w.close()
				spec := parse(t, example(t, "eight-a100"))
				w.up(t, spec)
				time.Sleep(5 * time.Minute)
				tc.do(t, w, spec)
				got := w.examine(t, spec)
				for _, want := range tc.want {
					assert.True(t, containsPrefix(got, want), "%q in\n%s", want, strings.Join(got, "\n"))
				}
			})
		})
	}
}

func containsPrefix(all []string, prefix string) bool {
	for _, s := range all {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}
