package guest

import (
	"context"
	"net"

	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/kubeadm"
	"github.com/cps-gpu/homelab/sim/guest/internal/sshd"
)

// Listen implements [Host]: SSH while its service is active, and the API server's
// port while K3s or kubeadm's server serves it.
func (m *Machine) Listen(port uint16) Handler {
	s := m.core.System()
	if s == nil {
		return nil
	}
	var serve Handler
	switch port {
	case sshd.Port:
		serve = sshd.Listen(s)
	case k3s.APIPort:
		if serve = k3s.Listen(s); serve == nil {
			serve = kubeadm.Listen(s)
		}
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
