package kube_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/things-go/go-socks5"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// TestProxyURL goes through a real SOCKS proxy, the only one who knows the way.
func TestProxyURL(t *testing.T) {
	sim, err := kubesim.New(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Version: "v1.36.5+k3s1"}, 1)
	require.NoError(t, err)
	defer func() { _ = sim.Close() }()
	var dialled string
	proxy := socks5.NewServer(socks5.WithDial(func(ctx context.Context, _, addr string) (net.Conn, error) {
		dialled = addr
		return addressed{sim}.dial(ctx)
	}))
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() { _ = proxy.Serve(l) }()

	kubeconfig := strings.Replace(string(sim.Kubeconfig("https://10.0.0.10:6443")),
		"server: https://10.0.0.10:6443", "server: https://10.0.0.10:6443\n    proxy-url: socks5://"+l.Addr().String(), 1)
	c, err := kube.New(kube.Config{Kubeconfig: []byte(kubeconfig)})
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	v, err := c.Version(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "v1.36.5+k3s1", v)
	assert.Equal(t, "10.0.0.10:6443", dialled)
}

// addressed gives connections the TCP addresses that a SOCKS proxy reports.
type addressed struct{ sim *kubesim.Cluster }

func (a addressed) dial(ctx context.Context) (net.Conn, error) {
	conn, err := a.sim.Dial(ctx)
	return tcpConn{conn}, err
}

type tcpConn struct{ net.Conn }

func (tcpConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }
