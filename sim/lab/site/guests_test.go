package site_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
)

// realLab has real VMs, in a network without internet.
func realLab(t *testing.T, dir string) labctl.State {
	t.Helper()
	image := labtest.Image(t)
	s, err := labctl.Start(t.Context(), labctl.Options{Dir: dir, Binary: labtest.Binary(t, labtest.Real()), Model: "one-gpu", Guests: labctl.Guests{
		Image: filepath.Dir(image.Disk), Network: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, labctl.Stop(context.WithoutCancel(t.Context()), dir)) })
	return s
}

// switchOn makes a VM of the image and starts it.
func switchOn(t *testing.T, s labctl.State) {
	t.Helper()
	token, err := s.Token()
	require.NoError(t, err)
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{
		Endpoint: s.Endpoint, Fingerprint: s.Fingerprint, TokenID: s.TokenID, TokenSecret: token, Poll: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	image, err := pve.Storages.Fetch(t.Context(), "pve1", "local", proxmox.Image{URL: "https://lab.invalid/debian.qcow2", SHA256: s.ImageSHA256, FileName: "debian.qcow2"})
	require.NoError(t, err)
	vm, err := pve.VMs.Create(t.Context(), proxmox.CreateSpec{
		Host: "pve1", Name: "debian", Owner: "test", Image: image, Storage: "vmdata", DiskSize: 4 << 30, Cores: 1, Memory: 512 << 20,
		NICs: []proxmox.NIC{{Bridge: "vmbr0"}},
	})
	require.NoError(t, err)
	require.NoError(t, pve.VMs.Start(t.Context(), vm))
}

func processes(t *testing.T, dir string) []labctl.Process {
	t.Helper()
	status, err := labctl.Stat(t.Context(), dir)
	require.NoError(t, err)
	return status.Processes
}

// A lab with real VMs has no control plane of its own, says what it is, and is not taken
// for one with simulated ones.
func TestALabWithRealGuests(t *testing.T) {
	dir := t.TempDir()
	s := realLab(t, dir)
	assert.Contains(t, s.Guests.Banner(), "VMs, SSH and Kubernetes are real")
	assert.Len(t, s.ImageSHA256, 64)
	_, err := labctl.Start(t.Context(), labctl.Options{Dir: dir, Model: "one-gpu"})
	require.ErrorContains(t, err, "runs with real VMs in 10.0.0.0/24 behind 10.0.0.1 without internet, and simulated VMs and Kubernetes are asked for")

	switchOn(t, s)
	all := processes(t, dir)
	require.Len(t, all, 2, "the lab, and a VM: no etcd, no API server")
	assert.Equal(t, "qemu-system-x86_64 debian", all[1].Name)
	assert.DirExists(t, filepath.Join(dir, "guests"))
	require.NoError(t, labctl.Stop(t.Context(), dir))
	require.NoError(t, gone(all))
	assert.NoDirExists(t, filepath.Join(dir, "guests"))
}

// A lab that is killed takes its VMs with it, and the next one begins again.
func TestCrashLeavesNoVM(t *testing.T) {
	dir := t.TempDir()
	s := realLab(t, dir)
	switchOn(t, s)
	all := processes(t, dir)
	require.True(t, slices.ContainsFunc(all, func(p labctl.Process) bool { return strings.HasPrefix(p.Name, "qemu") }), "%v", all)
	require.NoError(t, syscall.Kill(s.PID, syscall.SIGKILL))
	for began := time.Now(); gone(all) != nil && time.Since(began) < 5*time.Second; {
		time.Sleep(20 * time.Millisecond)
	}
	require.NoError(t, gone(all[1:]), "a VM outlived the lab")
	left, err := os.ReadDir(filepath.Join(dir, "guests"))
	require.NoError(t, err)
	assert.NotEmpty(t, left)

	next := realLab(t, dir)
	assert.NotEqual(t, s.PID, next.PID)
	left, err = os.ReadDir(filepath.Join(dir, "guests"))
	require.NoError(t, err)
	assert.Empty(t, left)
}
