package guest

import (
	"context"
	"io"

	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Run runs a command line as a user's login shell does, and returns its exit status; 255
// where the machine is off.
func (m *Machine) Run(ctx context.Context, user, command string, out io.Writer) int {
	s := m.core.System()
	if s == nil || !s.Enter() {
		return 255
	}
	defer s.Leave()
	return s.Login(ctx, user, command, nil, out, out)
}

// Container runs a container's command on the machine, as [Node.Run] does.
func (m *Machine) Container(ctx context.Context, c Container) (code int, output, terminationLog string) {
	s := m.core.System()
	if s == nil {
		return machine.ExitKilled, "", ""
	}
	return k3s.Container(ctx, s, c)
}
