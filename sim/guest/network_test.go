package guest_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/iso"
)

const (
	address = "10.0.0.21:22"
	network = `version: 2
ethernets:
  eth0:
    match: {macaddress: "bc:24:11:aa:00:21"}
    set-name: eth0
    addresses: [10.0.0.21/24]
`
)

// machine boots a guest with a user admin, and returns it with what its network
// and admin's key are.
func machine(t testing.TB, speed float64) (*guest.Machine, *guest.Network, xssh.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := xssh.NewSignerFromKey(private)
	require.NoError(t, err)
	public := strings.TrimSpace(string(xssh.MarshalAuthorizedKey(signer.PublicKey())))
	user := "#cloud-config\nhostname: wk\npackages: [qemu-guest-agent]\nusers:\n  - {name: admin, shell: /bin/bash, sudo: \"ALL=(ALL) NOPASSWD:ALL\", ssh_authorized_keys: [\"" + public + "\"]}\n"
	disc, err := iso.Write("cidata", map[string][]byte{
		"user-data": []byte(user), "meta-data": []byte("instance-id: wk-1\n"), "network-config": []byte(network),
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

func TestConnectionsObeyDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &guest.Network{}
		n.Register(address22(t), echo{})
		c, err := n.Dial(t.Context(), "tcp", address)
		require.NoError(t, err)
		assert.Equal(t, address, c.RemoteAddr().String())
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		began := time.Now()
		_, err = c.Read(make([]byte, 1))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		buf := make([]byte, 5)
		_, err = c.Read(buf)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(buf))
		n.Unregister(echo{})
		_, err = c.Read(buf)
		assert.ErrorContains(t, err, "connection reset")
	})
}

func address22(t *testing.T) netip.Addr {
	t.Helper()
	return netip.MustParseAddrPort(address).Addr()
}

// echo is a host that sends back what comes, on every port.
type echo struct{}

func (echo) Listen(uint16) guest.Handler {
	return func(_ context.Context, c net.Conn) { _, _ = io.Copy(c, c) }
}
