package component

import (
	"context"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/cps-gpu/homelab/sim/lab/plane/real"
)

// runSnapshot writes a running etcd's own snapshot to standard output. Etcd sends it with its
// SHA-256 behind it (snapshot of clientv3, sendSnapshot of server/etcdserver/api/v3rpc/maintenance.go).
func runSnapshot(ctx context.Context) int {
	var tls transport.TLSInfo
	set := flag.NewFlagSet(real.TakeSnapshot, flag.ContinueOnError)
	endpoint := set.String("endpoint", "", "etcd's URL")
	set.StringVar(&tls.TrustedCAFile, "trusted-ca-file", "", "its CA")
	set.StringVar(&tls.CertFile, "cert-file", "", "the client's certificate")
	set.StringVar(&tls.KeyFile, "key-file", "", "its key")
	if err := set.Parse(os.Args[1:]); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := snapshot(ctx, *endpoint, tls, os.Stdout); err != nil {
		return failed(real.TakeSnapshot, err)
	}
	return 0
}

func snapshot(ctx context.Context, endpoint string, tls transport.TLSInfo, to io.Writer) error {
	config, err := tls.ClientConfig()
	if err != nil {
		return err
	}
	const patience = 10 * time.Second
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, Context: ctx, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	stream, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	_, err = io.Copy(to, stream)
	return err
}
