package session

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/internal/labneeds"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const realGuests = `name: real
proxmox: {endpoint: lab}
lab: {guests: qemu}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11], memory: `

func guestsFile(t *testing.T, memory string) *Session {
	t.Helper()
	spec, err := cluster.Parse("cluster.yaml", []byte(realGuests+memory+"}\n"))
	require.NoError(t, err)
	return &Session{Spec: spec}
}

// What this machine lacks for real VMs is said before the lab is built, where the file asks for them.
func TestWhatRealGuestsNeed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: real guests need Linux")
	}
	s := guestsFile(t, "2000GiB")
	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	err := guestsCanRun(s.Spec)
	assert.Equal(t, invalid, code(err))
	require.EqualError(t, err, "cluster.yaml:3:15: guests: qemu needs programs that are not on this machine: apt-get install qemu-system-x86 qemu-utils")
	t.Setenv("PATH", path)

	err = hasMemory(s.Spec)
	assert.Equal(t, invalid, code(err))
	require.ErrorContains(t, err, "cluster.yaml:3:15: guests: qemu: the VMs and QEMU need 2048200MiB of memory, and this machine has ")
	require.NoError(t, hasMemory(guestsFile(t, "2GiB").Spec))
}

// A lab is used by files alone that ask for what lives in its VMs.
func TestALabWithOtherGuests(t *testing.T) {
	s := guestsFile(t, "2GiB")
	fits := labmodel.HardwareOf(preset(t, "one-gpu"))
	err := s.labFits(labctl.State{Hardware: fits})
	assert.Equal(t, invalid, code(err))
	require.ErrorContains(t, err, "the lab runs with simulated VMs and Kubernetes, and real asks for real VMs in 10.0.0.0/24 behind 10.0.0.1 with internet\nend it with homelab lab:stop")
	g := labneeds.Guests(s.Spec)
	assert.Equal(t, labctl.Guests{Network: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), Internet: true}, g)
	g.Image = "/somewhere"
	require.NoError(t, s.labFits(labctl.State{Guests: g, Hardware: fits}))
	assert.Contains(t, g.Banner(), "VMs, SSH and Kubernetes are real")

	s = &Session{Spec: labFile(t, "one-gpu")}
	require.NoError(t, s.labFits(labctl.State{Hardware: fits}))
	require.ErrorContains(t, s.labFits(labctl.State{Guests: g, Hardware: fits}), "the lab runs with real VMs in 10.0.0.0/24")
	assert.Equal(t, labctl.Banner, labneeds.Guests(s.Spec).Banner())
	s.Spec.LabGuests.ControlPlane = "real"
	assert.Contains(t, labneeds.Guests(s.Spec).Banner(), "control plane are real")
	require.NoError(t, s.labFits(labctl.State{Guests: labctl.Guests{Kubernetes: true}, Hardware: fits}))
	require.ErrorContains(t, s.labFits(labctl.State{Hardware: fits}), "the lab runs with simulated VMs and Kubernetes, and "+s.Spec.Name+" asks for simulated VMs and a real Kubernetes")
}

func preset(t *testing.T, name string) pvesim.Model {
	t.Helper()
	m, err := pvesim.LoadModel(name)
	require.NoError(t, err)
	return m
}
