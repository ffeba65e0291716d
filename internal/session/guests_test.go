package session

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/clusterfile"
	"github.com/cps-gpu/homelab/internal/labctl"
)

const realGuests = `name: real
proxmox: {endpoint: lab}
lab: {guests: qemu}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11], memory: `

func guestsFile(t *testing.T, memory string) *Session {
	t.Helper()
	spec, err := clusterfile.Parse("cluster.yaml", []byte(realGuests+memory+"}\n"))
	require.NoError(t, err)
	return &Session{Spec: spec}
}

// What this machine lacks for real VMs is said before the lab is built, where the file asks for them.
func TestWhatRealGuestsNeed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: real guests need Linux")
	}
	t.Chdir(t.TempDir()) // where no lab runs
	s := guestsFile(t, "2000GiB")
	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	_, err := s.labGuests(t.Context())
	assert.Equal(t, invalid, code(err))
	require.EqualError(t, err, "cluster.yaml:3:15: guests: qemu needs programs that are not on this machine: apt-get install qemu-system-x86 qemu-utils")
	t.Setenv("PATH", path)

	err = s.hasMemory()
	assert.Equal(t, invalid, code(err))
	require.ErrorContains(t, err, "cluster.yaml:3:15: guests: qemu: the VMs and QEMU need 2048200MiB of memory, and this machine has ")
	require.NoError(t, guestsFile(t, "2GiB").hasMemory())

	_, err = exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return
	}
	s = guestsFile(t, "2GiB")
	s.Spec.LabGuests.Image = "image"
	g, err := s.labGuests(t.Context())
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, labctl.Guests{
		Image: filepath.Join(here, "image"), Network: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), Internet: true,
	}, g)
}

// A lab is used by files alone that ask for what lives in its VMs.
func TestALabWithOtherGuests(t *testing.T) {
	s := guestsFile(t, "2GiB")
	err := s.labHas(labctl.State{})
	assert.Equal(t, invalid, code(err))
	require.ErrorContains(t, err, "the lab runs with simulated VMs, and real asks for real VMs in 10.0.0.0/24 behind 10.0.0.1 with internet\nend it with go tool mage lab:stop")
	g := s.guestsOf()
	g.Image = "/somewhere"
	require.NoError(t, s.labHas(labctl.State{Guests: g}))
	assert.Contains(t, s.guestsOf().Banner(), "VMs, SSH and Kubernetes are real")

	s = &Session{Spec: labFile(t, "one-gpu")}
	require.NoError(t, s.labHas(labctl.State{}))
	require.ErrorContains(t, s.labHas(labctl.State{Guests: g}), "the lab runs with real VMs in 10.0.0.0/24")
	assert.Equal(t, labctl.Banner, s.guestsOf().Banner())
}
