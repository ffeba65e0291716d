package run

import (
	"context"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/proxmox"
)

// agentTime bounds how long a look waits for a guest's agent: others of the host may
// be asked before it.
const agentTime = 5 * time.Second

// InAgentTime asks a guest agent, and takes none that is slow for one that does not run.
func InAgentTime[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	out, err := ask(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return out, fmt.Errorf("%w: no answer within %s", proxmox.ErrAgentNotRunning, agentTime)
	}
	return out, err
}
