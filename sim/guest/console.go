package guest

import (
	"context"
	"io"
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
