package jupyterhub

import (
	"cmp"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// defaultName is the release and the default of its namespace.
const defaultName = "jupyterhub"

// Hub is the wanted JupyterHub: what a file says of it, and what only the site knows.
type Hub struct {
	spec.Hub

	Ingress   Ingress
	Secrets   Secrets
	Endpoints Endpoints // of OIDC: what [Discover] returns for an issuer
	SignsIn   bool      // people sign in by the cluster's own login, with OIDC: the hub sends them there at once, and asks it again
	AuthCA    []byte    // PEM of the authority that signed the provider's certificate; empty: the public ones and CA
	Pools     []Pool    // of nodes that profiles may name
	Queue     string    // Kueue's LocalQueue in which servers with GPUs wait for their turn; empty: none
	Models    Models    // zero: the cluster serves none

	HomesStay    bool                 // a home stays on the node of its owner's first server, as volumes of K3s' local-path do
	Exports      map[string]NFSExport // by share, for which volume and claim are created
	ScratchNodes []string             // names of those that have the class of scratch volumes; empty: all

	// Taints of nodes on which the hub's own pods and the pullers of images may run.
	Taints []corev1.Taint
	// CA is a bundle of authorities in PEM that hub and notebooks trust in addition to the
	// public ones.
	CA []byte

	// ChartValues are values of the chart that override ours: mappings are merged, lists and
	// everything else are replaced. [Hub.RemovedSettings] says what they remove.
	ChartValues map[string]any
}

// Kinds of Ingress.
const (
	ByIngress      = "ingress"       // networking.k8s.io/v1
	ByGateway      = "gateway"       // an HTTPRoute of the Gateway API
	ByLoadBalancer = "load-balancer" // the proxy's own Service has an address
)

// Ingress is how people's browsers reach the hub.
type Ingress struct {
	Kind        string            // default ByIngress
	Class       string            // of the Ingress; empty: the default one
	TLSSecret   string            // Secret of type kubernetes.io/tls in the hub's namespace; empty: no TLS, or the Gateway's
	Annotations map[string]string // e.g. cert-manager.io/cluster-issuer
	TLS         bool              // users reach it by https; implied by TLSSecret

	Gateway          string // name, for ByGateway
	GatewayNamespace string
	GatewayListener  string // "sectionName"; may be empty

	Address netip.Addr // for ByLoadBalancer; zero: any
}

// Kinds of a database.
const (
	SQLite   = "sqlite"   // a file on a volume of its own
	Postgres = "postgres" // a server that exists, or one of CloudNativePG's in the hub's namespace
)

// NFSExport is a folder of an NFS server, mounted unchanged by csi-driver-nfs.
type NFSExport struct {
	Server       string
	Export       string // absolute path
	MountOptions []string
	ReadOnly     bool
}

func (h Hub) namespace() string { return cmp.Or(h.Namespace, defaultName) }

// URL returns the hub's address for users.
func (h Hub) URL() string {
	if h.Ingress.TLS || h.Ingress.TLSSecret != "" {
		return "https://" + h.Hostname
	}
	return "http://" + h.Hostname
}
