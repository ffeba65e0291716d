package run

import (
	"context"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/proxmox"
)

// agentTime limits how long a check waits for a guest's agent, since the agents of other guests
// on the host may be asked first.
const agentTime = 5 * time.Second

// WithAgentTimeout asks a guest agent, and treats a slow agent as one that does not run.
func WithAgentTimeout[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	out, err := ask(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return out, fmt.Errorf("%w: no answer within %s", proxmox.ErrAgentNotRunning, agentTime)
	}
	return out, err
}
