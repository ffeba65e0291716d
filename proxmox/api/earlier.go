package api

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cps-gpu/homelab/converge/progress"
)

// earlier are the tasks that an earlier process of ours, killed perhaps, has left
// behind, and those of this one whose start or end it has not heard of: Proxmox
// finishes them. A clone shows itself only when its worker has
// written the first line of its configuration, so that who looks before would make
// a second one.
type earlier struct {
	mu    sync.Mutex
	hosts map[string]*earlierOn
}

type earlierOn struct {
	turn  chan struct{} // holds one token while somebody waits
	over  bool          // guarded by turn, as is found
	found bool          // there were some
	lost  atomic.Bool   // there may be one again
}

func (e *earlier) on(host string) *earlierOn {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hosts == nil {
		e.hosts = map[string]*earlierOn{}
	}
	if e.hosts[host] == nil {
		e.hosts[host] = &earlierOn{turn: make(chan struct{}, 1)}
	}
	return e.hosts[host]
}

// lose remembers that a host may be at work on something of ours that nobody watches.
func (e *earlier) lose(host string) { e.on(host).lost.Store(true) }

// AwaitEarlier waits, the first time it is asked about a host, until everything has
// ended that an earlier process with the same token has begun there; and again after a
// request of this one whose answer was lost, or a task whose end was not seen. It
// reports whether there was such a thing: what was seen before may be wrong.
func (c *Client) AwaitEarlier(ctx context.Context, host string) (waited bool, err error) {
	e := c.earlier.on(host)
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if e.lost.Swap(false) {
		e.over = false
	}
	if e.over {
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
		progress.Say(ctx, "an earlier run has left %s", upid.what())
		if err := c.Wait(ctx, upid); err != nil && ctx.Err() != nil {
			return false, ctx.Err()
		}
		e.found = true
	}
	e.over = true
	if e.found {
		c.glances.forget("/qemu")
		c.glances.forget("/storage/")
	}
	return e.found, nil
}
