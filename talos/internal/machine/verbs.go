package machine

import (
	"context"
	"errors"
	"fmt"

	"github.com/cosi-project/runtime/pkg/safe"
	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	talos "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configdiff"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cps-gpu/homelab/secret"
)

// State is what was seen of a machine.
type State struct {
	Waits      string       // why it cannot be asked yet; "" else
	Configured bool         // it has a configuration of this cluster
	Etcd       bool         // its etcd has data or runs: the cluster exists
	Version    string       // of Talos
	Schematic  string       // of its image, as text; "": the image is not of the factory
	Kubelet    bool         // its kubelet runs
	config     secret.Value // which it has
	read       talos.Provider
}

// Config is the machine's configuration; nil if it has none. It has secrets.
func (s State) Config() talos.Config {
	if s.read == nil {
		return nil
	}
	return s.read
}

// etcd's states before there is a cluster: its service runs only with members to join, or after Bootstrap
// (internal/app/machined/pkg/system/services/etcd.go).
func isBeforeCluster(state string) bool {
	return state == "" || state == "Waiting" || state == "Preparing" || state == "Initialized" || state == "Starting"
}

// Observe looks at the machine, and changes nothing. An error means that nothing may be done with it.
func (m *Machine) Observe(ctx context.Context) (State, error) {
	c, configured, err := m.connect(ctx)
	if errors.Is(err, errAway) && ctx.Err() == nil {
		return State{Waits: err.Error()}, nil
	}
	if err != nil {
		return State{}, err
	}
	defer func() { _ = c.Close() }()
	s := State{Configured: configured}
	if !configured {
		return s, nil
	}
	v, err := c.Version(ctx)
	if err != nil {
		return later(ctx, m, "version", err)
	}
	s.Version = v.GetMessages()[0].GetVersion().GetTag()
	have, err := safe.StateGetByID[*config.MachineConfig](ctx, c.COSI, config.ActiveID)
	if err != nil {
		return later(ctx, m, "configuration", err)
	}
	text, err := have.Provider().Bytes()
	if err != nil {
		return State{}, fmt.Errorf("%s: its configuration: %w", m.Name, err)
	}
	s.config, s.read = secret.New(string(text)), have.Provider()
	if s.Schematic, err = schematic(ctx, c); err != nil {
		return later(ctx, m, "extensions", err)
	}
	services, err := c.ServiceList(ctx)
	if err != nil {
		return later(ctx, m, "services", err)
	}
	for _, i := range services.GetMessages()[0].GetServices() {
		s.Etcd = s.Etcd || i.GetId() == "etcd" && !isBeforeCluster(i.GetState())
		s.Kubelet = s.Kubelet || i.GetId() == "kubelet" && i.GetState() == "Running"
	}
	return s, nil
}

// later is a machine that stopped to answer: while it takes a configuration, its services restart.
func later(ctx context.Context, m *Machine, what string, err error) (State, error) {
	if status.Code(err) == codes.Unavailable && ctx.Err() == nil {
		return State{Waits: fmt.Sprintf("%s: %s", m.Name, errAway)}, nil
	}
	return State{}, fmt.Errorf("%s: its %s: %w", m.Name, what, err)
}

// Diff says how the machine's configuration differs from a wanted one, without the secrets of either; "": it does not.
func (s State) Diff(want secret.Value) (string, error) {
	if s.config.Reveal() == want.Reveal() {
		return "", nil
	}
	if s.config.IsZero() {
		return "no configuration yet", nil
	}
	have, err := configloader.NewFromBytes([]byte(s.config.Reveal()))
	if err != nil {
		return "", errors.New("the machine's configuration cannot be read by this homelab")
	}
	wanted, err := configloader.NewFromBytes([]byte(want.Reveal()))
	if err != nil {
		return "", fmt.Errorf("the wanted configuration: %w", err)
	}
	text, err := configdiff.DiffConfigs(have.RedactSecrets(secret.Mask), wanted.RedactSecrets(secret.Mask))
	if text == "" && err == nil {
		text = "another secret"
	}
	return text, err
}

// Apply gives the machine its configuration. A machine that has none starts with it; another may restart.
func (m *Machine) Apply(ctx context.Context, want secret.Value) error {
	return m.with(ctx, "apply its configuration", func(c *client.Client) error {
		_, err := c.ApplyConfiguration(ctx, &api.ApplyConfigurationRequest{Data: []byte(want.Reveal()), Mode: api.ApplyConfigurationRequest_AUTO})
		if status.Code(err) == codes.InvalidArgument { // its text repeats what it does not understand
			err = errors.New("Talos refuses it: is the machine's Talos older than homelab expects?")
		}
		return err
	})
}

// ErrNotYet means that a machine will do it, and cannot now: its clock is not set, or its containers' runtime starts.
var ErrNotYet = errors.New("the machine is not ready for it")

// Bootstrap begins the cluster on this server. It is for one server of a cluster of which no server has data of
// etcd: its caller has asked the others. Repeating it is safe: a server whose etcd has data says so, and that is done.
func (m *Machine) Bootstrap(ctx context.Context) error {
	return m.with(ctx, "begin the cluster", func(c *client.Client) error {
		err := c.Bootstrap(ctx, &api.BootstrapRequest{})
		switch status.Code(err) {
		case codes.AlreadyExists:
			return nil
		case codes.FailedPrecondition, codes.Unavailable:
			return fmt.Errorf("%w: %w", ErrNotYet, err)
		}
		return err
	})
}

// Forget removes the member of another server from etcd, by its host name, if there is one.
func (m *Machine) Forget(ctx context.Context, server string) error {
	return m.with(ctx, "let etcd forget "+server, func(c *client.Client) error {
		all, err := c.EtcdMemberList(ctx, &api.EtcdMemberListRequest{})
		if err != nil {
			return err
		}
		for _, of := range all.GetMessages()[0].GetMembers() {
			if of.GetHostname() == server {
				err := c.EtcdRemoveMemberByID(ctx, &api.EtcdRemoveMemberByIDRequest{MemberId: of.GetId()})
				if status.Code(err) != codes.NotFound { // another run was faster
					return err
				}
			}
		}
		return nil
	})
}

// RestartKubelet restarts the kubelet. Pods keep running.
func (m *Machine) RestartKubelet(ctx context.Context) error {
	return m.with(ctx, "restart its kubelet", func(c *client.Client) error {
		_, err := c.ServiceRestart(ctx, "kubelet")
		return err
	})
}

// Kubeconfig is the administrator's.
func (m *Machine) Kubeconfig(ctx context.Context) (out secret.Value, err error) {
	err = m.with(ctx, "fetch the kubeconfig", func(c *client.Client) error {
		text, err := c.Kubeconfig(ctx)
		out = secret.New(string(text))
		return err
	})
	return out, err
}

func (m *Machine) with(ctx context.Context, what string, do func(*client.Client) error) error {
	c, _, err := m.connect(ctx)
	if err == nil {
		err = errors.Join(do(c), c.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", m.Name, what, err)
	}
	return nil
}
