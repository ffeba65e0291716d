package k3s

import (
	"context"
	"time"
)

// What a server that starts again answers to good bootstrap tokens, one after the other, until it is
// ready (v1.34.3; k3s/testdata/real/36-agent-of-a-starting-server.txt). Its own tokens are never refused.
const (
	forbidsTime = 12 * time.Second        // 403: it cannot ask its API server
	deniesTime  = 2700 * time.Millisecond // 401: its API server does not know the tokens yet
	unreadyTime = 5 * time.Second         // 503 to the request for certificates
)

// startSlowly is the time that a server needs to start again.
func (n *node) startSlowly(ctx context.Context) bool {
	n.starting = time.Now()
	n.isJoining(n)
	defer n.isJoining(nil)
	return n.sys.Pause(ctx, forbidsTime+deniesTime+unreadyTime)
}

// unready is what a server that starts answers to a good token.
func (n *node) unready(t joinToken) error {
	switch begun := time.Since(n.starting); {
	case n.starting.IsZero(), !t.bootstrap, begun >= n.sys.Scale(forbidsTime+deniesTime):
		return nil
	case begun < n.sys.Scale(forbidsTime):
		return errForbidden
	}
	return errNotAuthorized
}
