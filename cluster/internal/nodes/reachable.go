package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// How long machines have, all together, to accept a connection, if any of them will do. After a silence of a
// moment ago they have less: the way there is known, and what is back answers at once. A silence is a moment ago
// for so long that a slow way has its full time again, too.
const (
	answerTime  = time.Second
	viaTime     = 5 * time.Second // through a jump host, which is connected first
	againTime   = 200 * time.Millisecond
	silenceTime = time.Minute
)

// UnreachableReasons returns why none of these machines accepts a connection, for each, or nil once one does. It asks none
// and returns nil if one has answered this run, or if only a guest agent knows where it is.
func (ns *Nodes) UnreachableReasons(ctx context.Context, machines []string) map[string]error {
	if len(machines) == 0 {
		return nil
	}
	for _, name := range machines {
		if ns.Observation(name).answered.Load() || ns.guests[name].node.DHCP() {
			return nil
		}
	}
	again := time.Since(time.Unix(0, ns.unheard.Load())) < silenceTime
	limit := run.Limit(ns.Spec, answerTime)
	switch {
	case again:
		limit = againTime
	case slices.ContainsFunc(machines, func(name string) bool { return ns.via(ns.guests[name].node) != "" }):
		limit = run.Limit(ns.Spec, viaTime)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	errs := make([]error, len(machines))
	var asked sync.WaitGroup
	for i, name := range machines {
		asked.Go(func() {
			conn, err := ns.DialTo(limited, "tcp", ns.address(name))
			if errs[i] = err; err == nil {
				_ = conn.Close()
				cancel() // one is enough
			}
		})
	}
	asked.Wait()
	failed := map[string]error{}
	for i, name := range machines {
		err := errs[i]
		switch {
		case err == nil:
			ns.unheard.Store(0)
			return nil
		case ctx.Err() != nil:
			err = ctx.Err()
		case limited.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded): // the socket may report it slightly early
			err = fmt.Errorf("no answer within %s", limit)
		}
		failed[name] = &ssh.UnreachableError{Addr: ns.address(name), Via: ns.via(ns.guests[name].node), Err: err}
	}
	if ctx.Err() == nil && !again {
		ns.unheard.Store(time.Now().UnixNano())
	}
	return failed
}

// address is where a machine answers: its SSH server, or what its image has.
func (ns *Nodes) address(machine string) string {
	if g := ns.guests[machine]; g.node.Boot == nil {
		return g.addr
	}
	return net.JoinHostPort(ns.guests[machine].node.Address.Addr().String(), ns.ImagePort)
}
