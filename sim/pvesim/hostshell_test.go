package pvesim_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// shell is root's on a node.
func shell(t *testing.T, s *pvesim.Sim, node string) remote.Runner {
	t.Helper()
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := xssh.ParsePrivateKey(private)
	require.NoError(t, err)
	sh, err := s.HostShell(t.Context(), node, public)
	require.NoError(t, err)
	key, err := ssh.ParseAuthorizedKey(sh.HostKey)
	require.NoError(t, err)
	c := ssh.New(ssh.Config{Addr: sh.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: s.Network().Dial})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// hardware is what the API says of a card.
func hardware(t *testing.T, s *pvesim.Sim) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://pve1/api2/json/nodes/pve1/hardware/pci", nil)
	require.NoError(t, err)
	id, secret := s.Token()
	req.Header.Set("Authorization", "PVEAPIToken="+id+"="+secret)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.Status + string(body)
}

func TestHostShell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pvesim.OneGPU()
		m.Hosts[0].OS = pvesim.HostOS{Fresh: true, Loader: "systemd-boot", Cmdline: "amd_iommu=off"}
		s := pvesim.New(m, pvesim.Options{})
		defer s.Close()
		r := shell(t, s, "pve1")
		say := func(args ...string) string {
			out, err := remote.Output(t.Context(), r, args...)
			require.NoError(t, err)
			return strings.TrimSpace(string(out))
		}
		assert.Contains(t, hardware(t, s), `"iommugroup":-1`)
		assert.Equal(t, "../../../../bus/pci/drivers/nouveau", say("readlink", "/sys/bus/pci/devices/0000:01:00.0/driver"))

		// A file alone changes nothing, and nor does a reboot.
		reboot := func() {
			_ = remote.Run(t.Context(), r, "systemctl", "reboot")
			time.Sleep(time.Second * 10)
			assert.Contains(t, hardware(t, s), "595", "the API is away as well")
			time.Sleep(5 * time.Minute)
		}
		require.NoError(t, remote.WriteFile(t.Context(), r, "/etc/kernel/cmdline", []byte("root=ZFS=rpool/ROOT/pve-1 boot=zfs\n"), 0o644))
		require.NoError(t, remote.WriteFile(t.Context(), r, "/etc/modprobe.d/v.conf", []byte("blacklist nouveau\noptions vfio-pci ids=10de:2684\n"), 0o644))
		reboot()
		assert.Contains(t, say("cat", "/proc/cmdline"), "amd_iommu=off", "the boot loader was not told")
		assert.Contains(t, say("lspci", "-k"), "Kernel driver in use: nouveau", "nor was the initramfs made again")
		say("update-initramfs", "-u", "-k", "all")
		reboot()
		assert.NotContains(t, say("cat", "/proc/cmdline"), "amd_iommu=off")
		assert.Contains(t, say("lspci", "-k"), "Kernel driver in use: vfio-pci")
		assert.Contains(t, hardware(t, s), `"iommugroup":13`)

		// Proxmox's programs are the API.
		assert.Contains(t, say("pveum", "role", "list", "--output-format", "json"), `"roleid":"PVEAuditor"`)
		say("pveum", "role", "add", "Test", "--privs", "VM.Audit")
		assert.Contains(t, say("pvesh", "get", "/access/roles/Test", "--output-format", "json"), `"VM.Audit":1`)
		err := remote.Run(t.Context(), r, "pveum", "role", "add", "Test", "--privs", "VM.Audit")
		assert.ErrorContains(t, err, "already exists")
		assert.ErrorContains(t, remote.Run(t.Context(), r, "pveum", "realm", "sync", "x"), "not simulated")
		assert.Contains(t, say("pveversion"), "pve-manager/9.2.11/")
	})
}

func TestHostShellEndsWithTheSim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
		_ = shell(t, s, "pve1")
		s.Close()
		_, err := s.HostShell(context.WithoutCancel(t.Context()), "pve1")
		assert.Error(t, err)
	})
}

// What tools do over SSH that the API cannot: snippets are written into a storage's folder,
// and a disk is imported from a file that is not an image for import.
func TestStoragesFromTheShell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pvesim.OneGPU()
		m.Hosts[0].Storages[0].Content = append(m.Hosts[0].Storages[0].Content, "snippets", "images")
		m.Hosts[0].Storages[0].Files = append(m.Hosts[0].Storages[0].Files, pvesim.File{Name: "iso/noble.img", URL: "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"})
		s := pvesim.New(m, pvesim.Options{})
		defer s.Close()
		r := shell(t, s, "pve1")
		say := func(stdin string, args ...string) string {
			var out strings.Builder
			require.NoError(t, r.Run(t.Context(), remote.Cmd{Args: args, Stdin: strings.NewReader(stdin), Stdout: &out}), args)
			return out.String()
		}
		say("#cloud-config\n", "tee", "/var/lib/vz/snippets/a.yaml")
		list := say("", "pvesh", "get", "/nodes/pve1/storage/local/content", "--output-format", "json")
		assert.Contains(t, list, "local:snippets/a.yaml")
		say("", "rm", "/var/lib/vz/snippets/a.yaml")
		list = say("", "pvesh", "get", "/nodes/pve1/storage/local/content", "--output-format", "json")
		assert.NotContains(t, list, "a.yaml")

		assert.Equal(t, "/var/lib/vz/template/iso/noble.img\n", say("", "/usr/sbin/pvesm", "path", "local:iso/noble.img"))
		say("", "pvesh", "create", "/nodes/pve1/qemu", "--vmid", "300")
		time.Sleep(time.Minute)
		out := say("", "/usr/sbin/qm", "disk", "import", "300", "/var/lib/vz/template/iso/noble.img", "local", "-format", "qcow2")
		assert.Contains(t, out, "unused0: successfully imported disk 'local:300/vm-300-disk-0.qcow2'\n")
		say("", "qm", "set", "300", "-scsi0", "local:300/vm-300-disk-0.qcow2,discard=on")
		config := say("", "pvesh", "get", "/nodes/pve1/qemu/300/config", "--output-format", "json")
		assert.Contains(t, config, `"scsi0":"local:300/vm-300-disk-0.qcow2,discard=on,size=3584M"`)
		assert.NotContains(t, config, "unused0")
	})
}
