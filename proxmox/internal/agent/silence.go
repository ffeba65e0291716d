package agent

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
)

// A request to an agent that does not answer blocks one of the host's three workers for 3 s, and
// Proxmox's API does not say whether the agent has opened its port. So the cheapest sign of life is
// checked first: a guest that has not sent a packet since its start has no network yet, and an
// agent starts together with the network or later. (Firmware that boots from the network sends
// packets too; then the agent is merely asked too early.) The host's list shows this for all its
// VMs at once, live, in 20 ms.
//
// An agent that does not answer nevertheless is asked again after a pause that grows with the time
// for which it has been silent.

// quietFor is how long after its start a guest that sends nothing is not asked. Later it is asked
// anyway: its network may be broken, and its agent the only way in. A guest that boots under
// emulation, or with much memory to pin, takes minutes to send its first packet.
const quietFor = 3 * time.Minute

// The time between two requests to a silent agent: a quarter of how long it has been silent, within
// these bounds.
const (
	firstAgain = 5 * time.Second
	lastAgain  = 15 * time.Second
	silenceAge = time.Hour // after which it is forgotten
)

// silence is what is known about an agent that did not answer.
type silence struct {
	since, asked time.Time
	reason       error // api.ErrAgentNotRunning, or errMute
}

// errMute is the error for a guest that has not sent a packet since its start: it may be booting,
// or have no network.
var errMute = fmt.Errorf("%w: the guest has not sent anything over its network yet", api.ErrAgentNotRunning)

func (s silence) retryAt() time.Time {
	return s.asked.Add(min(max(s.asked.Sub(s.since)/4, firstAgain), lastAgain))
}

// request sends a request to a guest's agent if an answer is possible. Otherwise it returns an
// api.ErrAgentNotRunning that says why.
func (a *Agents) request(ctx context.Context, vm VM, verb string, query url.Values, out any) error {
	silent, known := a.silent.get(vm.VMID, silenceAge)
	if known && time.Now().Before(silent.retryAt()) {
		return fmt.Errorf("%w: it was asked %s ago", silent.reason, time.Since(silent.asked).Round(time.Second))
	}
	mute, young := a.isMute(ctx, vm)
	if mute && young {
		return errMute
	}
	err := a.pve.Get(ctx, api.VMPath(vm.Host, vm.VMID, "agent", verb), query, out)
	switch {
	case errors.Is(err, api.ErrAgentNotRunning):
		now := time.Now()
		if !known {
			silent.since = now
		}
		silent.asked, silent.reason = now, api.ErrAgentNotRunning
		if mute {
			silent.reason = errMute
			err = fmt.Errorf("%w: %w", errMute, err)
		}
		a.silent.set(vm.VMID, silent)
	case err == nil:
		a.silent.forget(vm.VMID)
	}
	return err
}

// IsAlive reports whether a guest shows a sign of life: it has sent a packet since its start, or
// has run for longer than that takes. It returns true if it cannot see either, so that the guest is
// asked anyway. It makes one GET, which covers all VMs of a host and is shared.
func (a *Agents) IsAlive(ctx context.Context, vm VM) bool {
	mute, young := a.isMute(ctx, vm)
	return !mute || !young
}

// HasSent reports whether a guest has sent a packet since its start, or true if that cannot be seen.
func (a *Agents) HasSent(ctx context.Context, vm VM) bool {
	mute, _ := a.isMute(ctx, vm)
	return !mute
}

// Uptime returns how long a VM has been switched on, or 0 if that cannot be seen. A restart from
// inside the guest does not reset it. It shares the GET of IsAlive.
func (a *Agents) Uptime(ctx context.Context, vm VM) time.Duration {
	all, err := live.ListHost(ctx, a.pve, vm.Host)
	if err != nil {
		return 0
	}
	for _, r := range all {
		if int(r.VMID) == vm.VMID && r.Status == "running" {
			return time.Duration(r.Uptime) * time.Second
		}
	}
	return 0
}

// isMute reports whether a guest has sent nothing since its start, and young whether it started
// recently.
func (a *Agents) isMute(ctx context.Context, vm VM) (mute, young bool) {
	if !vm.Networked {
		return false, false
	}
	all, err := live.ListHost(ctx, a.pve, vm.Host)
	if err != nil {
		return false, false
	}
	for _, r := range all {
		if int(r.VMID) == vm.VMID && r.Status == "running" {
			return r.NetOut == 0, time.Duration(r.Uptime)*time.Second <= quietFor
		}
	}
	return false, false
}
