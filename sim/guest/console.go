package guest

import (
	"context"
	"io"

	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
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

// LoadDriver loads NVIDIA's open modules of a version, which an image brings with their libraries.
func (m *Machine) LoadDriver(version string) error {
	s := m.core.System()
	if s == nil {
		return ErrOff
	}
	return gpu.LoadContained(s, version, "open")
}

// GPUs are those that the loaded driver has, as [Node.GPUs].
func (m *Machine) GPUs() []GPU {
	s := m.core.System()
	if s == nil || s.Context().Err() != nil {
		return nil
	}
	cards, failed := gpu.NVML(s)
	if failed != nil {
		return nil
	}
	return k3s.CardsOf(cards)
}
