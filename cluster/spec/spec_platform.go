package spec

import (
	"net/netip"
	"slices"
	"time"
)

// Ways to deploy a part of the platform.
const (
	ViaDirect = "direct" // applied by cluster:up
	ViaFleet  = "fleet"  // written into the Git repository of fleet.repo, and deployed by Fleet from there
	ViaFlux   = "flux"   // the same with flux.repo and Flux
	ViaArgo   = "argocd" // the same with argocd.repo and Argo CD
)

// Platform has the services that run on Kubernetes. A nil part is off.
type Platform struct {
	Charts       Charts        `yaml:"charts" absent:"pinned charts from the internet" doc:"Sources, versions and values of Helm charts."`
	Storage      Storage       `yaml:"storage" absent:"K3s' ‘local-path’" doc:"Storage classes."`
	LB           *LoadBalancer `yaml:"loadBalancer" absent:"K3s' ‘servicelb’" doc:"What assigns addresses to Services."`
	Ingress      Ingress       `yaml:"ingress" absent:"K3s' Traefik" doc:"How HTTP enters the cluster."`
	DNS          *DNS          `yaml:"dns" absent:"off" doc:"Zones with the cluster's names, and who serves them: for certificates by ACME and for records."`
	Tunnel       *Tunnel       `yaml:"tunnel" absent:"off" doc:"Cloudflare's tunnel: names of the cluster on the internet, without a public address or an open port."`
	TLS          *TLS          `yaml:"tls" absent:"off; ‘self-signed’ with ‘rancher’" doc:"Who signs certificates."`
	Login        *Login        `yaml:"login" absent:"off" doc:"One account for the hub, Grafana, the chat, Rancher, Argo CD and kubectl: by Dex, or by a provider that exists."`
	Rancher      *Rancher      `yaml:"rancher" absent:"off" doc:"Rancher, with its own Fleet."`
	Fleet        *Fleet        `yaml:"fleet" absent:"off" doc:"GitOps with Fleet."`
	Flux         *Fleet        `yaml:"flux" absent:"off" doc:"GitOps with Flux, in place of ‘fleet’."`
	ArgoCD       *ArgoCD       `yaml:"argocd" absent:"off" doc:"GitOps with Argo CD, in place of ‘fleet’."`
	Monitoring   *Monitoring   `yaml:"monitoring" absent:"off" doc:"Prometheus and Grafana, with the GPUs' metrics."`
	Logs         *Logs         `yaml:"logs" absent:"off" doc:"VictoriaLogs, with the logs of all pods."`
	Backup       *Backup       `yaml:"backup" absent:"off" doc:"Velero, into a bucket."`
	Postgres     *Postgres     `yaml:"postgres" absent:"off" doc:"CloudNativePG, and databases."`
	Queues       []Queue       `yaml:"queues,named" absent:"off" doc:"Kueue: groups that share the GPUs."`
	Models       []Model       `yaml:"models,named" absent:"off" doc:"Language models, each with an address of OpenAI's API: [models.md](models.md)."`
	ModelGateway *ModelGateway `yaml:"modelGateway" absent:"off" doc:"One address for all models, with a key for each person or group."`
	ModelChat    *ModelChat    `yaml:"modelChat" absent:"off" doc:"Open WebUI: a page where people talk to the models of the gateway. Needs ‘modelGateway’ and ‘login’."`
	Hub          *Hub          `yaml:"hub" absent:"off" doc:"JupyterHub."`
}

// GitOps is the section of the program that deploys from Git, and how charts.via calls it; nil if
// there is none.
func (p *Platform) GitOps() (section *Fleet, via string) {
	switch {
	case p.ArgoCD != nil:
		return &p.ArgoCD.Fleet, ViaArgo
	case p.Flux != nil:
		return p.Flux, ViaFlux
	}
	return p.Fleet, ViaFleet
}

// Charts has the sources of charts, and exceptions for single parts.
type Charts struct {
	Folder   string                    `yaml:"folder" doc:"Local folder of charts, used before any repository."`
	Offline  bool                      `yaml:"offline" doc:"Use only the folder."`
	Versions map[string]string         `yaml:"versions" absent:"pinned" doc:"Exact versions by part: ‘{rancher: 2.15.2}’."`
	Digests  map[string]string         `yaml:"digests" absent:"known ones" doc:"SHA-256 of charts' archives by part: ‘{rancher: \"sha256:…\"}’. A download with another digest, or without any known one, is refused."`
	Values   map[string]map[string]any `yaml:"values" doc:"Further values by part, merged over homelab's. No secrets."`
	Via      map[string]string         `yaml:"via" absent:"‘fleet.default’, or that of ‘flux’ or ‘argocd’" doc:"How single parts are deployed, ‘direct’, ‘fleet’, ‘flux’ or ‘argocd’: ‘{monitoring: fleet}’."`
}

// Storage has the storage classes. Exactly one is the default.
type Storage struct {
	Default  string      `yaml:"default" absent:"the only one whose volumes every node can mount, else ‘local-path’" doc:"Name of the default class. Required if several could be."` // empty: K3s' local-path
	Existing []string    `yaml:"existing" doc:"Existing classes that homelab does not create, and that parts may name."`
	NFS      *NFS        `yaml:"nfs" absent:"off" doc:"An NFS server: ‘address:/export’, or the keys below."`
	Scratch  *Scratch    `yaml:"scratch" absent:"off" doc:"Volumes on each node's scratch disk: ‘true’, a path, or the keys below."`
	Longhorn *Longhorn   `yaml:"longhorn" absent:"off" doc:"Volumes replicated between nodes: ‘true’, or the keys below."`
	CephFS   *CephFS     `yaml:"cephfs" absent:"off" doc:"A file system of an existing Ceph cluster."`
	Proxmox  *ProxmoxCSI `yaml:"proxmox" absent:"off" doc:"Disks of a Proxmox storage, which [follow their pod](storage.md#proxmox) to another VM."`
}

// LocalPath is the storage class that K3s includes and makes the default.
const LocalPath = "local-path"

// NFS is shared storage on an NFS server. With VM set homelab creates the server; otherwise
// Server is an existing one.
type NFS struct {
	Server string `yaml:"server" short:"text" absent:"required" doc:"Address or name, with or without ‘:/export’."`
	Export string `yaml:"export" absent:"from ‘server’" doc:"Absolute path on the server. Each volume is a folder in it."`
	Class  string `yaml:"class" default:"nfs" doc:"Name of the storage class."`
	// Of NFS 4 the mount takes the newest that the server has, 4.2 first (nfs-utils, stropts.c,
	// nfs_autonegotiate): many a NAS has 4.1 at most. With a soft mount, a pause of the server would
	// lose writes.
	MountOptions []string   `yaml:"mountOptions" default:"nfsvers=4,hard,noatime" doc:"‘nfsvers=4’ takes the newest NFS 4 of the server; for a server with NFS 3 alone write ‘nfsvers=3’."`
	Retain       Switch     `yaml:"retain" default:"true" doc:"Keep the data when its claim is deleted."`
	Classes      []NFSClass `yaml:"classes,named" doc:"Further storage classes by name, each for volumes in a folder of this server or another."`
	Shares       []Share    `yaml:"shares,named" doc:"Folders by name, of this server or another: for notebooks by ‘hub.shared’, for pods by claims."`
	VM           *NFSVM     `yaml:"vm" doc:"Create the server: a VM with a data disk."` // nil: an external server
}

// NFSClass is another class of the same driver.
type NFSClass struct {
	Name         string   `yaml:"-"`
	Server       string   `yaml:"server" absent:"that of ‘nfs’" doc:"Address or name of another server."`
	Export       string   `yaml:"export" short:"text" required:"true" doc:"Absolute path on the server; ‘address:/path’ for another server. Each volume is a folder in it."`
	Retain       Switch   `yaml:"retain" absent:"that of ‘nfs’" doc:"Keep the data when its claim is deleted."`
	MountOptions []string `yaml:"mountOptions" absent:"those of ‘nfs’" doc:"Its mount options."`
}

