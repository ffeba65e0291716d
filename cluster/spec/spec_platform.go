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
	Charts     Charts        `yaml:"charts" doc:"Sources of Helm charts, and overrides of their versions and values."`
	Storage    Storage       `yaml:"storage" doc:"Storage classes."`
	LB         *LoadBalancer `yaml:"loadBalancer" doc:"What assigns addresses to Services. Default: K3s' servicelb."`
	Ingress    Ingress       `yaml:"ingress" doc:"How HTTP enters the cluster. Default: K3s' Traefik."`
	TLS        *TLS          `yaml:"tls" doc:"Who signs certificates. Default: off; self-signed with rancher."`
	Rancher    *Rancher      `yaml:"rancher" doc:"Rancher, with its own Fleet."`
	Fleet      *Fleet        `yaml:"fleet" doc:"GitOps with Fleet."`
	Monitoring *Monitoring   `yaml:"monitoring" doc:"Prometheus and Grafana, with the GPUs' metrics."`
	Backup     *Backup       `yaml:"backup" doc:"Velero, into a bucket."`
	Queues     []Queue       `yaml:"queues,named" doc:"Kueue: groups that share the GPUs, by name."`
	Hub        *Hub          `yaml:"hub" doc:"JupyterHub."`
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
	Default  string    `yaml:"default" doc:"The default storage class. Default: the only one of nfs, longhorn and cephfs, else K3s' local-path."` // empty: K3s' local-path
	Existing []string  `yaml:"existing" doc:"Existing storage classes that homelab does not create, and that parts may name."`
	NFS      *NFS      `yaml:"nfs" doc:"An NFS server: server:/export, or the keys below."`
	Scratch  *Scratch  `yaml:"scratch" doc:"Volumes on each node's own scratch disk, lost with the node."`
	Longhorn *Longhorn `yaml:"longhorn" doc:"Volumes that are replicated between the nodes' disks."`
	CephFS   *CephFS   `yaml:"cephfs" doc:"A file system of an existing Ceph cluster."`
}

// NFS is shared storage on an NFS server. With VM set homelab creates the server; otherwise
// Server is an existing one.
type NFS struct {
	Server string `yaml:"server" short:"text" doc:"Address or name of the server, with or without :/export."`
	Export string `yaml:"export" doc:"Absolute path on the server, with a folder for each volume."`
	Class  string `yaml:"class" default:"nfs" doc:"Name of the storage class. Default nfs."`
	// Of NFS 4 the mount takes the newest that the server has, 4.2 first (nfs-utils, stropts.c,
	// nfs_autonegotiate): many a NAS has 4.1 at most. With a soft mount, a pause of the server would
	// lose writes.
	MountOptions []string `yaml:"mountOptions" default:"nfsvers=4,hard,noatime" doc:"Mount options. Default nfsvers=4 (the newest that the server has), hard and noatime."`
	Retain       Switch   `yaml:"retain" default:"true" doc:"Keep the data when a claim is deleted. Default true."`
	Shares       []Share  `yaml:"shares,named" doc:"Folders of the server by name, for notebooks."`
	VM           *NFSVM   `yaml:"vm" doc:"Create the server: a VM with a data disk."` // nil: an external server
}

// Share is one folder of the NFS server, mounted unchanged.
type Share struct {
	Name         string   `yaml:"-"`
	Export       string   `yaml:"export" short:"text" required:"true" doc:"Absolute path on the server."`
	ReadOnly     bool     `yaml:"readOnly" doc:"Mount it read-only."`
	MountOptions []string `yaml:"mountOptions" doc:"Default: those of nfs."`
}

// NFSVM is an NFS server that homelab creates on Proxmox.
type NFSVM struct {
	Name    string         `yaml:"name" doc:"Name of the VM. Default: the cluster's name with -nfs appended."`
	Host    string         `yaml:"host" doc:"Proxmox host. Default proxmox.host."`
	Address netip.Prefix   `yaml:"address,single" required:"true" doc:"Its address in the nodes' network."`
	Cores   int            `yaml:"cores" default:"2" doc:"vCPUs. Default 2."`
	Memory  Size           `yaml:"memory" default:"4GiB" doc:"Default 4GiB."`
	Size    Size           `yaml:"size" required:"true" doc:"Size of the data disk, e.g. 2TiB."`
	Storage string         `yaml:"storage" doc:"Storage of its disks. Default: that of the nodes."`
	Allow   []netip.Prefix `yaml:"allow" doc:"Networks that may mount. Default: the nodes'."`
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
	_        struct{} `short:"switch"`
	Class    string   `yaml:"class" default:"longhorn" doc:"Name of the storage class. Default longhorn."`
	Replicas int      `yaml:"replicas" doc:"Replicas of each volume. Default 3, or the number of nodes if that is lower."`
	DataPath string   `yaml:"path" default:"/var/lib/longhorn" doc:"Folder for data on the nodes. Default /var/lib/longhorn."`
	// The options of defaultSettings.nodeDrainPolicy in questions.yaml of its chart, read at 1.12.1.
	// Longhorn silently ignores any other value, and then a drain may never end.
	DrainPolicy string `yaml:"drainPolicy" default:"block-if-contains-last-replica" enum:"block-if-contains-last-replica,allow-if-replica-is-stopped,always-allow,block-for-eviction,block-for-eviction-if-contains-last-replica" doc:"What draining a node waits for. Default block-if-contains-last-replica."`
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
	Hostname  string    `yaml:"hostname" short:"text" required:"true" doc:"Its hostname, e.g. rancher.lab.example."`
	Version   string    `yaml:"version" doc:"Version of the chart. Default: the pinned one."`
	Replicas  int       `yaml:"replicas" doc:"Default: the number of servers, at most 3."`
	Bootstrap SecretRef `yaml:"bootstrapPassword" doc:"Reference to the first password of admin, 12 characters at least. Default: generated and kept in the cluster."`
}

