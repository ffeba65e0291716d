package world

import (
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
)

// InDaemon does a call where Proxmox does it. pveproxy gives up after 30 s; what it
// handed on is done all the same, whenever its turn comes.
func (c *Call) InDaemon(do func() (any, error)) (any, error) {
	d := c.daemonOf()
	if d == nil {
		return do()
	}
	work := func() (any, error) {
		defer d.leave()
		if err := c.State.Wait(c.State.cost(c.Route), nil); err != nil {
			return nil, err
		}
		return do()
	}
	turn := d.take()
	if turn == nil {
		return work()
	}
	begun := time.Now()
	mine, err := c.State.await(turn, ProxyTimeout)
	if err != nil {
		return nil, err
	}
	if !mine {
		c.State.Spawn(func() {
			if _, err := c.State.await(turn, 0); err == nil {
				_, _ = work()
			}
		})
		return nil, errProxyTimeout
	}
	out, err := work()
	if time.Duration(float64(time.Since(begun))*c.State.Options.Speed) > ProxyTimeout {
		return nil, errProxyTimeout
	}
	return out, err
}

// errProxyTimeout is what pveproxy says when pvedaemon has not answered in time.
var errProxyTimeout = &answer.Error{Status: 596, Text: "Connection timed out", Bare: true}