// Share is one folder of an NFS server, mounted unchanged.
type Share struct {
	Name         string   `yaml:"-"`
	Server       string   `yaml:"server" absent:"that of ‘nfs’" doc:"Address or name of another server."`
	Export       string   `yaml:"export" short:"text" required:"true" doc:"Absolute path on the server; ‘address:/path’ for another server."`
	ReadOnly     bool     `yaml:"readOnly" doc:"Mount it read-only."`
	Namespaces   []string `yaml:"namespaces" absent:"none" doc:"Namespaces with a claim of the share's name, for pods."`
	MountOptions []string `yaml:"mountOptions" absent:"those of ‘nfs’" doc:"Its mount options."`
}

// NFSVM is an NFS server that homelab creates on Proxmox.
type NFSVM struct {
	Name    string         `yaml:"name" absent:"‘NAME-nfs’ with the cluster's name" doc:"Name of the VM."`
	Host    string         `yaml:"host" absent:"‘proxmox.host’" doc:"One host, never ‘auto’."`
	Address netip.Prefix   `yaml:"address,single" required:"true" doc:"In the nodes' network."`
	Cores   int            `yaml:"cores" default:"2" doc:"Its virtual CPUs."`
	Memory  Size           `yaml:"memory" default:"4GiB" doc:"Free memory caches files."`
	Size    Size           `yaml:"size" required:"true" doc:"Size of the data disk. It can grow later."`
	Storage string         `yaml:"storage" absent:"the nodes'" doc:"Storage of its disks."`
	Allow   []netip.Prefix `yaml:"allow" absent:"the nodes' network" doc:"Networks that may mount."`
}

// Scratch is fast storage on each node's own disk, which is lost with the node.
type Scratch struct {
	_     struct{} `short:"switch"`
	Class string   `yaml:"class" default:"scratch" doc:"Name of the storage class."`
	Path  string   `yaml:"path" short:"text" absent:"where the scratch disks are mounted" doc:"Folder for volumes, the same on all nodes."`
	Nodes []string `yaml:"-"` // names of the nodes that have it
}

// Longhorn is replicated storage on the nodes' disks.
type Longhorn struct {
	_        struct{} `short:"switch"`
	Class    string   `yaml:"class" default:"longhorn" doc:"Name of the storage class."`
	Replicas int      `yaml:"replicas" absent:"3, or the number of agents (of nodes, if there are none) if that is lower" doc:"Replicas of each volume, on different nodes."`
	DataPath string   `yaml:"path" default:"/var/lib/longhorn" doc:"Folder for data. Mount a disk of role ‘data’ there."`
	// The options of defaultSettings.nodeDrainPolicy in questions.yaml of its chart, read at 1.12.1.
	// Longhorn silently ignores any other value, and then a drain may never end.
	DrainPolicy string `yaml:"drainPolicy" default:"block-if-contains-last-replica" enum:"block-if-contains-last-replica,allow-if-replica-is-stopped,always-allow,block-for-eviction,block-for-eviction-if-contains-last-replica" doc:"What a drain waits for: this, ‘allow-if-replica-is-stopped’, ‘always-allow’, ‘block-for-eviction’ or ‘block-for-eviction-if-contains-last-replica’."`
}

// CephFS is a file system of an existing Ceph cluster.
type CephFS struct {
	ClusterID string    `yaml:"clusterID" required:"true" doc:"What ‘ceph fsid’ prints."`
	Monitors  []string  `yaml:"monitors" required:"true" doc:"List of ‘address:port’."`
	FSName    string    `yaml:"fsName" required:"true" doc:"As ‘ceph fs ls’ shows it."`
	Pool      string    `yaml:"pool" absent:"the file system's own choice" doc:"Data pool."`
	User      string    `yaml:"user" required:"true" doc:"Ceph user, without ‘client.’ before it."`
	Key       SecretRef `yaml:"key" required:"true" doc:"Reference to its key, as ceph auth get-key prints it."`
	Class     string    `yaml:"class" default:"cephfs" doc:"Name of the storage class."`
}

