package k3s

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// follow joins as an agent. It never gives up.
func (n *node) follow(ctx context.Context) int {
	for {
		wait := retryTime
		server, err := n.upstreamServer(ctx, n.cfg.get("server"))
		if err == nil {
			err = server.admits(n, "agent")
		}
		switch {
		case ctx.Err() != nil:
			return 1
		case errors.Is(err, errNotAuthorized), errors.Is(err, errForbidden):
			err, wait = fmt.Errorf("failed to retrieve configuration from server: %w", err), configTime
			n.say("info", "Waiting to retrieve agent configuration; server is not ready: %v", err)
		case err != nil:
			n.say("error", "Failed to validate connection to cluster at %s: %v", n.cfg.get("server"), err)
		case serverOn(server.sys.Machine()) == nil:
			n.say("info", "Waiting to retrieve agent configuration; server is not ready: %v",
				servingCertificate("https://127.0.0.1:6444/v1-k3s/serving-kubelet.crt: 503 Service Unavailable"))
		default:
			n.cluster, n.embedded = server.cluster, server.cfg.embeds()
			n.sys.Root().Save(agentCA, n.cluster.ca, 0o600)
			if parseToken(n.token).hash == "" {
				n.say("warning", "Cluster CA certificate is not trusted by the host CA bundle, but the token does not include a CA hash. "+
					"Use the full token from the server's node-token file to enable Cluster CA validation.")
			}
			if err = n.claimNode(ctx, server); err == nil {
				if !n.sys.Pause(ctx, joinAgentTime) {
					return 1
				}
				n.renew(n.sys.Root())
				return 0
			}
			n.say("info", "Waiting to retrieve agent configuration; server is not ready: %v", err)
			wait = configTime
		}
		if !n.sys.Pause(ctx, wait) {
			return 1
		}
	}
}

// claimName checks the node's password: a name belongs to whom it was first given
// to, until its Node is deleted.
func (n *node) claimName(ctx context.Context) error {
	data, _ := n.sys.Root().ReadFile("/etc/rancher/node/password")
	mine := strings.TrimSpace(string(data))
	c := n.cluster
	c.mu.Lock()
	known := c.passwords[n.name]
	c.mu.Unlock()
	if known != "" && known != mine {
		if exists, err := nodeExists(ctx, c.plane, n.name); err != nil || exists {
			return servingCertificate("Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry, try enabling a unique node name with the --with-node-id flag")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passwords[n.name] = mine
	return nil
}

// admits checks what a machine comes with. A server logs whom it refuses, also
// while it starts (pkg/server/auth/auth.go, pkg/util/apierrors.go).
func (n *node) admits(asks *node, role string) error {
	err := n.cluster.admits(asks, role)
	if err == nil && !n.cluster.isKnown(asks) {
		err = n.unready(parseToken(asks.token))
	}
	switch {
	case errors.Is(err, errNotAuthorized) && parseToken(asks.token).bootstrap:
		n.say("error", "Failed to authenticate request from %s: invalid bearer token", asks.sourceAddress())
		n.refuses(asks, 401, err.Error())
	case errors.Is(err, errNotAuthorized):
		n.say("error", "Failed to authenticate request from %s: invalid username/password combination", asks.sourceAddress())
		n.refuses(asks, 401, err.Error())
	case errors.Is(err, errForbidden):
		n.refuses(asks, 403, err.Error())
	}
	return err
}

// sourceAddress is the address that a request of this machine comes from.
func (n *node) sourceAddress() netip.AddrPort {
	return netip.AddrPortFrom(n.sys.Address(), 40000+uint16(n.sys.Config.VMID))
}

// refuses is what a server says of an answer that it has sent.
func (n *node) refuses(asks *node, status int, why string) {
	n.say("error", "Sending HTTP/1.1 %d response to %s: %s", status, asks.sourceAddress(), why)
}
