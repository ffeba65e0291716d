package cluster

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/host"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// A template that is half-made is told, and whether it is merely switched off.
func TestHalfMadeTemplatesAreTold(t *testing.T) {
	c, err := New(fileOf(t, smallFile), Backend{Dir: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	step, ok := c.templateStep("pve1").(*converge.Resource[templateSeen])
	require.True(t, ok)
	const off = "it is off"
	for _, tt := range []struct {
		template, running, begun, wanted bool
		says                             string
	}{
		{false, false, true, true, off}, {false, false, false, true, "half-made"}, {false, true, true, true, "half-made"}, {false, true, false, false, "half-made"}, {true, false, true, true, ""}, {true, false, false, false, ""},
	} {
		d := step.Diff(templateSeen{vm: &proxmox.Summary{Template: tt.template, Running: tt.running}, hasSeed: tt.begun, wanted: tt.wanted}).String()
		assert.Equal(t, tt.says == off, strings.Contains(d, off), "%+v: %s", tt, d)
		assert.Equal(t, tt.says == "", d == "", "%+v: %s", tt, d)
	}
	assert.Empty(t, step.Diff(templateSeen{}))
	assert.NotEmpty(t, step.Diff(templateSeen{wanted: true}))
}

// A reboot that waits costs what runs on the host, and nothing where none waits.
func TestCostsOfAReboot(t *testing.T) {
	p := &HostPlan{Name: "pve1", State: host.State{Guests: []string{"VM 100 web", "CT 101 dns"}}}
	assert.Empty(t, p.Costs())
	p.Reboot = []string{"a new kernel"}
	costs := p.Costs()
	require.Len(t, costs, 2)
	assert.Equal(t, converge.Cost{Machine: "CT 101 dns on pve1", Kind: converge.Stops, Why: "a reboot of pve1"}, costs[1])
}

// What the file asks of the hosts: whose mappings are ours, and which driver is for which
// release.
func TestWhatIsAskedOfTheHosts(t *testing.T) {
	c, _, stop := thornyHosts(t, "pve1")
	defer stop()
	w := c.want()
	assert.True(t, w.Mappings("x", names.MappingNote(c.spec)))
	assert.False(t, w.Mappings(names.Mapping(c.spec, "wk1"), "somebody's"))
}

// A guest has the host key that was kept, and none, which is no error, where nobody has kept one.
func TestHostKeysThatAreKept(t *testing.T) {
	c, _, stop := thornyHosts(t, "pve1")
	defer stop()
	key, err := (&guest{addr: "10.0.0.99:22"}).hostKey(c)
	require.NoError(t, err)
	assert.Empty(t, key)

	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := ssh.ParseSigner(private)
	require.NoError(t, err)
	require.NoError(t, c.hosts.Store("10.0.0.99:22", signer.PublicKey()))
	key, err = (&guest{addr: "10.0.0.99:22"}).hostKey(c)
	require.NoError(t, err)
	assert.Equal(t, ssh.AuthorizedKey(signer.PublicKey()), key)
}

// The seed of a machine of ours is known as ours when the machine is gone.
func TestSeedsThatMachinesHad(t *testing.T) {
	var had seedsHad
	assert.False(t, had.has("x.iso"))
	had.note(nil)
	had.note(&proxmox.VM{})
	assert.False(t, had.has(""), "a machine without a seed has had none")
	had.note(&proxmox.VM{Seed: "local:iso/x.iso"})
	had.note(&proxmox.VM{Seed: "isos:iso/y.iso"})
	assert.True(t, had.has("x.iso"))
	assert.True(t, had.has("y.iso"))
	assert.False(t, had.has("z.iso"))
}

// Whose K3s it is, is asked of external machines alone: a VM of ours has ours.
func TestVMsAreNotAskedWhoseTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := thornyHosts(t, "pve1")
		defer stop()
		ctx := c.begin(t.Context())
		require.NoError(t, c.ownServer(ctx, "nobody"))
		for _, n := range c.spec.Nodes {
			require.NoError(t, c.ownServer(ctx, n.Name), "nobody is there to answer")
		}
		outside, _, _ := thorny(t, thornsFile)
		require.Error(t, outside.ownServer(outside.begin(t.Context()), "a"), "nobody is there to answer")
		synctest.Wait()
	})
}

// A machine that goes is named, by its number where it has no name, with what is in it as
// far as that can be seen.
func TestCostsOfMachinesThatGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, stop := thornyHosts(t, "pve1")
		defer stop()
		ctx := c.begin(t.Context())
		for want, vm := range map[string]*proxmox.VM{"vm107": {VMID: 107}, "nameless": nil} {
			cost := c.destroys(ctx, "", "why", vm, nil)
			assert.Equal(t, want, cost.Machine)
			assert.Equal(t, converge.Destroys, cost.Kind)
		}
		assert.Equal(t, "wk1", c.destroys(ctx, "wk1", "why", &proxmox.VM{VMID: 107}, nil).Machine)
		assert.Contains(t, strings.Join(c.destroys(ctx, "wk1", "why", nil, errors.New("no answer")).Holds, "; "), "its disks are not readable: no answer")
		synctest.Wait()
	})
}

// What a first boot says last is shown, else the stage that it is in.
func TestWhatAFirstBootDoes(t *testing.T) {
	for _, tt := range []struct {
		said   string
		err    error
		detail string
		want   string
	}{
		{"Unpacking x\n", nil, "config", "Unpacking x"}, {" \n", nil, "config", "config"}, {"", nil, "config", "config"}, {"half a li", errors.New("no answer"), "config", "config"},
		{"", nil, "DataSourceNoCloud [seed=/dev/sr0]", ""}, {strings.Repeat("é", 100), nil, "", strings.Repeat("é", maxShown/2)}, {strings.Repeat("x", maxShown+1), nil, "", strings.Repeat("x", maxShown)},
		{"x" + strings.Repeat("é", 100), nil, "", "x" + strings.Repeat("é", maxShown/2-1)},
	} {
		root := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
			_, _ = io.WriteString(cmd.Stdout, tt.said)
			return tt.err
		})
		assert.Equal(t, tt.want, bootDoes(t.Context(), root, cloudinit.Status{Detail: tt.detail}), "%+v", tt)
	}
}