// ProxmoxCSI is storage of Proxmox VE, with a token of its own: pods of the cluster have it.
type ProxmoxCSI struct {
	Storage     string    `yaml:"storage" required:"true" doc:"Proxmox storage of the volumes. It takes ‘images’."`
	TokenID     string    `yaml:"token" required:"true" doc:"ID of an API token for this alone, ‘user@realm!name’. ‘host:role’ prints how to make it."`
	TokenSecret SecretRef `yaml:"secret" required:"true" doc:"Reference to the token's secret."`
	CAFile      string    `yaml:"ca" absent:"‘proxmox.ca’" doc:"PEM of the authority of the host's certificate, e.g. a copy of ‘/etc/pve/pve-root-ca.pem’. Required if ‘proxmox’ has a ‘fingerprint’."`
	Class       string    `yaml:"class" default:"proxmox" doc:"Name of the storage class."`
}

// Kinds of load balancers.
const (
	LBServiceLB = "servicelb" // K3s' own: node ports on the nodes' addresses
	LBMetalLB   = "metallb"
	LBCilium    = "cilium"
)

// Tunnel leads names from Cloudflare to the cluster's ingress.
type Tunnel struct {
	Cloudflare SecretRef `yaml:"cloudflare" required:"true" doc:"Reference to the tunnel's token, as ‘cloudflared tunnel token’ prints it."`
	Names      []string  `yaml:"names" required:"true" doc:"Names that it leads to the ingress, and no others: ‘hub.example.org’ or ‘*.example.org’."`
}

// LoadBalancer assigns addresses of the nodes' network to Services.
type LoadBalancer struct {
	Kind      string                `yaml:"kind" short:"text" enum:"servicelb,metallb,cilium" absent:"‘metallb’ with ‘addresses’ (‘cilium’ with that CNI), else ‘servicelb’" doc:"‘servicelb’ uses the nodes' own addresses."`
	Addresses []AddressPool         `yaml:"addresses" absent:"required, except for ‘servicelb’" doc:"Ranges ‘a-b’ and prefixes."`
	Reserved  map[string]netip.Addr `yaml:"reserved" doc:"Addresses of single services, ‘namespace/name’ or ‘ingress’: ‘{ingress: 10.0.0.200}’."`
	BGP       *BGP                  `yaml:"bgp" absent:"ARP and NDP in the nodes' network" doc:"Announce the addresses to routers. Only MetalLB does."`
}

// BGP says to which routers every node announces the load balancer's addresses.
type BGP struct {
	ASN   ASN       `yaml:"asn" required:"true" doc:"The nodes' autonomous system, e.g. 64512."`
	Peers []BGPPeer `yaml:"peers" required:"true" doc:"The routers."`
}

// BGPPeer is a router.
type BGPPeer struct {
	Address  netip.Addr `yaml:"address" required:"true" doc:"Its address."`
	ASN      ASN        `yaml:"asn" absent:"the nodes'" doc:"Its autonomous system."`
	Port     int        `yaml:"port" default:"179" min:"1" max:"16384" doc:"Where it listens."`
	Password SecretRef  `yaml:"password" absent:"none" doc:"Reference to the password of the session (TCP MD5)."`
	Multihop bool       `yaml:"multihop" doc:"It is behind another router."`
}

// Kinds of ingress.
const (
	IngressTraefik = "traefik" // K3s' own
	IngressGateway = "gateway" // Gateway API
	IngressNone    = "none"
)

// GatewayCilium is Cilium as the one who serves the Gateway API, in place of K3s' Traefik.
const GatewayCilium = "cilium"

