package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/spec"
)

// examine returns what the doctor finds, as "failure of where", with what follows indented.
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

func TestDoctor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.EightA100())
		defer w.close()
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		time.Sleep(5 * time.Minute)
		before := w.now()
		assert.Empty(t, w.examine(t, spec), "a healthy cluster")
		assert.Equal(t, changes{}, before.changes(), "the doctor changes nothing")
	})
}

var _ = guest.Faults{}
