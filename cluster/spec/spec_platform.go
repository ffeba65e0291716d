package spec

import (
	"net/netip"
	"time"
)

// Ways to deploy a part of the platform.
const (
	ViaDirect = "direct" // applied by cluster:up
	ViaFleet  = "fleet"  // written into the Git repository of fleet.repo, and deployed by Fleet from there
)

// Platform has the services that run on Kubernetes. A nil part is off.
type Platform struct {
	Charts  Charts
	Storage Storage
	LB      *LoadBalancer
	Ingress Ingress
	TLS     *TLS
	Rancher *Rancher
	Fleet   *Fleet
	Hub     *Hub

	Monitoring *Monitoring
	Backup     *Backup
	Queues     []Queue // in the order of the file; none: the GPUs go to who asks first
	CNI        *CNI
}

// Charts has the sources of charts, and exceptions for single parts.
type Charts struct {
	Folder   string                    // local folder of charts, asked before any repository; empty: none
	Offline  bool                      // use only Folder
	Versions map[string]string         // by part name (chart.Part.Name), instead of the pinned ones
	Values   map[string]map[string]any // by part name, merged over ours; no secrets
	Via      map[string]string         // by part name: ViaDirect or ViaFleet; default ViaDirect, or Fleet.Default
	Digests  map[string]string         // by part name: sha256:… of the chart's archive, instead of the known digest of the pinned one
}

// Storage has the storage classes. Exactly one is the default.
type Storage struct {
	Default  string   // class name; empty: K3s' local-path
	Existing []string // existing classes that homelab does not create
	NFS      *NFS
	Scratch  *Scratch
	Longhorn *Longhorn
	CephFS   *CephFS
}

// NFS is shared storage on an NFS server. With VM set homelab creates the server; otherwise
// Server is an existing one.
type NFS struct {
	Class        string // default "nfs"
	Server       string // address or name
	Export       string // absolute path on the server
	MountOptions []string
	Retain       bool    // volumes outlive their claims; default true
	Shares       []Share // named folders that notebooks mount, in the order of the file
	VM           *NFSVM  // nil: an external server
}

// Share is one folder of the NFS server, mounted unchanged.
type Share struct {
	Name         string
	Export       string // absolute path on the server
	ReadOnly     bool
	MountOptions []string
}

// NFSVM is an NFS server that homelab creates on Proxmox.
type NFSVM struct {
	Name    string // of the VM; default <cluster>-nfs
	Host    string
	Address netip.Prefix
	Cores   int
	Memory  Size
	Disk    DiskOptions    // the data disk
	Allow   []netip.Prefix // networks that may mount; default: the nodes' network
}

// Scratch is fast storage on each node's own disk, which is lost with the node.
type Scratch struct {
	Class string   // default "scratch"
	Path  string   // folder for volumes; default: the mount point of the nodes' scratch disks
	Nodes []string // names of the nodes that have it; filled by Load
}

// Longhorn is replicated storage on the nodes' disks.
type Longhorn struct {
	Class       string // "longhorn"
	Replicas    int    // default 3, or the number of data nodes
	DataPath    string // default /var/lib/longhorn
	DrainPolicy string // one of Longhorn's; default block-if-contains-last-replica
}

// CephFS is a file system of an existing Ceph cluster.
type CephFS struct {
	Class     string // default "cephfs"
	ClusterID string // fsid
	Monitors  []string
	FSName    string
	Pool      string // may be empty
	User      string // without "client."
	Key       SecretRef
}

// Kinds of load balancers.
const (
	LBServiceLB = "servicelb" // K3s' own: node ports on the nodes' addresses
	LBMetalLB   = "metallb"
	LBCilium    = "cilium"
)

// LoadBalancer assigns addresses of the nodes' network to Services.
type LoadBalancer struct {
	Kind      string
	Addresses []string              // ranges a-b or prefixes, as in the file; empty for servicelb
	Reserved  map[string]netip.Addr // by service: namespace/name, or "ingress"
}

// Kinds of ingress.
const (
	IngressTraefik = "traefik" // K3s' own
	IngressGateway = "gateway" // Gateway API, served by K3s' Traefik
	IngressNone    = "none"
)

// Ingress says how HTTP enters the cluster.
type Ingress struct {
	Kind  string
	Class string // ingressClassName or gatewayClassName; default traefik
}

// Sources of certificates.
const (
	TLSSelfSigned = "self-signed"
	TLSACME       = "acme"
	TLSCA         = "ca"
	TLSSecret     = "secret"
)

// TLS says who signs the platform's certificates.
type TLS struct {
	Source string
	Issuer string // name of the ClusterIssuer; default "homelab"
	Email  string // for ACME
	Server string // ACME directory; default Let's Encrypt
	CACert string // PEM file, for ca; passed on to the hub and the notebooks
	CAKey  SecretRef
	Secret string // namespace/name of an existing kubernetes.io/tls Secret
}

// Rancher is the management UI; it brings its own Fleet.
type Rancher struct {
	Hostname  string
	Version   string    // of the chart; empty: the pinned one
	Replicas  int       // default: the number of servers, at most 3
	Bootstrap SecretRef // first password of admin; zero: generated and kept in the cluster
}

// Fleet is GitOps.
type Fleet struct {
	Standalone bool   // false: Rancher's own
	Repo       string // URL of the Git repository, https or ssh
	Branch     string // default main
	Path       string // our folder in it; default fleet/<cluster>
	Username   string // with Password, for https
	Password   SecretRef
	SSHKey     SecretRef     // with KnownHosts, for ssh
	KnownHosts string        // file
	CAFile     string        // for https
	Polling    time.Duration // default 15 s
	Default    string        // ViaDirect or ViaFleet for parts that Charts.Via does not name
	Extra      []string      // further paths of the repository
	Author     string        // of commits: Name <mail>
}

