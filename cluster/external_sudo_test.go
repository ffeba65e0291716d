package cluster_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A machine whose sudo asks for a password joins, is replaced and leaves as others do; with a wrong one,
// or none, nothing changes on it.
func TestSudoPasswordOfExternalMachine(t *testing.T) {
	const password = "right horse"
	t.Setenv("OPS_SUDO", password)
	t.Setenv("WRONG_SUDO", "wrong mule")
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b, keys := w.pair(t)
		defer a.Kill()
		defer b.Kill()
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		require.NoError(t, err)
		require.Zero(t, b.Run(t.Context(), "root", "echo 'ops:"+string(hash)+"' | chpasswd -e; echo 'ops ALL=(ALL:ALL) ALL' >/etc/sudoers.d/90-cloud-init-users", io.Discard))
		text, err := os.ReadFile("testdata/reports/34/sudo.yaml")
		require.NoError(t, err)
		own := func(ref string) string { return strings.Replace(string(text), ", sudoPassword: env:OPS_SUDO", ref, 1) }
		refused := func(text string, want ...string) {
			t.Helper()
			_, err := w.bare(t, parse(t, text), keys).Up().Run(t.Context(), w.listen(t))
			for _, part := range want {
				require.ErrorContains(t, err, part)
			}
			assert.NotContains(t, err.Error(), "mule")
			assert.False(t, b.Disk().Exists("/usr/local/bin/k3s"))
		}
		refused(own(""), "on b the login user may not run sudo without a password", "write sudoPassword: for it in the file")
		refused(own(", sudoPassword: env:WRONG_SUDO"), "on b, as user ops with sudoPassword of b (env:WRONG_SUDO), sudo refuses the user or the password: Sorry, try again.")
		refused(own("")+"ssh: {sudoPassword: env:WRONG_SUDO}\n", "with ssh.sudoPassword (env:WRONG_SUDO), sudo refuses")
		refused(own(", sudoPassword: env:NO_SUDO"), "sudoPassword of b: environment variable NO_SUDO is not set")

		spec := parse(t, string(text))
		c := w.bare(t, spec, keys)
		_, err = c.Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		plan, err := w.bare(t, spec, keys).Up().Plan(t.Context())
		require.NoError(t, err)
		require.NoError(t, plan.Err())
		assert.False(t, plan.Changes())
		g, err := w.bare(t, spec, keys).NodeReplace(t.Context(), "b", false)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		_, err = w.bare(t, parse(t, own("")), keys).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "write sudoPassword: for it in the file", "taken out of the file")
		w.bareDown(t, spec, keys)
		assert.False(t, b.Disk().Exists("/usr/local/bin/k3s"))
		assert.NotContains(t, fmt.Sprint(b.Commands()), password)
		assert.NotContains(t, fmt.Sprint(plan), password)
	})
}
