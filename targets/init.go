package targets

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// Init looks at Proxmox VE hosts, asks, and writes a first cluster.yaml; with -yes or from a script it asks nothing. Flags: -endpoint=lab|ADDRESS -token=USER@REALM!NAME -secret=env:NAME|file:PATH -fingerprint=AB:CD:… -insecure -name=NAME -servers=1 -gpus=2 -bridge=vmbr0 -prefix=10.0.0.0/24 -gateway=10.0.0.1 -first=10.0.0.11 -out=FILE -yes -force.
func (Cluster) Init(ctx context.Context, endpoint, token, secret, fingerprint, name, bridge, prefix, gateway, first, out *string, servers, gpus *int, insecure, yes, force *bool) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	c := console.New(false)
	return leave(c, session.Init(ctx, session.InitOptions{
		Console:  c,
		Endpoint: value(endpoint), Token: value(token), Secret: value(secret), Fingerprint: value(fingerprint), Insecure: value(insecure),
		Name: value(name), Servers: value(servers), GPUs: value(gpus), Bridge: value(bridge), Prefix: value(prefix), Gateway: value(gateway), First: value(first),
		Out: value(out), Yes: value(yes), Force: value(force),
	}))
}
