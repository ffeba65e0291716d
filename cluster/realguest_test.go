package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/qemu"
)

const realImage = "https://images.example/trixie.qcow2"

const realSpec = `
name: real
patience: 6 # emulated machines are slow ones, and more so beside other work
proxmox: {endpoint: lab}
image: {url: ` + realImage + `, sha256: SUM}
network: {prefix: 10.0.0.11/32, gateway: 10.0.0.1, prefix6: "fd00:10::/64", gateway6: "fe80::1"}
k3s: {airgap: DIR}
guest: {apt: {mirror: http://127.0.0.1/debian}} # nobody answers: all packages are there
pools:
  cp:
    role: server
    count: 1
    addresses: [10.0.0.11]
    addresses6: ["fd00:10::11"]
    cores: 2
    memory: 2GiB
    disks:
      os: {size: 8GiB}
      data: {size: 1GiB, mount: /srv/data}
      logs: {size: 1GiB, mount: /srv/logs, fs: xfs}
    networks:
      storage: {bridge: vmbr1, mtu: 9000, prefix: 10.10.0.0/24, addresses: [10.10.0.11], routes: [{to: 10.20.0.0/16, via: 10.10.0.1}]}
      camera: {bridge: vmbr0, vlan: 30}
      office: {bridge: vmbr1, dhcp: true}
`

// realWorld is a simulated host whose VMs are real.
type realWorld struct {
	sim     *pvesim.Sim
	dir     string
	yaml    string
	byToken bool // the token's key logs in, in place of the one in dir
}

// newRealWorld leaves the test out where a machine cannot have real guests; CI can.
func newRealWorld(t *testing.T) *realWorld {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: real guests take minutes, and -short is set")
	}
	if lacks := qemu.Missing(); len(lacks) > 0 {
		if os.Getenv("CI") != "" && os.Getenv("HOMELAB_NO_GUESTS") == "" { // .ci/run sets it where they cannot be had
			require.Empty(t, lacks, "CI runs real guests, and this machine lacks Debian packages for them")
		}
		t.Skip("SKIPPED: this machine cannot run real guests, it lacks " + strings.Join(lacks, ", "))
	}
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	began := time.Now()
	image, err := qemu.Debian(t.Context(), filepath.Join(cache, "homelab"))
	if err != nil && os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("SKIPPED: no real guest: " + err.Error())
	}
	require.NoError(t, err)
	t.Logf("image after %s", time.Since(began).Round(time.Second))
	h, err := qemu.New(qemu.Options{
		Image: image, Network: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), Dir: t.TempDir(),
	})
	require.NoError(t, err)
	w := &realWorld{dir: t.TempDir()}
	w.yaml = strings.NewReplacer("SUM", fmt.Sprintf("%x", sha256.Sum256(h.ImageFile())), "DIR", w.dir).Replace(realSpec)
	model := pvesim.OneGPU()
	model.Hosts[0].Bridges, model.Hosts[0].MTUs = append(model.Hosts[0].Bridges, "vmbr1"), map[string]int{"vmbr1": 9000}
	w.sim = pvesim.New(model, pvesim.Options{
		Hypervisor: h,
		Timing:     pvesim.Timing{DownloadRate: pvesim.TiB, CopyRate: pvesim.TiB},
		Internet: func(url string) ([]byte, error) {
			if url != realImage {
				return nil, fmt.Errorf("%s: no such host", url)
			}
			return h.ImageFile(), nil
		},
	})
	t.Cleanup(func() {
		w.sim.Close()
		if t.Failed() {
			t.Log(h.Consoles(40))
		}
	})
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "id_ed25519"), private, 0o600))
	return w
}

// cluster binds a spec to the world.
func (w *realWorld) cluster(t *testing.T, yaml string) inside {
	t.Helper()
	spec, err := Parse("cluster.yaml", []byte(yaml))
	require.NoError(t, err)
	id, token := w.sim.Token()
	pve, err := proxmox.Dial(t.Context(), proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: w.sim.Client(),
	})
	require.NoError(t, err)
	b := Backend{Proxmox: pve, Dial: w.sim.Network().Dial, Dir: w.dir}
	if w.byToken {
		b.TokenKey, err = LoginKey(secret.New(token), spec.Name)
	} else {
		b.Signers = make([]ssh.Signer, 1)
		b.Signers[0], err = ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
	}
	require.NoError(t, err)
	c, err := New(spec, b)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return insideOf(c)
}