// Ingress says how HTTP enters the cluster.
type Ingress struct {
	Kind  string `yaml:"kind" short:"text" default:"traefik" enum:"traefik,gateway,none" absent:"‘traefik’; ‘none’ if ‘k3s.disable’ has it" doc:"‘traefik’: Ingresses. ‘gateway’: also the Gateway API. ‘none’: the hub is a Service with an address; Rancher and Grafana need an ingress."`
	By    string `yaml:"by" json:",omitempty" enum:"traefik,cilium" absent:"‘traefik’" doc:"Who serves the Gateway API. ‘cilium’: with that CNI and addresses in ‘loadBalancer’; Ingresses stay with Traefik."`
	Class string `yaml:"class" absent:"‘traefik’; ‘cilium’ by Cilium" doc:"Class of Ingresses or Gateways."`
}

// ByCilium reports whether Cilium serves the Gateway API.
func (i Ingress) ByCilium() bool { return i.Kind == IngressGateway && i.By == GatewayCilium }

// Sources of certificates.
const (
	TLSSelfSigned = "self-signed"
	TLSACME       = "acme"
	TLSCA         = "ca"
	TLSSecret     = "secret"
)

// TLS says who signs the platform's certificates.
type TLS struct {
	Source    string    `yaml:"source" short:"text" enum:"self-signed,acme,ca,secret" absent:"follows from the other keys, else ‘self-signed’" doc:"‘self-signed’: an authority created in the cluster. ‘acme’: Let's Encrypt and the like. ‘ca’: your own authority. ‘secret’: an existing certificate."`
	Issuer    string    `yaml:"issuer" absent:"‘homelab’" doc:"Name of the ClusterIssuer."`
	Email     string    `yaml:"email" absent:"required for ‘acme’" doc:"Address for notices about expiring certificates."`
	Server    string    `yaml:"server" absent:"Let's Encrypt" doc:"For ‘acme’: URL of the directory."`
	Challenge string    `yaml:"challenge" enum:"http,dns" absent:"‘dns’ with the section ‘dns’, else ‘http’" doc:"For ‘acme’: how names are proven. ‘http’: port 80 can be reached from the internet. ‘dns’: a record in a zone of ‘dns’; the only way for wildcards and clusters that cannot be reached."`
	CACert    string    `yaml:"ca" absent:"required for ‘ca’; else none" doc:"PEM file of the authority's certificate. For ‘secret’: that of the signer. For ‘acme’: of a private server, that of its own page and that of the certificates that it signs."`
	CAKey     SecretRef `yaml:"key" absent:"required for ‘ca’" doc:"Reference to the authority's private key."`
	Secret    string    `yaml:"secret" absent:"required for ‘secret’" doc:"‘namespace/name’ of a Secret of type ‘kubernetes.io/tls’, which homelab copies where it is needed."`
}

// Rancher is the management UI; it brings its own Fleet.
type Rancher struct {
	Hostname  string    `yaml:"hostname" short:"text" required:"true" doc:"A name that your DNS resolves to the cluster."`
	Version   string    `yaml:"version" absent:"pinned" doc:"Of the chart."`
	Replicas  int       `yaml:"replicas" absent:"the number of servers, at most 3" doc:"Number of its pods."`
	Bootstrap SecretRef `yaml:"bootstrapPassword" absent:"generated, and kept in the cluster" doc:"Reference to the first password of ‘admin’, 12 characters at least."`
}

