package world

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// protectedText lists the methods that pveproxy cannot do itself, since they want
// root: it hands them on to the pvedaemon of their host. One a line, from the field
// "protected" of Proxmox's own schema.
//
//go:embed protected.txt
var protectedText string

var loadProtected = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(protectedText) {
		out[strings.TrimSpace(line)] = true
	}
	return out
})

// daemonWorkers is how many processes a pvedaemon has (PVE/Service/pvedaemon.pm).
// Each does one call at a time, from its beginning to its end: what waits in it,
// for a lock or for a guest agent, keeps everybody else's calls waiting.
const daemonWorkers = 3

// daemon is the pvedaemon of one host. The State's lock guards it.
type daemon struct {
	busy  int
	queue []chan struct{} // who waits for a worker, the longest first
}

// take returns nil when a worker is free, and else what is closed once one is.
func (d *daemon) take() chan struct{} {
	if d.busy < daemonWorkers {
		d.busy++
		return nil
	}
	turn := make(chan struct{})
	d.queue = append(d.queue, turn)
	return turn
}

func (d *daemon) leave() {
	if len(d.queue) == 0 {
		d.busy--
		return
	}
	next := d.queue[0]
	d.queue = slices.Delete(d.queue, 0, 1)
	close(next) // the worker is theirs
}

// cost is how long a method holds a worker beside what it waits for: medians of
// calls to real daemons, one after the other.
func (s *State) cost(route string) time.Duration {
	t := s.Options.Timing
	switch route {
	case "GET /nodes/{node}/storage", "GET /nodes/{node}/hardware/pci":
		return 8 * t.Call
	case "GET /nodes/{node}/storage/{storage}/status":
		return 16 * t.Call
	}
	return t.Call
}

// daemonOf is the pvedaemon that a call is for, nil where pveproxy answers, and where a
// program on the host (pveum, pvesh) does it itself (pve-manager, PVE/CLI/pvesh.pm).
func (c *Call) daemonOf() *daemon {
	if c.Local || !loadProtected()[c.Route] {
		return nil
	}
	if h := c.Host(); h != nil {
		return &h.daemon
	}
	return &c.State.Hosts[c.State.Nodes()[0]].daemon // it is asked where it came in
}

// await releases the lock until done is closed, for limit at most (0: no limit), and
// says whether it was.
func (s *State) await(done <-chan struct{}, limit time.Duration) (came bool, err error) {
	err = s.waitFor(done, limit, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// ProxyTimeout is how long pveproxy waits for pvedaemon.
const ProxyTimeout = 30 * time.Second
