package ssh_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/remotetest"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/iso"
)

const guestAddress = "10.0.0.21:22"

// bootGuest boots a simulated guest with a user admin, and returns it with what its network
// and admin's key are.
func bootGuest(t testing.TB, speed float64) (*guest.Machine, *guest.Network, xssh.Signer) {
	t.Helper()
	signer, _ := newKey(t)
	public := string(xssh.MarshalAuthorizedKey(signer.PublicKey()))
	user := "#cloud-config\nhostname: wk\npackages: [qemu-guest-agent]\nusers:\n  - {name: admin, shell: /bin/bash, sudo: \"ALL=(ALL) NOPASSWD:ALL\", ssh_authorized_keys: [\"" + strings.TrimSpace(public) + "\"]}\n"
	disc, err := iso.Write("cidata", map[string][]byte{
		"user-data": []byte(user), "meta-data": []byte("instance-id: wk-1\n"), "network-config": []byte(guestNetwork),
	})
	require.NoError(t, err)
	n := &guest.Network{Speed: speed}
	m := guest.New(guest.Config{Name: "wk", Disk: guest.NewBase("noble"), MACs: []string{"BC:24:11:AA:00:21"}, CPUs: 2, Memory: 4 << 30,
		Seed: func() ([]byte, error) { return disc, nil }, Network: n, Internet: guest.DefaultInternet(), Speed: speed})
	require.NoError(t, m.Boot(t.Context()))
	t.Cleanup(m.Kill)
	for !m.AgentUp() {
		time.Sleep(time.Duration(float64(time.Second) / max(speed, 1)))
	}
	return m, n, signer
}

const guestNetwork = `version: 2
ethernets:
  eth0:
    match: {macaddress: "bc:24:11:aa:00:21"}
    set-name: eth0
    addresses: [10.0.0.21/24]
`

// dialGuest logs in as a user whose host key was read through the guest agent.
func dialGuest(m *guest.Machine, n *guest.Network, user string, key xssh.Signer) *ssh.Client {
	return ssh.New(ssh.Config{Addr: guestAddress, User: user, Signers: []xssh.Signer{key}, Dial: n.Dial,
		HostKeys: hostKeys(m)})
}

func TestContractOverSSH(t *testing.T) {
	m, n, key := bootGuest(t, 200)
	remotetest.Contract(t, func(t *testing.T) remote.Runner {
		c := dialGuest(m, n, "admin", key)
		t.Cleanup(func() { _ = c.Close() })
		return c
	})
}

func TestSSHUnderSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, key := bootGuest(t, 1)
		c := dialGuest(m, n, "admin", key)
		out, err := remote.Output(t.Context(), c, "hostname")
		require.NoError(t, err)
		assert.Equal(t, "wk\n", string(out))
		root := remote.Sudo(c)
		require.NoError(t, remote.WriteFile(t.Context(), root, "/etc/rancher/k3s/token", []byte("secret"), 0o600))
		got, err := remote.ReadFile(t.Context(), root, "/etc/rancher/k3s/token")
		require.NoError(t, err)
		assert.Equal(t, "secret", string(got))
		_, err = remote.ReadFile(t.Context(), c, "/etc/rancher/k3s/token")
		assert.ErrorContains(t, err, "Permission denied")
		began := time.Now()
		require.NoError(t, remote.Run(t.Context(), c, "sleep", "100"))
		assert.Equal(t, 100*time.Second, time.Since(began).Round(time.Second))
		assert.NotContains(t, m.Mutations(), "file /run/x")

		// A jump: the guest forwards to itself.
		jump := ssh.New(ssh.Config{Addr: guestAddress, User: "admin", Signers: []xssh.Signer{key}, Dial: c.Dial, HostKeys: hostKeys(m)})
		require.NoError(t, remote.Run(t.Context(), jump, "true"))
		require.NoError(t, jump.Close())

		stranger := dialGuest(m, n, "root", key)
		err = remote.Run(t.Context(), stranger, "true")
		var auth *ssh.AuthError
		assert.ErrorAs(t, err, &auth, "root has no key")
		_ = stranger.Close()
		m.Kill()
		assert.Error(t, remote.Run(t.Context(), c, "true"))
		require.NoError(t, c.Close())
	})
}

func hostKeys(m *guest.Machine) func(context.Context, string) ([]xssh.PublicKey, error) {
	return func(context.Context, string) ([]xssh.PublicKey, error) {
		line, err := m.AgentReadFile("/etc/ssh/ssh_host_ed25519_key.pub")
		if err != nil {
			return nil, err
		}
		k, _, _, _, err := xssh.ParseAuthorizedKey(line)
		return []xssh.PublicKey{k}, err
	}
}

func TestWaitingClientSeesThePowerCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, key := bootGuest(t, 1)
		c := dialGuest(m, n, "admin", key)
		done := make(chan error, 1)
		go func() { done <- remote.Run(t.Context(), c, "sleep", "infinity") }()
		time.Sleep(10 * time.Second)
		m.Kill()
		assert.Error(t, <-done)
		require.NoError(t, c.Close())
	})
}
