package plane

import (
	"context"
	"net"
	"net/netip"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Kubernetes makes control planes. It is asked once for each cluster, when the
// first server (cluster-init) of it starts.
type Kubernetes interface {
	Form(ctx context.Context, cfg Config) (Plane, error)
}

// Config is what the first server's configuration says about its cluster.
// Empty fields are those that the configuration leaves to K3s' defaults, which
// are filled in before Form is called.
type Config struct {
	ServiceCIDR  netip.Prefix    // 10.43.0.0/16
	PodCIDR      netip.Prefix    // 10.42.0.0/16
	SecondCIDRs  [2]netip.Prefix // of Services and pods, of the other family; not valid: none
	DNSDomain    string          // cluster.local
	TLSSANs      []string        // names and addresses for the API server's certificate, the servers' own among them
	Version      string          // of K3s, e.g. v1.36.2+k3s1
	Disable      []string        // packaged components that K3s leaves out, e.g. traefik
	PlainSecrets bool            // Secrets are not encrypted in etcd

	// Saved is the state that the cluster begins with: a restored snapshot. Nil: a new cluster.
	Saved *SavedState
}

// SavedState is the state of a control plane, as a snapshot of etcd has it.
type SavedState struct {
	Objects    map[string][]byte // by their keys in etcd
	Snapshot   []byte            // the file that etcd itself makes, from a control plane that has an etcd; Objects are in it
	Authority  []byte            // the certificate authority with its private key, PEM
	Encryption []byte            // how the API server encrypts Secrets, with the key, as its file has it; nil: another or none
}

// Saver is a Plane that can be saved, and restored with [Config.Saved].
type Saver interface {
	Save(ctx context.Context) (*SavedState, error)
}

// IssuerSetter is a Plane whose API server takes the tokens of an OpenID Connect issuer.
type IssuerSetter interface {
	// SetIssuer gives the API server the arguments of a server's configuration whose names begin with oidc-, in place of those
	// that it has. It returns when the API server answers with them, or its own words if it does not start.
	SetIssuer(ctx context.Context, args []Argument) error
}

// Argument is one of a program's, as name=value.
type Argument struct {
	Name, Value string
	File        []byte // what the file that the value names has; nil: it names none
}

// Plane is one cluster's control plane. Implementations are safe for concurrent use.
type Plane interface {
	// Join says that the kubelet of n is up: from now on a Node object exists
	// and is kept Ready.
	Join(ctx context.Context, n Node) error
	// Leave says that the kubelet of a node is gone; its Node gets NotReady.
	Leave(name string)
	// Apply does what K3s does with a file of its manifests folder.
	Apply(ctx context.Context, manifest []byte) error
	// Dial connects to the API server's TLS port.
	Dial(ctx context.Context) (net.Conn, error)
	// Kubeconfig returns the administrator's kubeconfig with server as its URL.
	Kubeconfig(server string) []byte
	// Close ends the control plane; every guest of the cluster is gone.
	Close() error
}

// Node is a machine on which K3s runs, as it introduces itself to its cluster.
type Node struct {
	Name       string
	Role       string // "server" or "agent"
	InternalIP netip.Addr
	SecondIP   netip.Addr        // the internal one of the other family; not valid: none
	ExternalIP netip.Addr        // not valid: none
	Version    string            // of K3s
	Labels     map[string]string // of node-label
	Taints     []string          // of node-taint, "key=value:Effect"
	ProviderID string            // of kubelet's provider-id; empty: K3s gives the Node its own
	Disable    []string          // packaged components that this server leaves out; nil: as the control plane was formed
	CPUs       int
	Memory     int64  // bytes
	BootID     string // changes whenever the machine boots

	// GPUs are those that containers can use at the moment: the driver is
	// loaded, and K3s saw NVIDIA's container runtime when it started.
	GPUs func() []GPU
	// Run runs a container's command with the guest's simulated programs and
	// returns when it has ended, or ctx has (exit code 137).
	Run func(ctx context.Context, c Container) (code int, output, terminationLog string)
}

// InternalIPs are the node's internal addresses, as annotations have them.
func (n Node) InternalIPs() string {
	if !n.SecondIP.IsValid() {
		return n.InternalIP.String()
	}
	return n.InternalIP.String() + "," + n.SecondIP.String()
}

// GPU is one card (or function) that a node offers.
type GPU struct {
	UUID  string // "GPU-…"
	Model string // e.g. "NVIDIA A100-PCIE-40GB"
	Index int    // as nvidia-smi counts

	MIG       bool       // divided into instances, or to be
	Instances []Instance // that programs can use
}

// Container is one container of a pod.
type Container struct {
	Image string
	Args  []string          // command and arguments together
	Env   map[string]string // NVIDIA_VISIBLE_DEVICES is how the device plugin hands out GPUs: UUIDs, indexes or "all"
	Files map[string][]byte // mounted, by path; scripts may be executed
	GPUs  int               // how many were allotted; used when Env does not say which
	// Volumes are disks by where they are mounted. They outlive the container, and
	// containers may share them.
	Volumes map[string]*disk.Disk
	Empty   []string // where folders are mounted that end with the pod
}
