package ssh_test

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote/ssh"
)

// A server that goes on and on before it lets us in is left.
func TestBannersHaveABound(t *testing.T) {
	m := newMachine(t)
	var sent atomic.Int32
	text := strings.Repeat("welcome ", 1000)
	config := &xssh.ServerConfig{
		PublicKeyCallback: func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) { return nil, nil },
		PreAuthConnCallback: func(c xssh.ServerPreAuthConn) {
			for sent.Load() < 20000 && c.SendAuthBanner(text) == nil {
				sent.Add(1)
			}
		},
	}
	config.AddHostKey(m.HostKey)
	m.addr = each(t, func(c net.Conn) {
		go func() { _, _, _, _ = xssh.NewServerConn(c, config) }()
		t.Cleanup(func() { _ = c.Close() })
	})
	cfg := m.config()
	cfg.Timeout = 10 * time.Second
	_, err := ssh.Dial(t.Context(), cfg)
	require.ErrorContains(t, err, "reading its banner: it has more than 64 KiB, and no more are read")
	assert.Less(t, len(err.Error()), 400)
	assert.Less(t, sent.Load(), int32(20000))
}
