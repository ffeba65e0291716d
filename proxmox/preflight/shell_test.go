package preflight_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// rootShell logs in to a simulated host by SSH.
func rootShell(t *testing.T, sim *pvesim.Sim) func(context.Context, string) (remote.Runner, error) {
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "id_ed25519")
	require.NoError(t, os.WriteFile(path, private, 0o600))
	signer, err := ssh.LoadSigner(path)
	require.NoError(t, err)
	return func(ctx context.Context, host string) (remote.Runner, error) {
		shell, err := sim.HostShell(ctx, host, public)
		if err != nil {
			return nil, err
		}
		key, err := ssh.ParseAuthorizedKey(shell.HostKey)
		if err != nil {
			return nil, err
		}
		client := ssh.New(ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: sim.Network().Dial})
		t.Cleanup(func() { _ = client.Close() })
		return client, nil
	}
}

// TestWhatOnlyAShellTells logs in to a host as the installer leaves it, and to one that
// is prepared.
func TestWhatOnlyAShellTells(t *testing.T) {
	for name, site := range map[string]struct {
		os    pvesim.HostOS
		found []string
	}{
		"prepared": {},
		"fresh":    {pvesim.HostOS{Fresh: true}, []string{"error PX9 0000:01:00.0", "warning PX9 0000:01:00.1"}},
		"old guide": {pvesim.HostOS{Files: map[string]string{"/etc/modules": "# from a guide\nvfio\nvfio_virqfd"}},
			[]string{"warning PX19 pve1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := pvesim.OneGPU()
				model.Hosts[0].OS = site.os
				sim := pvesim.New(model, pvesim.Options{})
				defer sim.Close()
				r, err := preflight.Check(t.Context(), dial(t, sim), want(), preflight.Options{SSH: rootShell(t, sim)})
				require.NoError(t, err)
				var found []string
				for _, f := range r.Findings {
					if f.ID == "PX9" || f.ID == "PX19" {
						require.NotEqual(t, preflight.Skipped, f.Verdict, f.Evidence)
						if f.Verdict != preflight.OK {
							found = append(found, string(f.Verdict)+" "+f.ID+" "+f.Subject)
						}
					}
				}
				assert.Equal(t, site.found, found, text(r))
			})
		})
	}
}
