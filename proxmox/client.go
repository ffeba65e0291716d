package proxmox

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/cps-gpu/homelab/proxmox/api"
	"github.com/cps-gpu/homelab/proxmox/internal/agent"
)

// Client talks to one Proxmox host or cluster. It is safe for concurrent use. Share one Client,
// because it combines requests and serializes allocations. It needs no Close.
type Client struct {
	*api.Client               // the requests themselves
	expected    sync.Map      // by owner: func(name string) bool, see ExpectNames
	agents      *agent.Agents // of guests
	vmids       vmids
	clones      *semaphore.Weighted // clones in flight
	destroys    *semaphore.Weighted // destroys in flight
	storages    storageLocks
	sources     sync.Mutex // guards templates
	// templates are those that VMs were cloned from, by owner, host and name.
	templates map[string]template
}

// Dial makes a Client and asks the host for its version, so a wrong address, certificate or token
// shows at once.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c, err := api.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Client{Client: c, agents: agent.New(c), clones: semaphore.NewWeighted(maxClones), destroys: semaphore.NewWeighted(maxDestroys)}, nil
}
