package api

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cps-gpu/homelab/converge"
)

// earlierTasks tracks tasks that an earlier, perhaps killed, process of ours left running, and tasks of
// this process whose start or end it did not see: Proxmox finishes them. A clone is visible only
// when its worker has written the first line of its configuration, so a process that checks before
// that would make a second clone.
type earlierTasks struct {
	mu    sync.Mutex
	hosts map[string]*hostEarlierTasks
}

type hostEarlierTasks struct {
	sem   chan struct{} // holds one token while a caller waits
	ended bool          // guarded by turn, like found
	found bool          // there were such tasks
	lost  atomic.Bool   // there may be such a task again
}

func (e *earlierTasks) forHost(host string) *hostEarlierTasks {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hosts == nil {
		e.hosts = map[string]*hostEarlierTasks{}
	}
	if e.hosts[host] == nil {
		e.hosts[host] = &hostEarlierTasks{sem: make(chan struct{}, 1)}
	}
	return e.hosts[host]
}

// lose records that a host may be running a task of ours that nobody watches.
func (e *earlierTasks) lose(host string) { e.forHost(host).lost.Store(true) }

// WaitForEarlierTasks waits until every task on a host has ended that an earlier process with the same
// token started there. It waits at the first call for a host, and again after a request whose
// answer was lost or a task whose end was not seen. It reports whether there was such a task: state
// that was read before may be stale.
func (c *Client) WaitForEarlierTasks(ctx context.Context, host string) (waited bool, err error) {
	e := c.earlier.forHost(host)
	select {
	case e.sem <- struct{}{}:
		defer func() { <-e.sem }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if e.lost.Swap(false) {
		e.ended = false
	}
	if e.ended {
		return e.found, nil
	}
	all, err := c.RunningTasks(ctx, host)
	if err != nil {
		return false, err
	}
	for _, l := range all {
		upid, err := ParseUPID(l.UPID)
		if err != nil || upid.User != c.cfg.TokenID || strings.Contains(upid.Type, "proxy") { // an open console is a task too
			continue
		}
		converge.Progressf(ctx, "an earlier run has left %s", upid.description())
		if err := c.Wait(ctx, upid); err != nil && ctx.Err() != nil {
			return false, ctx.Err()
		}
		e.found = true
	}
	e.ended = true
	// A task that ran when the lists were read, and has ended since, is in neither.
	c.glances.invalidate("/qemu")
	c.glances.invalidate("/storage/")
	return e.found, nil
}
