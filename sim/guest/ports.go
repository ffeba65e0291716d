package guest

import (
	"context"
	"net"
)

// Listen implements [Host]: SSH while its service is active, and the API server's
// port while K3s serves it.
func (m *Machine) Listen(port uint16) Handler {
	s := m.core.System()
	if s == nil {
		return nil
	}
	var serve Handler
	switch {
	case port == sshPort && sshUp(s):
		serve = func(ctx context.Context, conn net.Conn) { serveSSH(s, ctx, conn) }
	case port == apiPort:
		serve = servesAPI(s)
	}
	if serve == nil {
		return nil
	}
	return func(ctx context.Context, conn net.Conn) {
		if !s.Enter() {
			_ = conn.Close()
			return
		}
		defer s.Leave()
		serve(ctx, conn)
	}
}
