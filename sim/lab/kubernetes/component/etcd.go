package component

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/cps-gpu/homelab/sim/lab/plane/real"
)

// etcdFlags are the few flags of etcd that a lab sets, with etcd's own names.
type etcdFlags struct {
	dataDir, client, peer string
	ca, cert, key         string
	restore               string
}

// runEtcd runs one member that need not survive a power failure: the lab's clusters exist as
// long as the lab.
func runEtcd(ctx context.Context) int {
	var f etcdFlags
	set := flag.NewFlagSet(real.Etcd, flag.ContinueOnError)
	set.StringVar(&f.dataDir, "data-dir", "", "where the data goes")
	set.StringVar(&f.client, "listen-client-urls", "", "the clients' URL")
	set.StringVar(&f.peer, "listen-peer-urls", "", "the peers' URL")
	set.StringVar(&f.ca, "trusted-ca-file", "", "the CA of clients and peers")
	set.StringVar(&f.cert, "cert-file", "", "the certificate, server's and client's")
	set.StringVar(&f.key, "key-file", "", "its key")
	set.StringVar(&f.restore, "restore", "", "the snapshot to begin with, if there are no data yet")
	if err := set.Parse(os.Args[1:]); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serveEtcd(ctx, f); err != nil {
		return failed(real.Etcd, err)
	}
	return 0
}

func serveEtcd(ctx context.Context, f etcdFlags) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if err := restore(f.restore, f.dataDir); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("serve: %w", err)
	}
}

func (f etcdFlags) config() (*embed.Config, error) {
	client, err := url.Parse(f.client)
	if err != nil {
		return nil, fmt.Errorf("-listen-client-urls: %w", err)
	}
	peer, err := url.Parse(f.peer)
	if err != nil {
		return nil, fmt.Errorf("-listen-peer-urls: %w", err)
	}
	tls := transport.TLSInfo{TrustedCAFile: f.ca, CertFile: f.cert, KeyFile: f.key, ClientCertAuth: true}
	cfg := embed.NewConfig()
	cfg.Dir = f.dataDir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ClientTLSInfo, cfg.PeerTLSInfo = tls, tls
	cfg.UnsafeNoFsync = true
	cfg.SnapshotCount = 5000
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", "5m"
	// A single member elects itself and need not wait for others.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.LogLevel = "warn"
	cfg.WarningUnaryRequestDuration, cfg.WarningApplyDuration = time.Second, time.Second
	return cfg, nil
}