// Fleet is GitOps.
type Fleet struct {
	_          struct{}      `short:"switch"`
	Standalone Switch        `yaml:"standalone" doc:"Install Fleet. Default: true without rancher, which brings its own."`
	Repo       string        `yaml:"repo" short:"text" doc:"URL of the Git repository, https or ssh."`
	Branch     string        `yaml:"branch" default:"main" doc:"Default main."`
	Path       string        `yaml:"path" doc:"Folder in it that is written. Default fleet/NAME with the cluster's name."`
	Username   string        `yaml:"username" doc:"Login of an https repository."`
	Password   SecretRef     `yaml:"password" doc:"Reference to its password or token."`
	SSHKey     SecretRef     `yaml:"sshKey" doc:"Reference to the private key of an ssh repository."`
	KnownHosts string        `yaml:"knownHosts" doc:"File with the host keys of an ssh repository, as ssh-keyscan prints them."`
	CAFile     string        `yaml:"ca" doc:"PEM file of the authority that signed the https repository's certificate."`
	Polling    time.Duration `yaml:"polling" default:"15s" doc:"How often Fleet polls the repository. Default 15s."`
	Default    string        `yaml:"default" default:"direct" enum:"direct,fleet" doc:"How parts that charts.via does not name are deployed. Default direct."`
	Extra      []string      `yaml:"extra" doc:"Further folders of the repository that Fleet deploys and homelab never writes."`
	Author     string        `yaml:"author" doc:"Author of commits, Name <address>. Default: homelab."`
}

// Monitoring is Prometheus, Grafana and the GPU exporter.
type Monitoring struct {
	_            struct{}      `short:"switch"`
	Retention    time.Duration `yaml:"retention" default:"15d" doc:"How long metrics are kept. Default 15d."`
	StorageClass string        `yaml:"class" doc:"Storage class of the metrics. Default: the default one."`
	Size         Size          `yaml:"size" default:"50GiB" doc:"Size of their volume. Default 50GiB."`
	Hostname     string        `yaml:"hostname" doc:"Hostname of Grafana. Default: none, inside the cluster only."`
	GPUs         Switch        `yaml:"gpus" doc:"Metrics and a dashboard of GPUs. Default: true if a node has GPUs."`
	Alertmanager bool          `yaml:"alertmanager" doc:"Also run Alertmanager."`
}

// Backup is Velero.
type Backup struct {
	Endpoint   string        `yaml:"endpoint" doc:"URL of the S3 service. Default: Amazon's."`
	Region     string        `yaml:"region" default:"us-east-1" doc:"Default us-east-1."`
	Bucket     string        `yaml:"bucket" required:"true" doc:"Name of the bucket."`
	Prefix     string        `yaml:"prefix" doc:"Folder in the bucket. Default: the cluster's name."`
	AccessKey  SecretRef     `yaml:"accessKey" required:"true" doc:"Reference to the access key."`
	SecretKey  SecretRef     `yaml:"secretKey" required:"true" doc:"Reference to the secret key."`
	Schedule   string        `yaml:"schedule" default:"0 3 * * *" doc:"Cron expression. Default 0 3 * * *."`
	Retention  time.Duration `yaml:"retention" default:"30d" doc:"How long a backup is kept. Default 30d."`
	Namespaces []string      `yaml:"namespaces" doc:"Namespaces to back up. Default: all."`
	FileSystem Switch        `yaml:"fileSystem" default:"true" doc:"Also back up the volumes' files. Default true."`
	CAFile     string        `yaml:"ca" doc:"PEM file of the authority that signed the service's certificate."`
	Insecure   bool          `yaml:"insecure" doc:"Do not check the service's certificate."`
}

// Queue is a group's part of the cluster's GPUs: its pods wait until it is their turn.
type Queue struct {
	Name       string         `yaml:"-"`
	GPUs       int            `yaml:"gpus" min:"0" doc:"How many nvidia.com/gpu it can always have. Default 0: only what others leave."`
	MIG        map[string]int `yaml:"mig" doc:"How many MIG instances with a name of their own, by profile, e.g. 1g.5gb: 8."`
	Namespaces []string       `yaml:"namespaces" required:"true" doc:"Pods and Jobs in these wait in the queue; in the hub's, only notebooks with GPUs."`
	Borrow     Switch         `yaml:"borrow" default:"true" doc:"It may also use what other queues leave unused. Default true."`
	Reclaim    bool           `yaml:"reclaim" doc:"It takes its own part back from borrowers, by ending their pods. Default: it waits for them."`
}
