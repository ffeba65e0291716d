package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// TestHosts brings up the clusters of docs/hosts.md that install charts, from the first look until nothing is left;
// internal/session.TestHosts has the others.
func TestHosts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"storage-network", "workstation"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUserOf(t, labctl.Guests{})
			dir, err := filepath.Abs("../../../examples/hosts/" + name)
			require.NoError(t, err)
			_, err = labctl.Start(t.Context(), labctl.Options{Dir: u.lab(), Binary: labtest.Binary(t, u.kind), Speed: 40, Guests: u.kind, Model: filepath.Join(dir, "site.yaml")})
			require.NoError(t, err)
			file, err := os.ReadFile(filepath.Join(dir, "cluster.yaml"))
			require.NoError(t, err)
			u.write(t, "cluster.yaml", string(file))
			before := u.guestsAndVolumes(t)
			out, _ := u.must(t, "host:check")
			assert.Contains(t, out, "nothing wrong")
			_, _, code := u.run(t, "cluster:plan")
			assert.Equal(t, 2, code)
			u.must(t, "cluster:up")
			out, _ = u.must(t, "cluster:plan")
			assert.Contains(t, out, "Nothing to change")
			u.must(t, "cluster:down", "-yes")
			assert.Equal(t, before, u.guestsAndVolumes(t))
		})
	}
}

// guestsAndVolumes is what there is on the hosts, of anybody.
func (u *user) guestsAndVolumes(t *testing.T) (all []string) {
	t.Helper()
	client := u.proxmox(t)
	residents, err := client.Hosts.Residents(t.Context())
	require.NoError(t, err)
	for _, r := range residents {
		all = append(all, r.Name)
	}
	hosts, err := client.Hosts.List(t.Context())
	require.NoError(t, err)
	for _, h := range hosts {
		storages, err := client.Storages.List(t.Context(), h.Name)
		require.NoError(t, err)
		for _, s := range storages {
			volumes, err := client.Storages.Volumes(t.Context(), h.Name, s.Name, "")
			require.NoError(t, err)
			for _, v := range volumes {
				all = append(all, h.Name+" "+v.ID)
			}
		}
	}
	mappings, err := client.PCI.Mappings(t.Context(), "")
	require.NoError(t, err)
	for _, m := range mappings {
		all = append(all, m.ID)
	}
	return all
}
