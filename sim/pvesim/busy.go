package pvesim

import "time"

// inDaemon does a call where Proxmox does it. pveproxy gives up after 30 s; what it
// handed on is done all the same, whenever its turn comes.
func (c *call) inDaemon(do func() (any, error)) (any, error) {
	d := c.daemonOf()
	if d == nil {
		return do()
	}
	work := func() (any, error) {
		defer d.leave()
		if err := c.s.wait(c.s.cost(c.route), nil); err != nil {
			return nil, err
		}
		return do()
	}
	turn := d.take()
	if turn == nil {
		return work()
	}
	begun := time.Now()
	mine, err := c.s.await(turn, proxyTimeout)
	if err != nil {
		return nil, err
	}
	if !mine {
		c.s.spawn(func() {
			if _, err := c.s.await(turn, 0); err == nil {
				_, _ = work()
			}
		})
		return nil, errProxyTimeout
	}
	out, err := work()
	if time.Duration(float64(time.Since(begun))*c.s.opts.Speed) > proxyTimeout {
		return nil, errProxyTimeout
	}
	return out, err
}

// errProxyTimeout is what pveproxy says when pvedaemon has not answered in time.
var errProxyTimeout = &apiError{status: 596, text: "Connection timed out", bare: true}
