package plane

import (
	"context"
	"net"
	"net/netip"
)

type PlaneConfig struct {
	ServiceCIDR netip.Prefix
	PodCIDR     netip.Prefix
	DNSDomain   string
	TLSSANs     []string
	Version     string
}

type Plane interface {
	Join(ctx context.Context, n Node) error
	Leave(name string)
	Apply(ctx context.Context, manifest []byte) error
	Dial(ctx context.Context) (net.Conn, error)
	Kubeconfig(server string) []byte
	Close() error
}
type Node struct {
	Name, Role, Version string
	InternalIP          netip.Addr
	Labels              map[string]string
	Taints              []string
	CPUs                int
	Memory              int64
	GPUs                func() []GPU
	Run                 func(ctx context.Context, c Container) (code int, output, terminationLog string)
}
type GPU struct {
	UUID, Model string
	Index       int
}
type Container struct {
	Image string
	Args  []string
	Env   map[string]string
	Files map[string][]byte
	GPUs  int
}
