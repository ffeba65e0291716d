package examples_test

import (
	"bytes"
	"crypto/tls"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/iso9660"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestPrograms runs what an outside module has built.
func TestPrograms(t *testing.T) {
	dir := outside(t)
	t.Run("attach-gpu", func(t *testing.T) { attachGPU(t, dir) })
	t.Run("render-seed", func(t *testing.T) { renderSeed(t, dir) })
	t.Run("pick-driver", func(t *testing.T) { pickDriver(t, dir) })
	t.Run("keep-file", func(t *testing.T) { keepFile(t, dir) })
}

// attachGPU gives cards of a simulated host, over TLS, to a VM that runs there.
func attachGPU(t *testing.T, dir string) {
	model := pvesim.EightA100()
	model.VMs = append(model.VMs, pvesim.VM{ID: 110, Node: "pve1", Name: "trainer", Running: true, Config: map[string]string{
		"cores": "8", "memory": "32768", "machine": "q35", "bios": "ovmf", "ostype": "l26", "tags": "lab",
		"efidisk0": "vmdata:vm-110-disk-0,efitype=4m,size=1M", "scsi0": "vmdata:vm-110-disk-1,size=64G", "boot": "order=scsi0",
	}})
	sim := pvesim.New(model, pvesim.Options{Speed: 100})
	defer sim.Close()
	certificate, fingerprint, err := sim.TLS()
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(sim.Handler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	defer server.Close()
	token, secret := sim.Token()
	attach := func(args ...string) result {
		r := run(t, dir, "01-attach-gpu", []string{"PROXMOX_TOKEN_SECRET=" + secret}, append([]string{
			"-endpoint", server.URL, "-token", token, "-fingerprint", fingerprint, "-vmid", "110"}, args...)...)
		assert.NotContains(t, r.stdout+r.stderr, secret)
		return r
	}

	first := attach("-mapping", "trainer-gpu", "-card", "41:00")
	require.Zero(t, first.code, first.stderr)
	assert.Contains(t, first.stdout, "trainer (VM 110 on pve1) has")
	assert.Contains(t, first.stdout, "trainer-gpu")
	assert.Contains(t, first.stdout, "it runs: the card comes with its next start")

	sim.ForgetRequests()
	again := attach("-mapping", "trainer-gpu", "-card", "0000:41:00.0")
	assert.Zero(t, again.code, again.stderr)
	assert.Equal(t, first.stdout, again.stdout)
	for _, r := range sim.Requests() {
		assert.False(t, r.Mutating, "the second run: %s %s", r.Method, r.Path)
	}

	for want, args := range map[string][]string{
		"there is no mapping none":              {"-mapping", "none"},
		"pve1 has no NVIDIA card at 0000:42:00": {"-card", "42:00"},
		"there is no VM 999":                    {"-vmid", "999"},
		`PCI address "first"`:                   {"-card", "first"},
	} {
		r := attach(args...)
		assert.Equal(t, 1, r.code, want)
		assert.Contains(t, r.stderr, want)
	}
	other := attach("-fingerprint", strings.Repeat("00:", 31)+"00")
	assert.Equal(t, 1, other.code)
	assert.Contains(t, other.stderr, fingerprint, "the fingerprint to compare and write down")
}

func renderSeed(t *testing.T, dir string) {
	_, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	folder := t.TempDir()
	key, image := filepath.Join(folder, "id.pub"), filepath.Join(folder, "wk1.iso")
	write(t, key, public+"\n")
	args := []string{"-name", "wk1", "-key", key, "-mac", "BC:24:11:00:00:21", "-address", "10.0.0.21/24", "-gateway", "10.0.0.1", "-scratch", "scratch", "-out", image}
	r := run(t, dir, "02-render-seed", nil, args...)
	require.Zero(t, r.code, r.stderr)
	assert.Regexp(t, `digest [0-9a-f]{12}  instance wk1-[0-9a-f]{12}\n$`, r.stdout)
	first, err := os.ReadFile(image)
	require.NoError(t, err)
	files, label, err := iso9660.Files(bytes.NewReader(first), int64(len(first)))
	require.NoError(t, err)
	assert.Equal(t, "cidata", label)
	assert.Contains(t, string(files["meta-data"]), "local-hostname: wk1")
	assert.Contains(t, string(files["network-config"]), "10.0.0.21/24")
	assert.Contains(t, string(files["user-data"]), public)
	assert.Contains(t, string(files["user-data"]), "/scratch")

	again := run(t, dir, "02-render-seed", nil, args...)
	assert.Equal(t, r.stdout, again.stdout)
	second, err := os.ReadFile(image)
	require.NoError(t, err)
	assert.Equal(t, first, second, "equal flags give equal bytes")

	bad := run(t, dir, "02-render-seed", nil, "-key", key, "-address", "10.0.0.21/24", "-out", image)
	assert.Equal(t, 1, bad.code)
	assert.Contains(t, bad.stderr, `MAC address ""`)
}

func pickDriver(t *testing.T, dir string) {
	r := run(t, dir, "04-pick-driver", nil, "10de:20f1")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "driver:   580-server-open\n")
	assert.Contains(t, r.stdout, "NVIDIA A100-PCIE-40GB")
	assert.Contains(t, r.stdout, " linux-modules-nvidia-580-server-open-generic ")

	r = run(t, dir, "04-pick-driver", nil, "10de:20f1", "10de:1db4")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "driver:   580-server\n", "one driver for both: the V100 cannot have the open modules")

	r = run(t, dir, "04-pick-driver", nil, "-branch", "595-server-open", "10de:1db4")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "branch 580 is the last for NVIDIA Tesla V100")
	assert.Empty(t, r.stdout)
}

func keepFile(t *testing.T, dir string) {
	path := filepath.Join(t.TempDir(), "motd", "today")
	keep := func(args ...string) string {
		r := run(t, dir, "05-keep-file", nil, append([]string{"-path", path, "-text", "back at nine"}, args...)...)
		assert.Zero(t, r.code, r.stderr)
		return r.stdout
	}
	assert.Contains(t, keep("-plan"), "file deferred")
	assert.NoFileExists(t, path, "a plan changes nothing")
	assert.Contains(t, keep(), "file changed")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "back at nine", string(text))
	assert.Contains(t, keep("-plan"), "file clean")
	assert.Contains(t, keep(), "file unchanged")
	write(t, path, "drifted")
	assert.Contains(t, keep("-plan"), "content: drifted → back at nine")

	r := run(t, dir, "05-keep-file", nil, "-path", filepath.Join(path, "below", "a-file"))
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "not a directory")
}