// Monitoring is Prometheus, Grafana and the GPU exporter.
type Monitoring struct {
	Retention    time.Duration // default 15 days
	StorageClass string        // empty: the default class
	Size         Size          // of Prometheus' volume; default 50 GiB
	Hostname     string        // of Grafana; empty: not exposed
	GPUs         bool          // DCGM exporter and dashboard; default true with GPU nodes
	Alertmanager bool
}

// Backup is Velero.
type Backup struct {
	Endpoint, Region, Bucket, Prefix string
	AccessKey, SecretKey             SecretRef
	Schedule                         string        // cron; default daily at 3
	Retention                        time.Duration // default 30 days
	Namespaces                       []string      // empty: all
	FileSystem                       bool          // also the contents of volumes; default true
	CAFile                           string
	Insecure                         bool
}

// Queue is a group's part of the cluster's GPUs: its pods wait until it is their turn.
type Queue struct {
	Name       string
	GPUs       int            // of nvidia.com/gpu, as pods request it
	MIG        map[string]int // instances by profile, e.g. 1g.5gb
	Namespaces []string
	Borrow     bool // may also use what other queues leave unused; default true
	Reclaim    bool // ends pods of borrowers when it needs its own part
}

// CNI is a network other than K3s' flannel.
type CNI struct {
	Kind string // "cilium"
}

// Hub is JupyterHub.
type Hub struct {
	Hostname  string
	Version   string // of the chart; empty: the pinned one
	Namespace string // default jupyterhub
	Database  HubDatabase
	Auth      HubAuth
	Profiles  []HubProfile // in the order of the file; the first is the default unless another is marked
	Home      HubHome
	Shared    []HubShare
	Scratch   HubScratch
	SHM       Size // of /dev/shm; default 8 GiB
	Cull      HubCull
	PrePull   bool           // pull notebooks' images to the nodes in advance
	Isolate   bool           // network policies; default true
	Reach     []netip.Prefix // private networks that isolated notebooks may reach
	Quota     HubQuota
}

// HubDatabase is where the hub stores users and tokens.
type HubDatabase struct {
	Kind  string    // "sqlite" (a volume) or "postgres"
	Class string    // of the volume
	Size  Size      // default 1 GiB
	URL   SecretRef // postgresql://… with its password
}

// Kinds of HubAuth.
const (
	AuthDummy  = "dummy"
	AuthNative = "native"
	AuthOIDC   = "oidc"
	AuthLDAP   = "ldap"
	AuthGitHub = "github"
)

// HubAuth says who may log in.
type HubAuth struct {
	Kind       string
	AllowAll   bool
	Users      []string // allowed
	Admins     []string
	Password   SecretRef // dummy: one for all users
	OpenSignup bool      // native

	ClientID     string // oidc, github
	ClientSecret SecretRef

	Issuer        string // oidc: https://…, endpoints below it
	AuthorizeURL  string // oidc; empty: found below Issuer
	TokenURL      string
	UserdataURL   string
	UsernameClaim string // default preferred_username
	GroupsClaim   string // empty: no groups
	AllowedGroups []string
	AdminGroups   []string
	Scopes        []string
	LoginService  string // text of the button

	Organizations []string // github: org or org:team

	LDAPServer     string   // ldap: ldaps://host
	LDAPBindDN     []string // templates with {username}
	LDAPSearchBase string
	LDAPGroups     []string
	LDAPLookupDN   bool
	LDAPSearchUser string
	LDAPSearchPass SecretRef
	LDAPUserAttr   string // default uid
	CAFile         string // for oidc and ldap
}

// HubProfile is a choice in the hub's form.
type HubProfile struct {
	Name, Title, Description string
	Image                    string
	Default                  bool
	CPUGuarantee, CPULimit   float64 // cores; 0: none
	MemGuarantee, MemLimit   Size
	GPUs                     int
	GPUMemory                Size     // share of a GPU, with MPS
	MIG                      string   // profile of the instance of a GPU that it gets; empty: none
	Pool                     string   // node pool; empty: any
	RuntimeClass             string   // default nvidia with GPUs
	Groups                   []string // of users that see it; empty: all
	Env                      map[string]string
	DefaultURL               string
	SHM                      Size // 0: the hub's
}

// HubHome is each user's own folder.
type HubHome struct {
	Class string // empty: the default class
	Size  Size   // default 20 GiB
	Claim string // one existing claim for all users, with a folder each; empty: a volume each
	Path  string // in the notebook; default /home/jovyan

	// An adopted hub may have other names of claims: its own templates keep its homes.
	ClaimTemplate string // kubespawner's pvc_name_template, e.g. claim-{username}; empty: the chart's
	SubPath       string // of each user in their volume; may have {username}
}

// HubShare is a share of Storage.NFS, mounted into every notebook.
type HubShare struct {
	Name     string
	Path     string // in the notebook
	ReadOnly bool
	Groups   []string
}

// HubScratch is an ephemeral volume of each server.
type HubScratch struct {
	Class string // empty: none
	Size  Size
	Path  string // default /scratch
}

// HubCull stops servers that nobody uses.
type HubCull struct {
	Enabled bool          // default true
	Idle    time.Duration // default 1 h
	MaxAge  time.Duration // 0: no limit
	Every   time.Duration // default 5 min
	Exempt  []string      // users whose servers are never stopped
}

// HubQuota limits what all notebooks use together; zero means no limit.
type HubQuota struct {
	GPUs   int
	CPU    float64
	Memory Size
}
