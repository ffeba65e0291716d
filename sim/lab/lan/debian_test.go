package lan

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/cloudinit"
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

// boot switches one on, with the seed that a file server would have.
func (d *debians) boot(t *testing.T, vmid int, name, addr, card string) *ssh.Client {
	t.Helper()
	seed, err := cloudinit.RenderPlain(cloudinit.Machine{
		Hostname: name, User: "debian", AuthorizedKeys: []string{d.public}, FreshHostKeys: true, MAC: card,
		Address: netip.PrefixFrom(netip.MustParseAddr(addr), 24), Gateway: d.lan.o.Gateway,
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

// Two real guests are reached, and reach each other; nothing that they send gets out.
func TestRealGuestsReachEachOther(t *testing.T) {
	d := newDebians(t)
	a := d.boot(t, 101, "a", "10.0.0.11", "BC:24:11:00:00:0A")
	b := d.boot(t, 102, "b", "10.0.0.12", "BC:24:11:00:00:0B")
	login(t, a)
	login(t, b)
	said := func(c *ssh.Client, script string) string {
		out, err := remote.Output(t.Context(), c, "bash", "-c", script)
		require.NoError(t, err)
		return string(out)
	}
	assert.Equal(t, "SSH-2.0-", said(a, `exec 3<>/dev/tcp/10.0.0.12/22 && head -c 8 <&3`))
	assert.Equal(t, "SSH-2.0-", said(b, `exec 3<>/dev/tcp/10.0.0.11/22 && head -c 8 <&3`))
	assert.Contains(t, said(a, `(timeout 20 bash -c '</dev/tcp/192.0.2.1/443' && echo out) 2>&1; true`), "Connection refused")
	assert.Contains(t, said(a, `(timeout 20 bash -c '</dev/tcp/10.0.0.99/22' && echo there) 2>&1; true`), "No route to host")
}
