package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// prepSite is hosts as they were installed, and root's shells on them.
type prepSite struct {
	t      *testing.T
	sim    *pvesim.Sim
	spec   *spec.Spec
	root   map[string]remote.Runner
	secret secret.Value
	hosts  []*guest.Machine
}

// changes counts what commands have changed on all hosts: files, and what boot loader
// and initramfs were told.
func (w *prepSite) changes() (n int) {
	for _, m := range w.hosts {
		n += len(m.Mutations())
	}
	return n
}

const oneGPU = `
name: lab1
proxmox: {endpoint: "https://192.0.2.1:8006", token: homelab@pve!cluster, secret: "file:token", host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
defaults: {storage: vmdata}
pools:
  server: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}
`

// freshModel is hosts as Proxmox's installer leaves them.
func freshModel(m pvesim.Model, loader string) pvesim.Model {
	m.Roles, m.Users, m.Tokens, m.ACLs = nil, nil, nil, nil
	for i := range m.Hosts {
		h := &m.Hosts[i]
		h.OS = pvesim.HostOS{Fresh: true, Loader: loader}
		for j := range h.Storages {
			h.Storages[j].Content = slices.DeleteFunc(slices.Clone(h.Storages[j].Content), func(c string) bool { return c == "import" })
		}
	}
	return m
}

func newPrepSite(t *testing.T, m pvesim.Model, yaml string) *prepSite {
	sim := pvesim.New(m, pvesim.Options{})
	t.Cleanup(sim.Close)
	return prepSiteOf(t, sim, m, yaml)
}

// prepSiteOf logs in to the hosts of a world that is there already.
func prepSiteOf(t *testing.T, sim *pvesim.Sim, m pvesim.Model, yaml string) *prepSite {
	w := &prepSite{t: t, sim: sim, root: map[string]remote.Runner{}}
	spec, err := cluster.Parse("cluster.yaml", []byte(yaml))
	require.NoError(t, err)
	w.spec = spec
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := xssh.ParsePrivateKey(private)
	require.NoError(t, err)
	for _, h := range m.Hosts {
		shell, err := w.sim.HostShell(t.Context(), h.Name, public)
		require.NoError(t, err)
		key, err := ssh.ParseAuthorizedKey(shell.HostKey)
		require.NoError(t, err)
		client := ssh.New(ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: w.sim.Network().Dial})
		t.Cleanup(func() { _ = client.Close() })
		w.root[h.Name] = client
		w.hosts = append(w.hosts, shell.Machine)
	}
	return w
}

func (w *prepSite) prep() *hostprep.Prep {
	p := &hostprep.Prep{Spec: w.spec, Root: w.root, KeepToken: func(v secret.Value) error { w.secret = v; return nil }}
	for name := range w.root {
		p.Hosts = append(p.Hosts, name)
	}
	slices.Sort(p.Hosts)
	return p
}

// todo lists what is left to do: the IDs of changes.
func (w *prepSite) todo() []string {
	w.t.Helper()
	p := w.prep()
	var out []string
	for _, name := range p.Hosts {
		plan, err := p.PlanHost(w.t.Context(), name)
		require.NoError(w.t, err)
		for _, c := range plan.Changes {
			out = append(out, c.ID+"/"+name)
		}
		if len(plan.Reboot) > 0 {
			out = append(out, "reboot/"+name)
		}
		for _, n := range plan.Notes {
			if n.Fatal {
				out = append(out, "! "+n.What)
			}
		}
	}
	plan, err := p.PlanAccess(w.t.Context())
	require.NoError(w.t, err)
	for _, c := range plan.Changes {
		out = append(out, c.ID)
	}
	for _, n := range plan.Notes {
		out = append(out, "! "+n.What)
	}
	if len(plan.Token) > 0 {
		out = append(out, "token")
	}
	return out
}

func (w *prepSite) run(reboot bool) int {
	w.t.Helper()
	p := w.prep()
	p.Reboot = reboot
	report, err := p.Graph().Run(w.t.Context(), nil)
	require.NoError(w.t, err)
	changed := 0
	for _, s := range report.Steps {
		if s.Kind == "changed" {
			changed++
		}
	}
	return changed
}

