package targets

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// Init looks at Proxmox VE hosts, asks, and writes a first cluster.yaml; with -yes or from a script it asks nothing.
func (Cluster) Init(ctx context.Context,
	endpoint *string, // ADDRESS: the Proxmox VE host; lab: the simulated one
	token *string, // USER@REALM!NAME: the API token
	secret *string, // env:NAME|file:PATH: where the token's secret is
	fingerprint *string, // AB:CD:…: SHA-256 of the host's certificate
	name *string, // NAME: the cluster's name
	bridge *string, // vmbr0: the bridge of the nodes
	prefix *string, // 10.0.0.0/24: the network of the nodes
	gateway *string, // 10.0.0.1: its gateway
	first *string, // 10.0.0.11: the first address of the nodes; addresses in use are skipped
	out *string, // FILE: the file to write; default: cluster.yaml
	servers *int, // 1: how many servers; 3 survive the loss of one
	gpus *int, // 2: GPUs of each worker
	insecure *bool, // do not check the certificate
	yes *bool, // do not ask: take what it proposes
	force *bool, // replace the file
) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	c := console.New(false)
	return leave(c, session.Init(ctx, c, session.InitFlags{
		Endpoint: value(endpoint), Token: value(token), Secret: value(secret), Fingerprint: value(fingerprint), Insecure: value(insecure),
		Name: value(name), Servers: value(servers), GPUs: value(gpus), Bridge: value(bridge), Prefix: value(prefix),
		Gateway: value(gateway), First: value(first),
		Out: value(out), Yes: value(yes), Force: value(force),
	}))
}
