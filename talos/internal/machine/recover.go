package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/cosi-project/runtime/pkg/safe"
	talosx509 "github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/client"
	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
	talos "github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"google.golang.org/grpc"

	"github.com/cps-gpu/homelab/talos/internal/secrets"
)

// Running is what the machines of a cluster have, for secrets.Store: nil if none of them has a configuration. A
// machine that does not answer may have one, so it is an error. With the talosconfig of an administrator the
// secrets are read from the first server that gives them; with may be nil.
func Running(servers []*Machine, with *clientconfig.Context) secrets.Running {
	return func(ctx context.Context) (*secrets.Bundle, error) {
		var errs []error
		bare := 0
		for _, m := range servers {
			is, err := m.isBare(ctx)
			if is {
				bare++
			}
			if err == nil && !is && with != nil {
				var b *secrets.Bundle
				if b, err = m.recover(ctx, with); err == nil {
					return b, nil
				}
			}
			errs = append(errs, err)
		}
		if bare == len(servers) {
			return nil, nil
		}
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("%w: %w", secrets.ErrLost, err)
		}
		return nil, secrets.ErrLost
	}
}

// isBare reports whether the machine shows the key of its maintenance mode: then it has no secrets.
func (m *Machine) isBare(ctx context.Context) (bool, error) {
	key, err := Fingerprint(ctx, m.Log)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nor does the machine
		return true, nil
	case errors.Is(err, ErrNoKey):
		return false, nil
	case err != nil:
		return false, err
	}
	shown, err := m.certificate(ctx)
	if err != nil {
		return false, err
	}
	return bytes.Equal(key, talosx509.SPKIFingerprint(shown)), nil
}

func (m *Machine) recover(ctx context.Context, with *clientconfig.Context) (*secrets.Bundle, error) {
	dial := func(ctx context.Context, address string) (net.Conn, error) { return m.Dial(ctx, "tcp", address) }
	c, err := client.New(ctx, client.WithConfigContext(with), client.WithEndpoints(net.JoinHostPort(m.Address.String(), Port)), client.WithGRPCDialOptions(grpc.WithContextDialer(dial)))
	if err != nil {
		return nil, fmt.Errorf("%s: talosconfig: %w", m.Name, err)
	}
	defer func() { _ = c.Close() }()
	have, err := safe.StateGetByID[*config.MachineConfig](ctx, c.COSI, config.ActiveID)
	if err != nil {
		return nil, fmt.Errorf("%s: its configuration, by the talosconfig: %w", m.Name, err)
	}
	b := talos.NewBundleFromConfig(talos.NewClock(), have.Config())
	return b, b.Validate()
}
