package guest_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
)

const address = "10.0.0.21:22"

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
