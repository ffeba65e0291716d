package pvesim_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// rootShell is root's on a node: each command logs in on its own, since the node may restart.
type rootShell func(stdin string, args ...string) (string, error)

// shell lets a new key log in.
func shell(t *testing.T, s *pvesim.Sim, node string) rootShell {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := xssh.NewSignerFromKey(private)
	require.NoError(t, err)
	sh, err := s.HostShell(t.Context(), node, string(xssh.MarshalAuthorizedKey(signer.PublicKey())))
	require.NoError(t, err)
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(sh.HostKey))
	require.NoError(t, err)
	config := &xssh.ClientConfig{User: "root", Auth: []xssh.AuthMethod{xssh.PublicKeys(signer)}, HostKeyCallback: xssh.FixedHostKey(key)}
	return func(stdin string, args ...string) (string, error) {
		conn, err := s.Network().Dial(t.Context(), "tcp", sh.Address.String())
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		login, channels, requests, err := xssh.NewClientConn(conn, sh.Address.String(), config)
		if err != nil {
			return "", err
		}
		session, err := xssh.NewClient(login, channels, requests).NewSession()
		if err != nil {
			return "", err
		}
		var out, said strings.Builder
		session.Stdin, session.Stdout, session.Stderr = strings.NewReader(stdin), &out, &said
		if err := session.Run("'" + strings.Join(args, "' '") + "'"); err != nil {
			return "", fmt.Errorf("%w: %s", err, said.String())
		}
		return out.String(), nil
	}
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
			out, err := r("", args...)
			require.NoError(t, err)
			return strings.TrimSpace(out)
		}
		assert.Contains(t, hardware(t, s), `"iommugroup":-1`)
		assert.Equal(t, "../../../../bus/pci/drivers/nouveau", say("readlink", "/sys/bus/pci/devices/0000:01:00.0/driver"))

		// A file alone changes nothing, and nor does a reboot.
		reboot := func() {
			_, _ = r("", "systemctl", "reboot")
			time.Sleep(time.Second * 10)
			assert.Contains(t, hardware(t, s), "595", "the API is away as well")
			time.Sleep(5 * time.Minute)
		}
		for file, text := range map[string]string{
			"/etc/kernel/cmdline": "root=ZFS=rpool/ROOT/pve-1 boot=zfs\n", "/etc/modprobe.d/v.conf": "blacklist nouveau\noptions vfio-pci ids=10de:2684\n",
		} {
			_, err := r(text, "tee", file)
			require.NoError(t, err)
		}
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
		_, err := r("", "pveum", "role", "add", "Test", "--privs", "VM.Audit")
		assert.ErrorContains(t, err, "already exists")
		_, err = r("", "pveum", "realm", "sync", "x")
		assert.ErrorContains(t, err, "not simulated")
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
			out, err := r(stdin, args...)
			require.NoError(t, err, args)
			return out
		}
		say("#cloud-config\n", "tee", "/var/lib/vz/snippets/a.yaml")
		list := say("", "pvesh", "get", "/nodes/pve1/storage/local/content", "--output-format", "json")
		assert.Contains(t, list, "local:snippets/a.yaml")
		say("", "rm", "/var/lib/vz/snippets/a.yaml")
		list = say("", "pvesh", "get", "/nodes/pve1/storage/local/content", "--output-format", "json")
		assert.NotContains(t, list, "a.yaml")

		assert.Equal(t, "/var/lib/vz/template/iso/noble.img\n", say("", "/usr/sbin/pvesm", "path", "local:iso/noble.img"))
		assert.Regexp(t, `(?s)TASK OK\nUPID:pve1:.*:qmcreate:300:root@pam:\n$`, say("", "pvesh", "create", "/nodes/pve1/qemu", "--vmid", "300"))
		out := say("", "/usr/sbin/qm", "disk", "import", "300", "/var/lib/vz/template/iso/noble.img", "local", "-format", "qcow2")
		assert.Contains(t, out, "unused0: successfully imported disk 'local:300/vm-300-disk-0.qcow2'\n")
		say("", "qm", "set", "300", "-scsi0", "local:300/vm-300-disk-0.qcow2,discard=on")
		config := say("", "pvesh", "get", "/nodes/pve1/qemu/300/config", "--output-format", "json")
		assert.Contains(t, config, `"scsi0":"local:300/vm-300-disk-0.qcow2,discard=on,size=3584M"`)
		assert.NotContains(t, config, "unused0")
	})
}
