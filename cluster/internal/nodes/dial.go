package nodes

import (
	"context"
	"net"
)

func (ns *Nodes) DialTo(ctx context.Context, network, addr string) (net.Conn, error) {
	if ns.Dial != nil {
		return ns.Dial(ctx, network, addr)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}
