package jupyterhub

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/secret"
)

// defaultName is the release and the default of its namespace.
const defaultName = "jupyterhub"

// Hub is the wanted JupyterHub.
type Hub struct {
	Namespace string // default DefaultName
	Version   string // of the chart; empty: the pinned one
	Hostname  string // its name for users, e.g. hub.lab.example
	Ingress   Ingress

	Auth     Auth
	Profiles []Profile // at least one; in the order of the form
	Pools    []Pool    // of nodes that profiles may name

	Database Database
	Home     Home
	Shared   []Share
	Scratch  *Scratch
	SHM      Bytes // of /dev/shm, unless a profile sets its own; 0: the runtime's 64 MiB
	Cull     Cull
	PrePull  bool // pull the profiles' images to the nodes in advance
	Quota    Quota
	Queue    string // Kueue's LocalQueue in which servers with GPUs wait for their turn; empty: none

	Exposed bool           // no network policies around hub and notebooks, which the chart has by default
	Reach   []netip.Prefix // private networks that notebooks may reach in spite of them; none by default

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

// Kinds of Database.
const (
	SQLite   = "sqlite"   // a file on a volume of its own
	Postgres = "postgres" // an existing server
)

// Database is where the hub keeps users, tokens and running servers.
type Database struct {
	Kind  string // default SQLite
	Class string // of SQLite's volume; empty: the default one. Not NFS: SQLite's locks do not hold there
	Size  Bytes  // default 1 GiB
	URL   secret.Value
}

// Home is each user's own folder.
type Home struct {
	Class string // of a volume for each user; empty: the default one
	Size  Bytes  // default 20 GiB
	Claim string // one existing claim for all users instead, with a folder each
	Path  string // in the notebook; default /home/jovyan
	Stays bool   // a volume stays on the node of its owner's first server, as those of K3s' local-path do

	// ClaimTemplate names the claims of users, and SubPath a folder in each. Empty:
	// kubespawner's own. An adopted hub keeps its homes if it keeps its old templates, e.g.
	// claim-{username}.
	ClaimTemplate string
	SubPath       string
}

// Share is a volume that notebooks mount in addition to each user's own.
type Share struct {
	Name     string
	Path     string // in the notebook, absolute
	ReadOnly bool
	Groups   []string // of users that get it; empty: all

	NFS NFSExport // for which volume and claim are created
}

// NFSExport is a folder of an NFS server, mounted unchanged by csi-driver-nfs.
type NFSExport struct {
	Server       string
	Export       string // absolute path
	MountOptions []string
}

// Scratch is a volume that is created and deleted with its server. Not every node has storage
// on its own disks: profiles that run only on nodes without it get no volume, and the others
// run on nodes with it.
type Scratch struct {
	Class string // empty: the default one
	Size  Bytes
	Path  string   // default /scratch
	Nodes []string // names of those that have the class; empty: all
}

// Cull stops servers that nobody uses.
type Cull struct {
	Off    bool          // stop none; the other fields are then empty
	Idle   time.Duration // default 1 h
	MaxAge time.Duration // stop older servers even if they are busy; 0: no
	Every  time.Duration // default 5 min
	Exempt []string      // users whose servers are never stopped
}

// Quota limits what all notebooks together may use. Zero: no limit.
type Quota struct {
	GPUs   int
	CPU    float64
	Memory Bytes
}

func (h Hub) namespace() string { return or(h.Namespace, defaultName) }

// URL returns the hub's address for users.
func (h Hub) URL() string {
	if h.Ingress.TLS || h.Ingress.TLSSecret != "" {
		return "https://" + h.Hostname
	}
	return "http://" + h.Hostname
}

func or[T comparable](a, b T) T {
	var zero T
	if a == zero {
		return b
	}
	return a
}
