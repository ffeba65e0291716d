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
	Folder   string                    `yaml:"folder" doc:"Local folder of charts, unpacked or as .tgz, used before any repository."`
	Offline  bool                      `yaml:"offline" doc:"Use only the folder, no repository."`
	Versions map[string]string         `yaml:"versions" doc:"Versions of charts by part, instead of the pinned ones."`
	Digests  map[string]string         `yaml:"digests" doc:"SHA-256 of charts' archives by part, sha256:…; a download with another one is refused."`
	Values   map[string]map[string]any `yaml:"values" doc:"Further values by part, merged over homelab's values. No secrets."`
	Via      map[string]string         `yaml:"via" doc:"How single parts are deployed: direct or fleet."`
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
	_     struct{} `short:"switch"`
	Class string   `yaml:"class" default:"scratch" doc:"Name of the storage class. Default scratch."`
	Path  string   `yaml:"path" short:"text" doc:"Folder for volumes on the nodes. Default: where their scratch disks are mounted."`
	Nodes []string `yaml:"-"` // names of the nodes that have it
}

// Longhorn is replicated storage on the nodes' disks.
type Longhorn struct {
	_           struct{} `short:"switch"`
	Class       string   `yaml:"class" default:"longhorn" doc:"Name of the storage class. Default longhorn."`
	Replicas    int      `yaml:"replicas" doc:"Replicas of each volume. Default 3, or the number of nodes if that is lower."`
	DataPath    string   `yaml:"path" default:"/var/lib/longhorn" doc:"Folder for data on the nodes. Default /var/lib/longhorn."`
	DrainPolicy string   `yaml:"drainPolicy" default:"block-if-contains-last-replica" enum:"block-if-contains-last-replica,allow-if-replica-is-stopped,always-allow,block-for-eviction,block-for-eviction-if-contains-last-replica" doc:"What draining a node waits for. Default block-if-contains-last-replica."`
}

// CephFS is a file system of an existing Ceph cluster.
type CephFS struct {
	ClusterID string    `yaml:"clusterID" required:"true" doc:"The cluster's fsid, as ceph fsid prints it."`
	Monitors  []string  `yaml:"monitors" required:"true" doc:"Monitors, address:port."`
	FSName    string    `yaml:"fsName" required:"true" doc:"Name of the file system, as ceph fs ls prints it."`
	Pool      string    `yaml:"pool" doc:"Data pool. Default: the file system's own choice."`
	User      string    `yaml:"user" required:"true" doc:"Ceph user, without client. before it."`
	Key       SecretRef `yaml:"key" required:"true" doc:"Reference to its key, as ceph auth get-key prints it."`
	Class     string    `yaml:"class" default:"cephfs" doc:"Name of the storage class. Default cephfs."`
}

// Kinds of load balancers.
const (
	LBServiceLB = "servicelb" // K3s' own: node ports on the nodes' addresses
	LBMetalLB   = "metallb"
	LBCilium    = "cilium"
)

// LoadBalancer assigns addresses of the nodes' network to Services.
type LoadBalancer struct {
	Kind      string                `yaml:"kind" short:"text" enum:"servicelb,metallb,cilium" doc:"Default: metallb with addresses (cilium with that CNI), else K3s' servicelb."`
	Addresses []AddressPool         `yaml:"addresses" doc:"Free addresses of the nodes' network: ranges as in 10.0.0.200-10.0.0.219, or prefixes."`
	Reserved  map[string]netip.Addr `yaml:"reserved" doc:"Addresses of single services: namespace/name, or ingress."`
}

// Kinds of ingress.
const (
	IngressTraefik = "traefik" // K3s' own
	IngressGateway = "gateway" // Gateway API, served by K3s' Traefik
	IngressNone    = "none"
)

// Ingress says how HTTP enters the cluster.
type Ingress struct {
	Kind  string `yaml:"kind" short:"text" default:"traefik" enum:"traefik,gateway,none" doc:"traefik: Ingresses. gateway: the Gateway API. Both are served by K3s' Traefik. none: no ingress. Default traefik."`
	Class string `yaml:"class" doc:"Class of Ingresses or Gateways. Default traefik."`
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
	Source string    `yaml:"source" short:"text" enum:"self-signed,acme,ca,secret" doc:"Who signs certificates. Default: follows from the other keys, else self-signed."`
	Issuer string    `yaml:"issuer" doc:"Name of the ClusterIssuer. Default homelab."`
	Email  string    `yaml:"email" doc:"For acme: the account's address, which gets warnings about expiring certificates."`
	Server string    `yaml:"server" doc:"For acme: URL of the directory. Default: Let's Encrypt."`
	CACert string    `yaml:"ca" doc:"For ca: PEM file of the authority's certificate. For secret: that of the certificate's signer, if it is private."`
	CAKey  SecretRef `yaml:"key" doc:"For ca: reference to the authority's private key."`
	Secret string    `yaml:"secret" doc:"For secret: namespace/name of an existing Secret of type kubernetes.io/tls."`
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