// Fleet is GitOps, with Fleet, Flux or Argo CD.
type Fleet struct {
	_          struct{}      `short:"switch"`
	Standalone Switch        `yaml:"standalone" absent:"‘true’; for Fleet ‘false’ with ‘rancher’" doc:"Install Fleet, Flux or Argo CD. Rancher installs its own Fleet."`
	Repo       string        `yaml:"repo" short:"text" doc:"URL of the Git repository, https or ssh."`
	Branch     string        `yaml:"branch" default:"main" doc:"Branch that is pushed to and deployed."`
	Path       string        `yaml:"path" absent:"‘fleet/NAME’, ‘flux/NAME’ or ‘argocd/NAME’ with the cluster's name" doc:"Folder that only homelab writes."`
	Username   string        `yaml:"username" doc:"Login of an https repository; with a token, any name."`
	Password   SecretRef     `yaml:"password" doc:"Reference to its password or token."`
	SSHKey     SecretRef     `yaml:"sshKey" doc:"Reference to the private key of an ssh repository."`
	KnownHosts string        `yaml:"knownHosts" absent:"required with ssh" doc:"File with its server's host keys, as ‘ssh-keyscan’ prints them."`
	CAFile     string        `yaml:"ca" absent:"system's" doc:"PEM of the authority of the https repository's certificate."`
	SOPSKey    SecretRef     `yaml:"sopsKey" doc:"‘flux’ only: reference to the age key that decrypts SOPS files in ‘extra’."`
	Polling    time.Duration `yaml:"polling" default:"15s" absent:"‘15s’" doc:"How often it polls the repository."`
	Default    string        `yaml:"default" default:"direct" enum:"direct,fleet,flux,argocd" doc:"How parts that ‘charts.via’ does not name are deployed: ‘direct’, or as the section is called."`
	Extra      []string      `yaml:"extra" doc:"Further folders that it deploys, and homelab never writes."`
	Author     string        `yaml:"author" absent:"‘homelab’" doc:"Author of commits, ‘Name <address>’."`
}

// ArgoCD is GitOps with Argo CD, which alone has pages that people look at.
type ArgoCD struct {
	_        struct{} `short:"switch"`
	Fleet    `yaml:",inline"`
	Hostname string `yaml:"hostname" absent:"none: inside the cluster only" doc:"Hostname of its pages. With ‘login’ people sign in to them."`
}

// Monitoring is Prometheus, Grafana and the GPU exporter.
type Monitoring struct {
	_            struct{}      `short:"switch"`
	Retention    time.Duration `yaml:"retention" default:"15d" absent:"‘15d’" doc:"How long metrics are kept."`
	StorageClass string        `yaml:"class" absent:"default class" doc:"Its storage class."`
	Size         Size          `yaml:"size" default:"50GiB" doc:"Its size."`
	Hostname     string        `yaml:"hostname" absent:"none: inside the cluster only" doc:"Hostname of Grafana."`
	GPUs         Switch        `yaml:"gpus" absent:"‘true’ if a node has GPUs" doc:"DCGM exporter, and a dashboard."`
	Alertmanager Switch        `yaml:"alertmanager" absent:"‘true’ with ‘alerts’" doc:"Also run Alertmanager."`
	Alerts       *Alerts       `yaml:"alerts" absent:"off" doc:"Who is told when something is wrong."`
}

// Logs is VictoriaLogs and its collector on every node. What is older than Retention goes first,
// then the oldest days, so that the volume never fills.
type Logs struct {
	_            struct{}      `short:"switch"`
	Retention    time.Duration `yaml:"retention" default:"30d" absent:"‘30d’" doc:"How long logs are kept, if the volume suffices: the oldest days go first."`
	StorageClass string        `yaml:"class" absent:"default class" doc:"Its storage class."`
	Size         Size          `yaml:"size" default:"20GiB" doc:"Its size."`
}

