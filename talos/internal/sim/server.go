package sim

import (
	"context"
	"crypto/tls"
	"slices"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	cosi "github.com/cosi-project/runtime/pkg/state/protobuf/server"
	api "github.com/siderolabs/talos/pkg/machinery/api/machine"
	resources "github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/role"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// rules are who may do what, of what is played here (rules of internal/app/machined/pkg/system/services/machined.go).
func rules() map[string][]role.Role {
	readers := []role.Role{role.Admin, role.Operator, role.Reader}
	return map[string][]role.Role{
		"/machine.MachineService/ApplyConfiguration":   readers, // it decides by itself
		"/machine.MachineService/Bootstrap":            {role.Admin},
		"/machine.MachineService/EtcdMemberList":       readers,
		"/machine.MachineService/EtcdRecover":          {role.Admin},
		"/machine.MachineService/EtcdRemoveMemberByID": {role.Admin},
		"/machine.MachineService/EtcdSnapshot":         {role.Admin, role.Operator, role.EtcdBackup},
		"/machine.MachineService/Kubeconfig":           {role.Admin},
		"/machine.MachineService/Read":                 {role.Admin},
		"/machine.MachineService/Reset":                {role.Admin},
		"/machine.MachineService/ServiceList":          readers,
		"/machine.MachineService/ServiceRestart":       {role.Admin, role.Operator},
		"/machine.MachineService/Upgrade":              {role.Admin},
		"/machine.MachineService/Version":              readers,
		"/cosi.resource.State/Get":                     readers,
		"/cosi.resource.State/List":                    readers,
	}
}

func (m *Machine) server(ctx context.Context, with *tls.Config) *grpc.Server {
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(with)),
		grpc.UnaryInterceptor(func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if err := m.before(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			out, err := handle(ctx, in)
			return out, m.after(info.FullMethod, err)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error { //nolint:contextcheck // a stream has its own
			if err := m.before(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return m.after(info.FullMethod, handle(srv, stream))
		}))
	api.RegisterMachineServiceServer(s, m)
	v1alpha1.RegisterStateServer(s, cosi.NewState(m.state(ctx)))
	return s
}

func (m *Machine) before(ctx context.Context, method string) error {
	roles := role.MakeSet(role.Reader) // nobody in particular, in maintenance mode
	p, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Internal, "no peer")
	}
	m.world.mu.Lock()
	configured := m.config != nil
	m.world.mu.Unlock()
	shown := p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates
	switch {
	case len(shown) > 0:
		roles, _ = role.Parse(shown[0].Subject.Organization)
	case configured: // the connection is from before
		return status.Error(codes.Unavailable, "connection closed")
	}
	if !slices.ContainsFunc(rules()[method], roles.Includes) || configured && method == "/machine.MachineService/ApplyConfiguration" && !roles.Includes(role.Admin) {
		return status.Error(codes.PermissionDenied, "not authorized")
	}
	return lost(m.world.step(method))
}

func (m *Machine) after(method string, err error) error {
	if lost := lost(m.world.step("after " + method)); lost != nil {
		return lost
	}
	return err
}

func lost(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Unavailable, err.Error())
}

// state are the machine's resources as they are now.
func (m *Machine) state(ctx context.Context) state.CoreState {
	st := namespaced.NewState(inmem.Build)
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.config != nil {
		all := append(m.staticPods(), resources.NewMachineConfig(m.config))
		if m.schematic != "" {
			all = append(all, m.extension())
		}
		for _, r := range all {
			if err := st.Create(ctx, r); err != nil {
				panic(err) // it is new
			}
		}
	}
	return st
}
