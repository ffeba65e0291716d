package lan

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// debians are real guests in one network.
type debians struct {
	lan    *LAN
	q      *qemu.Hypervisor
	signer xssh.Signer
	public string
}

func newDebians(t *testing.T) *debians {
	t.Helper()
	image := labtest.Image(t)
	d := &debians{lan: newLAN(t, Options{})}
	var err error
	d.q, err = qemu.New(qemu.Options{Image: image, Network: d.lan.o.Prefix, Gateway: d.lan.o.Gateway, Dir: t.TempDir(), LAN: d.lan})
	require.NoError(t, err)
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	d.signer, err = ssh.ParseSigner(private)
	require.NoError(t, err)
	d.public = public
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.q.Consoles(40))
		}
	})
	return d
}

// boot switches one on, with the seed that a file server would have. Its card storage is in VLAN 30
// of another bridge, and apart in a VLAN of its own.
func (d *debians) boot(t *testing.T, vmid int, name string) *ssh.Client {
	t.Helper()
	addr, card := fmt.Sprintf("10.0.0.%d", vmid), fmt.Sprintf("02:00:00:00:00:%d", vmid)
	further := func(name string, net int) cloudinit.Card {
		return cloudinit.Card{
			Name: name, MAC: fmt.Sprintf("02:00:00:00:%d:%d", net, vmid), MTU: 9000,
			Address: netip.MustParsePrefix(fmt.Sprintf("10.%d.0.%d/24", net, vmid)),
		}
	}
	storage, apart := further("storage", 10), further("apart", 11)
	seed, err := cloudinit.RenderPlain(cloudinit.Machine{
		Hostname: name, User: "debian", AuthorizedKeys: []string{d.public}, FreshHostKeys: true, MAC: card,
		Address: netip.PrefixFrom(netip.MustParseAddr(addr), 24), Gateway: d.lan.o.Gateway, Cards: []cloudinit.Card{storage, apart},
	})
	require.NoError(t, err)
	iso, err := seed.ISO()
	require.NoError(t, err)
	disk, err := d.q.Open(d.q.ImageFile())
	require.NoError(t, err)
	m := d.q.Plug(pvesim.Board{
		VMID: vmid, CPUs: 1, Memory: 512 << 20, QEMU: "10.1.2", Network: new(guest.Network),
		Config: map[string]string{
			"name": name, "machine": "q35", "scsihw": "virtio-scsi-single", "agent": "enabled=1", "balloon": "0",
			"scsi0": "vmdata:disk,size=4G", "ide2": "local:iso/seed.iso,media=cdrom", "net0": "virtio=" + card + ",bridge=vmbr0",
			"net1": "virtio=" + storage.MAC + ",bridge=vmbr1,tag=30,mtu=9000",
			"net2": fmt.Sprintf("virtio=%s,bridge=vmbr1,tag=%d,mtu=9000", apart.MAC, vmid),
		},
		Drives: []pvesim.Drive{{Key: "scsi0", Size: 4 << 30, Disk: disk}},
		Seed:   func() ([]byte, error) { return iso, nil },
	})
	require.NoError(t, m.Boot(t.Context()))
	t.Cleanup(m.Kill)
	c := ssh.New(ssh.Config{
		Addr: net.JoinHostPort(addr, "22"), User: "debian", Signers: []xssh.Signer{d.signer}, Dial: d.lan.Dial,
		HostKeys: func(context.Context, string) ([]xssh.PublicKey, error) {
			line, err := m.AgentReadFile("/etc/ssh/ssh_host_ed25519_key.pub")
			if err != nil {
				return nil, err
			}
			key, err := ssh.ParseAuthorizedKey(string(line))
			return []xssh.PublicKey{key}, err
		},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// login waits until one may log in.
func login(t *testing.T, c *ssh.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for {
		_, err := remote.Output(ctx, c, "true")
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			require.NoError(t, err, "no login")
		case <-time.After(time.Second):
		}
	}
}

// Two real guests are reached, and reach each other, also after a reboot and with frames of 9000
// bytes over the cards that have a VLAN in common; nothing that they send gets out. Emulation takes a processor for minutes,
// so every third share has this; cluster.TestRealGuest boots one in each.
func TestRealGuestsReachEachOther(t *testing.T) {
	if !share.OneOf(t, 3, "real guests").Next() {
		return
	}
	d := newDebians(t)
	a, b := d.boot(t, 11, "a"), d.boot(t, 12, "b")
	login(t, a)
	login(t, b)
	said := func(c *ssh.Client, script string) string {
		out, err := remote.Output(t.Context(), c, "bash", "-c", script)
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	const booted = "cat /proc/sys/kernel/random/boot_id"
	first := said(b, booted)
	_, _ = remote.Output(t.Context(), b, "sudo", "systemctl", "reboot") // the connection may end first
	require.Eventually(t, func() bool {
		login(t, b)
		now, err := remote.Output(t.Context(), b, "bash", "-c", booted) // which may be answered by what is about to end
		return err == nil && strings.TrimSpace(string(now)) != first
	}, 5*time.Minute, time.Second)
	assert.Equal(t, "SSH-2.0-", said(a, `exec 3<>/dev/tcp/10.0.0.12/22 && head -c 8 <&3`))
	assert.Equal(t, "SSH-2.0-", said(b, `exec 3<>/dev/tcp/10.0.0.11/22 && head -c 8 <&3`))
	assert.Equal(t, "SSH-2.0-", said(a, `exec 3<>/dev/tcp/10.10.0.12/22 && head -c 8 <&3`))
	assert.Contains(t, said(b, "ip -4 -br addr"), "10.11.0.12/24")
	assert.Contains(t, said(a, `(timeout 20 bash -c '</dev/tcp/10.11.0.12/22' && echo there) 2>&1; true`), "No route to host", "other VLANs")
	send := func(size int) string {
		return said(a, fmt.Sprintf(`python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(0, 10, 2) # IP_MTU_DISCOVER: do not fragment
s.settimeout(20)
s.connect(("10.10.0.12", 9))
s.send(bytes(%d))
s.recv(1)' 2>&1 | tail -n 1`, size))
	}
	assert.Contains(t, send(9000-28), "Connection refused", "b has it, and answers")
	assert.Contains(t, send(9000-27), "Message too long")
	assert.Contains(t, said(a, `(timeout 20 bash -c '</dev/tcp/192.0.2.1/443' && echo out) 2>&1; true`), "Connection refused")
	assert.Contains(t, said(a, `(timeout 20 bash -c '</dev/tcp/10.0.0.99/22' && echo there) 2>&1; true`), "No route to host")
}
