package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A machine whose first boot has failed and that nobody can log in to says so through its
// agent, and at once, not after the time that a boot may take.
func TestAFailedFirstBootWithoutSSH(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		theirs bool
		faults guest.Faults
	}{
		"first-boot-failed-no-ssh":      {text: "guest: {kernelModules: [wiregard]}\n", faults: guest.Faults{SSHRefuses: true}},
		"package-mistyped-own-template": {text: "image: {template: ubuntu}\nguest: {packages: [htopp]}\n", theirs: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
				skip := 1 // the template's
				if c.theirs {
					w.theirs(t, "pve1", "ubuntu", false)
					skip = 0
				}
				w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, Skip: skip, Times: -1, Guest: &c.faults})
				cl := w.cluster(t, parse(t, small+c.text))
				defer cl.Close()
				start := time.Now()
				report, err := cl.Up().Run(t.Context(), w.listen(t))
				require.Error(t, err)
				step, _ := report.Step("guest/cp1")
				require.Error(t, step.Err)
				golden(t, "failures/"+name+".txt", step.Step+": "+step.Err.Error()+"\n")
				assert.Less(t, time.Since(start), 8*time.Minute)
			})
		})
	}
}

// One that lets nobody in, since its first boot made no login, says what went wrong there.
func TestAFirstBootThatMadeNoLogin(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		c := w.cluster(t, parse(t, small))
		defer c.Close()
		done := make(chan error, 1)
		go func() {
			_, err := c.Up().Run(t.Context(), w.listen(t))
			done <- err
		}()
		const result = `{"v1": {"datasource": "DataSourceNoCloud [seed=/dev/sr0]", "errors": ["('users_groups', OSError('no space'))"]}}`
		for {
			select {
			case err := <-done:
				require.ErrorContains(t, err, "first boot of cp1 failed: cloud-init failed: ('users_groups', OSError('no space'))")
				require.ErrorContains(t, err, "and a login is not possible: 10.0.0.11:22 does not let ubuntu in with")
				return
			case <-time.After(200 * time.Millisecond):
				for _, m := range w.guests() {
					_ = m.AgentWriteFile("/home/ubuntu/.ssh/authorized_keys", nil)
					_ = m.AgentWriteFile("/var/lib/cloud/data/result.json", []byte(result))
				}
			}
		}
	})
}