// onlyMachines are the steps of Up that make machines: as far as one gets without K3s.
func onlyMachines(c inside) *converge.Graph {
	up, templates := c.members.Graph(), parts.Refs{}
	removed := up.Add(c.removedStep())
	for _, h := range c.templates.Hosts() {
		templates[h] = up.Add(c.templates.Step(h))
	}
	c.boot(up, []*converge.Ref{up.Add(c.nodes.LoginStep())}, removed, templates)
	return up
}

// up brings the machines to what a file says, and sees that nothing is left to do.
func (w *realWorld) up(t *testing.T, yaml string) inside {
	t.Helper()
	c := w.cluster(t, yaml)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	start := time.Now()
	_, err := onlyMachines(c).Run(ctx, func(e converge.Event) {
		if e.Kind != converge.Checking {
			t.Logf("%6s %-9s %-14s %s %s", e.Time.Sub(start).Round(time.Second), e.Kind, e.Step, e.Diff, e.Message)
		}
	})
	require.NoError(t, err)
	w.settled(t, c)
	return c
}

func (w *realWorld) settled(t *testing.T, c inside) {
	t.Helper()
	plan, err := onlyMachines(c).Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	for _, it := range plan.Items {
		assert.Equal(t, converge.Clean, it.Verdict, "%s: %s", it.Step, it.Diff)
	}
}

