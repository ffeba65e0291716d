package examples_test

import (
	"crypto/tls"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// serve offers a simulated host over TLS, and returns what a program's environment says of it.
func serve(t *testing.T, model pvesim.Model) (*pvesim.Sim, []string) {
	t.Helper()
	sim := pvesim.New(model, pvesim.Options{Speed: 100})
	t.Cleanup(sim.Close)
	certificate, fingerprint, err := sim.TLS()
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(sim.Handler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	token, value := sim.Token()
	return sim, []string{"PROXMOX=" + server.URL, "PROXMOX_TOKEN=" + token, "PROXMOX_TOKEN_SECRET=" + value, "PROXMOX_FINGERPRINT=" + fingerprint}
}

// changed says what was asked of a host that changes something.
func changed(sim *pvesim.Sim) (out []string) {
	for _, r := range sim.Requests() {
		if r.Mutating {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

// TestAttachGPU gives a card of a simulated host to a VM that runs there.
func TestAttachGPU(t *testing.T) {
	model := pvesim.EightA100()
	model.VMs = append(model.VMs, pvesim.VM{ID: 110, Node: "pve1", Name: "trainer", Running: true, Config: map[string]string{
		"cores": "8", "memory": "32768", "machine": "q35", "bios": "ovmf", "ostype": "l26", "tags": "lab",
		"efidisk0": "vmdata:vm-110-disk-0,efitype=4m,size=1M", "scsi0": "vmdata:vm-110-disk-1,size=64G", "boot": "order=scsi0",
	}})
	sim, env := serve(t, model)
	_, value := sim.Token()
	attach := func(args ...string) result {
		r := run(t, "01-attach-gpu", env, append([]string{"-vmid", "110", "-mapping", "trainer-gpu"}, args...)...)
		assert.NotContains(t, r.stdout+r.stderr, value)
		return r
	}
	first := attach("-card", "41:00")
	require.Zero(t, first.code, first.stderr)
	assert.Contains(t, first.stdout, "trainer (VM 110 on pve1) has")
	assert.Contains(t, first.stdout, "trainer-gpu")
	assert.Contains(t, first.stdout, "from its next start: true")

	sim.ForgetRequests()
	again := attach("-card", "0000:41:00.0")
	assert.Zero(t, again.code, again.stderr)
	assert.Equal(t, first.stdout, again.stdout)
	assert.Empty(t, changed(sim), "the second run")

	for want, args := range map[string][]string{
		"pve1 has no NVIDIA card at 0000:42:00": {"-card", "42:00"},
		"VM 999":                                {"-card", "41:00", "-vmid", "999"},
		`"first" is not a PCI address`:          {"-card", "first"},
	} {
		r := attach(args...)
		assert.Equal(t, 1, r.code, want)
		assert.Contains(t, r.stderr, want)
	}
	fingerprint := env[3]
	env[3] = "PROXMOX_FINGERPRINT=" + strings.Repeat("00:", 31) + "00"
	other := attach("-card", "41:00")
	assert.Equal(t, 1, other.code)
	assert.Contains(t, other.stderr, strings.TrimPrefix(fingerprint, "PROXMOX_FINGERPRINT="), "the fingerprint to compare and write down")
}

// TestThreeVMs makes them of a template that was baked before, and boots them.
func TestThreeVMs(t *testing.T) {
	sim, env := serve(t, pvesim.EightA100())
	bake(t, sim, 9000)
	_, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "id.pub")
	write(t, key, public+"\n")
	three := func() result { return run(t, "02-three-vms", env, "-host", "pve1", "-template", "9000", "-key", key) }
	first := three()
	require.Zero(t, first.code, first.stderr)
	assert.Regexp(t, `worker1 \(VM \d+ on pve1\) answers: true\nworker2 .* true\nworker3 .* true\n$`, first.stdout)
	sim.ForgetRequests()
	again := three()
	assert.Zero(t, again.code, again.stderr)
	assert.Equal(t, first.stdout, again.stdout)
	for _, what := range changed(sim) {
		assert.Equal(t, "POST /nodes/pve1/storage/local/upload", what, "the second run changes no VM")
	}
}

// bake makes a template that has the guest agent.
func bake(t *testing.T, sim *pvesim.Sim, vmid int) {
	t.Helper()
	ctx := t.Context()
	id, value := sim.Token()
	pve, err := proxmox.Dial(ctx, proxmox.Config{Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client()})
	require.NoError(t, err)
	const url = "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"
	content, err := guest.DefaultInternet()(url)
	require.NoError(t, err)
	image, err := pve.Storages.Fetch(ctx, "pve1", "local", proxmox.Image{URL: url, SHA256: guest.SHA256(content), FileName: "noble.qcow2"})
	require.NoError(t, err)
	cloud, err := cloudinit.RenderTemplate(cloudinit.Bake{Hostname: "bake"})
	require.NoError(t, err)
	iso, err := cloud.ISO()
	require.NoError(t, err)
	seed, err := pve.Storages.Upload(ctx, "pve1", "local", "bake.iso", iso)
	require.NoError(t, err)
	vm, err := pve.VMs.Create(ctx, proxmox.CreateSpec{
		Name: "noble", Host: "pve1", Owner: "images", VMID: vmid, Image: image, Storage: "vmdata", DiskSize: 16 * proxmox.GiB,
		Cores: 2, Memory: 4 * proxmox.GiB, NICs: []proxmox.NIC{{Bridge: "vmbr0"}}, Seed: seed,
	})
	require.NoError(t, err)
	require.NoError(t, pve.VMs.Start(ctx, vm))
	require.NoError(t, pve.Agents.Wait(ctx, vm))
	require.NoError(t, pve.VMs.Shutdown(ctx, vm))
	require.NoError(t, pve.Templates.Convert(ctx, vm))
}

// TestWholeCluster plans one against a simulated host; sessions of ours run such clusters whole.
func TestWholeCluster(t *testing.T) {
	sim, env := serve(t, pvesim.OneGPU())
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "id")
	require.NoError(t, os.WriteFile(key, private, 0o600))
	r := run(t, "07-whole-cluster", env, "-key", key)
	require.Zero(t, r.code, r.stderr)
	assert.Regexp(t, `^\d\d steps, something to do: true, in doubt: <nil>\n$`, r.stdout)
	assert.Empty(t, changed(sim), "a plan changes nothing")
}

func TestChooseDriver(t *testing.T) {
	r := run(t, "04-gpu-driver", nil, "10de:20f1")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "driver:   580-server-open\n")
	assert.Contains(t, r.stdout, "NVIDIA A100-PCIE-40GB")
	assert.Contains(t, r.stdout, " linux-modules-nvidia-580-server-open-generic ")

	r = run(t, "04-gpu-driver", nil, "-branch", "595-server-open", "10de:1db4")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "branch 580 is the last for NVIDIA Tesla V100")
	assert.Empty(t, r.stdout)
}

func TestHubValues(t *testing.T) {
	r := run(t, "05-hub-values", nil, "hub.lab.example")
	require.Zero(t, r.code, r.stderr)
	assert.Regexp(t, `(?m)^two .* 2$`, r.stderr, "how many can run at once")
	assert.Contains(t, r.stdout, "nvidia.com/gpu: \"2\"")
	assert.Contains(t, r.stdout, "hub.lab.example")
}

func TestLintRepository(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "apps/web/fleet.yaml"), "defaultNamespace: web\n")
	write(t, filepath.Join(folder, "apps/web/web.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n")
	r := run(t, "06-lint-repository", nil, folder)
	assert.Zero(t, r.code, r.stdout+r.stderr)
	write(t, filepath.Join(folder, "apps/web/fleet.yaml"), "defaultNamespace: web\ndependOn:\n- name: database\n")
	r = run(t, "06-lint-repository", nil, folder)
	assert.Equal(t, 1, r.code, r.stderr)
	assert.Contains(t, r.stdout, `apps/web/fleet.yaml:2:1: error: fleet.yaml knows no key "dependOn"`)
}