// Backup is Velero.
type Backup struct {
	Endpoint   string        `yaml:"endpoint" absent:"Amazon's" doc:"URL of the S3 service."`
	Region     string        `yaml:"region" default:"us-east-1" doc:"Its region."`
	Bucket     string        `yaml:"bucket" required:"true" doc:"An existing bucket."`
	Prefix     string        `yaml:"prefix" absent:"the cluster's name" doc:"Folder in the bucket."`
	AccessKey  SecretRef     `yaml:"accessKey" required:"true" doc:"Reference to the access key."`
	SecretKey  SecretRef     `yaml:"secretKey" required:"true" doc:"Reference to the secret key."`
	Schedule   string        `yaml:"schedule" default:"0 3 * * *" doc:"Cron expression."`
	Retention  time.Duration `yaml:"retention" default:"30d" absent:"‘30d’" doc:"How long a backup is kept."`
	Namespaces []string      `yaml:"namespaces" absent:"all" doc:"Namespaces to back up."`
	FileSystem Switch        `yaml:"fileSystem" default:"true" doc:"Also back up the volumes' files: ‘local-path’ and NFS have no snapshots."`
	CAFile     string        `yaml:"ca" absent:"system's" doc:"PEM of the authority of the service's certificate."`
	Insecure   bool          `yaml:"insecure" doc:"Do not check the certificate."`
}

// Postgres is CloudNativePG. Without databases it is there for those that others describe.
type Postgres struct {
	_         struct{}   `short:"switch"`
	Backup    bool       `yaml:"backup" doc:"Back up the databases into the bucket of ‘backup’: at its schedule, and each change in between."`
	Databases []Database `yaml:"databases,named" absent:"none" doc:"Databases by name, each on servers of its own."`
}

// Database is a database, its owner of the same name and the PostgreSQL servers that have it: one that
// writes, and replicas that can take over.
type Database struct {
	Name         string   `yaml:"-"`
	Namespace    string   `yaml:"namespace" default:"databases" doc:"Namespace of its servers and of the Secret ‘NAME-app’ with the login."`
	Instances    int      `yaml:"instances" default:"1" min:"1" max:"9" doc:"Servers, each on another node: with two, one takes over when the other's node fails."`
	Size         Size     `yaml:"size" default:"10GiB" doc:"Size of each server's volume. It can grow later."`
	StorageClass string   `yaml:"class" absent:"default class" doc:"Their storage class."`
	Archive      string   `yaml:"archive" absent:"its name" doc:"Folder of its backups. It must be empty when the database is created."`
	Restore      *Restore `yaml:"restore" absent:"an empty database" doc:"The backup that the database is created from. One that exists is left as it is."`
}

// Restore is the backup that a database is created from.
type Restore struct {
	Archive string `yaml:"archive" short:"text" required:"true" doc:"Folder of the backup, another than the database's own: the name of the database that was backed up, or its ‘archive’."`
	At      string `yaml:"at" absent:"the last change" doc:"Time up to which changes are restored, ‘2026-11-29T12:00:00Z’."`
}

// DefaultQueue is the LocalQueue of pods and Jobs that name none; no queue has that name.
const DefaultQueue = "default"

// Queue is a group's part of the cluster's GPUs: its pods wait until it is their turn.
type Queue struct {
	Name       string         `yaml:"-"`
	GPUs       int            `yaml:"gpus" min:"0" doc:"How many ‘nvidia.com/gpu’ the group can always have."`
	MIG        map[string]int `yaml:"mig" doc:"MIG instances with names of their own: ‘{1g.5gb: 7}’."`
	Namespaces []string       `yaml:"namespaces" required:"true" doc:"Pods and Jobs in these wait in the queue."`
	Borrow     Switch         `yaml:"borrow" default:"true" doc:"The group may also use what other queues leave unused."`
	Reclaim    bool           `yaml:"reclaim" doc:"The group takes its own part back from borrowers: their newest pods end."`
}

// QueueOf is the queue in which pods of a namespace wait, without a name if there is none.
func (p *Platform) QueueOf(namespace string) Queue {
	for _, q := range p.Queues {
		if slices.Contains(q.Namespaces, namespace) {
			return q
		}
	}
	return Queue{}
}

// HasPlatformPods reports whether pods of the platform are in a namespace beside notebooks or models: then only these
// wait in its queue, by their labels.
func (p *Platform) HasPlatformPods(namespace string) bool {
	return namespace == ModelsNamespace || p.Hub != nil && namespace == p.Hub.Namespace
}