// said is what a command says on the node.
func said(t *testing.T, c inside, args ...string) string {
	t.Helper()
	out, err := remote.Output(t.Context(), c.nodes.Root("cp1"), args...)
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// A node's life on a real Debian in a real QEMU: a template is baked and sealed, a node
// cloned from it, its disks made, grown, and found again after a reboot.
func TestRealGuest(t *testing.T) {
	w := newRealWorld(t)
	c := w.up(t, w.yaml)

	// The seed was read, the login works, and nothing of the template is left.
	assert.Equal(t, "cp1", said(t, c, "hostname"))
	assert.Contains(t, said(t, c, "cat", "/etc/os-release"), "VERSION_CODENAME=trixie")
	assert.Equal(t, "ext4", said(t, c, "findmnt", "-n", "-o", "FSTYPE", "/srv/data"))
	assert.Equal(t, "xfs", said(t, c, "findmnt", "-n", "-o", "FSTYPE", "/srv/logs"))
	t.Log(said(t, c, "lsblk", "-o", "NAME,SIZE,SERIAL,MOUNTPOINT"))
	t.Log(said(t, c, "ls", "/dev/disk/by-id"))
	t.Log(said(t, c, "systemd-analyze"))
	hasCards(t, c)

	// Larger, while it runs.
	larger := strings.ReplaceAll(w.yaml, "1GiB", "2GiB")
	c = w.up(t, larger)
	for _, at := range []string{"/srv/data", "/srv/logs"} {
		var size int64
		_, err := fmt.Sscan(said(t, c, "findmnt", "-n", "-b", "-o", "SIZE", at), &size)
		require.NoError(t, err)
		assert.Greater(t, size, int64(1800<<20), at)
	}

	// A reboot finds all of it again, before anything starts that is called K3s.
	said(t, c, "sh", "-c", `printf '%s\n' "$1" >/etc/systemd/system/k3s.service && systemctl enable --quiet k3s`, "sh", standIn)
	boot := said(t, c, "cat", "/proc/sys/kernel/random/boot_id")
	w.reboot(t, c)
	c = w.up(t, larger) // which waits for the login
	assert.NotEqual(t, boot, said(t, c, "cat", "/proc/sys/kernel/random/boot_id"))
	assert.Equal(t, "active", said(t, c, "systemctl", "is-active", "k3s"), "it found both disks mounted")
	hasCards(t, c)
	after := said(t, c, "systemctl", "show", "-p", "After", "k3s.service")
	assert.Contains(t, after, "srv-data.mount")
	assert.Contains(t, after, "srv-logs.mount")

	// The key is lost, and all that was kept here: the token's comes in through the agent.
	assert.Contains(t, said(t, c, "cat", firstboot.UserDataFile), firstboot.KeyBlob(ssh.AuthorizedKey(c.Signers[0].PublicKey())))
	w.dir, w.byToken = t.TempDir(), true
	plan, err := onlyMachines(w.cluster(t, larger)).Plan(t.Context())
	require.NoError(t, err)
	require.NoError(t, plan.Err())
	for _, it := range plan.Items {
		switch it.Step {
		case "login":
			assert.Contains(t, it.Diff.String(), "through its guest agent")
		case "vm/cp1", "seed/cp1":
			assert.Equal(t, converge.Clean, it.Verdict, "%s: %s", it.Step, it.Diff)
		}
	}
	c = w.up(t, larger)
	assert.Contains(t, said(t, c, "cat", "/home/"+c.spec.Access.User+"/.ssh/authorized_keys"), firstboot.KeyBlob(ssh.AuthorizedKey(c.TokenKey.PublicKey())))
}

// hasCards sees from inside what the file says of the network: a router outside the first card's
// network, IPv6 besides, and each further card by its name, with its address, MTU and routes.
func hasCards(t *testing.T, c inside) {
	t.Helper()
	addresses := said(t, c, "ip", "-4", "-br", "addr")
	assert.Regexp(t, `(?m)^eth0 +UP +10\.0\.0\.11/32 *$`, addresses)
	assert.Regexp(t, `(?m)^storage +UP +10\.10\.0\.11/24 *$`, addresses)
	assert.Regexp(t, `(?m)^camera +UP `, said(t, c, "ip", "-br", "link"))
	assert.Regexp(t, `(?m)^office +UP +172\.31\.3\.\d+/24 `, addresses)
	assert.NotContains(t, addresses, "camera")
	assert.Regexp(t, `(?m)^eth0 +UP +fd00:10::11/64 fe80::`, said(t, c, "ip", "-6", "-br", "addr"))
	six := said(t, c, "ip", "-6", "route")
	assert.Regexp(t, `(?m)^default via fe80::1 dev eth0 proto static`, six)
	assert.Equal(t, 1, strings.Count(six, "default"), six)
	assert.NotContains(t, said(t, c, "ip", "-6", "addr", "show", "dev", "eth0"), "tentative")
	assert.Contains(t, said(t, c, "cat", "/run/systemd/network/10-netplan-eth0.network"), "IPv6AcceptRA=no")
	office := said(t, c, "cat", "/run/systemd/network/10-netplan-office.network")
	for _, want := range []string{"UseRoutes=false", "UseDNS=false", "UseDomains=false", "IPv6AcceptRA=no"} {
		assert.Contains(t, office, want)
	}
	routes := said(t, c, "ip", "-4", "route")
	assert.Regexp(t, `(?m)^default via 10\.0\.0\.1 dev eth0 .*onlink`, routes)
	assert.Equal(t, 1, strings.Count(routes, "default"), routes)
	assert.Contains(t, routes, "10.20.0.0/16 via 10.10.0.1 dev storage")
	assert.Regexp(t, ` mtu 9000 .* maxmtu 9000 `, strings.ReplaceAll(said(t, c, "ip", "-d", "link", "show", "storage"), "\n", " "))
}

// standIn is a K3s that only looks whether its disks are there.
const standIn = `[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mountpoint -q /srv/data && mountpoint -q /srv/logs'

[Install]
WantedBy=multi-user.target`

func (w *realWorld) reboot(t *testing.T, c inside) {
	t.Helper()
	vm, err := c.Proxmox.VMs.Get(t.Context(), names.Tag(c.spec), "cp1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("the reboot took too long"))
	defer cancel()
	require.NoError(t, c.Proxmox.VMs.Shutdown(ctx, vm))
	require.NoError(t, c.Proxmox.VMs.Start(ctx, vm))
	require.NoError(t, c.Proxmox.Agents.Wait(ctx, vm))
}