func TestPrepareAFreshHost(t *testing.T) {
	for _, loader := range []string{"grub", "systemd-boot", "esp-grub"} {
		for _, old := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, old Intel %v", loader, old), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := freshModel(pvesim.OneGPU(), loader)
					if old {
						m.Version, m.Hosts[0].Kernel, m.Hosts[0].CPUModel = "8.4.1", "6.5.13-6-pve", "Intel(R) Xeon(R) Gold 6338"
					}
					w := newPrepSite(t, m, oneGPU)
					assert.Equal(t, []string{"boot/pve1", "modules/pve1", "cards/pve1", "initramfs/pve1", "reboot/pve1",
						"storages", "role", "user", "grants", "token"}, w.todo())
					assert.Positive(t, w.run(false))
					assert.Equal(t, []string{"reboot/pve1"}, w.todo(), "everything but the reboot")
					again := w.prep()
					again.NewToken = true
					access, err := again.PlanAccess(t.Context())
					require.NoError(t, err)
					require.Len(t, access.Changes, 1, "what was granted to the token goes with it, and nothing else")
					assert.Equal(t, "grants", access.Changes[0].ID)
					assert.NotEmpty(t, access.Token)
					assert.False(t, w.secret.IsZero())
					before := w.changes()
					assert.Positive(t, before)
					assert.Zero(t, w.run(false), "the second time nothing is changed")
					assert.Equal(t, before, w.changes(), "not a file")
					assert.Equal(t, 1, w.run(true), "the reboot, and nothing else")
					assert.Empty(t, w.todo())
					assert.Zero(t, w.run(true))
				})
			})
		}
	}
}

// TestHostsRebootOneAfterTheOther: a Proxmox cluster needs most of its hosts.
func TestHostsRebootOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yaml := strings.Replace(oneGPU, "gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}",
			"gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}\n  two: {count: 1, host: pve2, addresses: [10.0.0.22], gpus: 1}", 1)
		w := newPrepSite(t, freshModel(pvesim.TwoHosts(), "grub"), yaml)
		p := w.prep()
		p.Reboot = true
		report, err := p.Graph().Run(t.Context(), nil)
		require.NoError(t, err)
		one, _ := report.Step("reboot/pve1")
		two, _ := report.Step("reboot/pve2")
		assert.False(t, two.Started.Before(one.Ended))
		assert.Empty(t, w.todo())
	})
}

// TestARebootStopsWhatWasAgreedTo: a VM that was started while the host before rebooted
// stays, and its host with it.
func TestARebootStopsWhatWasAgreedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yaml := strings.Replace(oneGPU, "gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}",
			"gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}\n  two: {count: 1, host: pve2, addresses: [10.0.0.22], gpus: 1}", 1)
		w := newPrepSite(t, freshModel(pvesim.TwoHosts(), "grub"), yaml)
		p := w.prep()
		p.Reboot = true
		g, agreed := p.Graph(), &converge.Agreement{}
		g.Approve = func(ctx context.Context, it converge.Item) error {
			if it.Step == "reboot/pve1" { // somebody starts a VM on pve2; the simulated host knows it when it boots
				assert.NoError(t, remote.WriteFile(ctx, w.root["pve2"], "/run/qemu-server/100.pid", []byte("1\n"), 0o644))
			}
			return agreed.Approve(ctx, it)
		}
		report, err := g.Run(t.Context(), nil)
		require.ErrorContains(t, err, "VM 100 on pve2 is stopped (a reboot of pve2)")
		one, _ := report.Step("reboot/pve1")
		assert.Equal(t, converge.Changed, one.Kind)
		assert.Equal(t, []string{"reboot/pve2"}, w.todo())
	})
}

// TestPreparedHostCarriesTheCluster: with the token that was made, which may do what
// the file needs and no more, the cluster comes up on the host, GPU and all.
func TestPreparedHostCarriesTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := freshModel(pvesim.OneGPU(), "systemd-boot")
		world := newWorld(t, m)
		w := prepSiteOf(t, world.sim, m, oneGPU)
		w.run(true)
		require.False(t, w.secret.IsZero())
		pve, err := proxmox.Dial(t.Context(), proxmox.Config{
			Endpoint: "pve1", TokenID: "homelab@pve!cluster", TokenSecret: w.secret, HTTPClient: &http.Client{Transport: w.sim.Client().Transport},
		})
		require.NoError(t, err)
		signer, err := ssh.LoadSigner(filepath.Join(world.dir, "id_ed25519"))
		require.NoError(t, err)
		c, err := cluster.New(w.spec, cluster.Backend{Proxmox: pve, Signers: []ssh.Signer{signer}, Dial: w.sim.Network().Dial, Dir: world.dir})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Up().Run(t.Context(), world.listen(t))
		require.NoError(t, err)
		assert.Empty(t, w.todo(), "and the host is as it was prepared")
	})
}
