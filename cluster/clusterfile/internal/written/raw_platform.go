package written

import (
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// What runs on Kubernetes. Each part is a pointer: nil is a part that is off.

type Charts struct {
	Folder   string                    `yaml:"folder" jsonschema_description:"Local folder of charts, unpacked or as .tgz, used before any repository."`
	Offline  bool                      `yaml:"offline" jsonschema_description:"Use only the folder, no repository."`
	Versions map[string]string         `yaml:"versions" jsonschema_description:"Versions of charts by part, instead of the pinned ones."`
	Digests  map[string]string         `yaml:"digests" jsonschema_description:"SHA-256 of charts' archives by part, sha256:…; a download with another one is refused."`
	Values   map[string]map[string]any `yaml:"values" jsonschema_description:"Further values by part, merged over homelab's values. No secrets."`
	Via      map[string]string         `yaml:"via" jsonschema_description:"How single parts are deployed: direct or fleet."`
}

type Storage struct {
	Default  string    `yaml:"default" jsonschema_description:"The default storage class. Default: the only one of nfs, longhorn and cephfs, else K3s' local-path."`
	Existing []string  `yaml:"existing" jsonschema_description:"Existing storage classes that homelab does not create, and that parts may name."`
	NFS      *NFS      `yaml:"nfs" jsonschema_description:"An NFS server: server:/export, or the keys below."`
	Scratch  *Scratch  `yaml:"scratch" jsonschema_description:"Volumes on each node's own scratch disk, lost with the node."`
	Longhorn *Longhorn `yaml:"longhorn" jsonschema_description:"Volumes that are replicated between the nodes' disks."`
	CephFS   *CephFS   `yaml:"cephfs" jsonschema_description:"A file system of an existing Ceph cluster."`
}

// NFS may also be written as server:/export.
type NFS struct {
	Server       string       `yaml:"server" jsonschema_description:"Address or name of the server, with or without :/export."`
	Export       string       `yaml:"export" jsonschema_description:"Absolute path on the server, with a folder for each volume."`
	Class        string       `yaml:"class" jsonschema_description:"Name of the storage class. Default nfs."`
	MountOptions []string     `yaml:"mountOptions" jsonschema_description:"Mount options. Default nfsvers=4 (the newest that the server has), hard and noatime."`
	Retain       *bool        `yaml:"retain" jsonschema_description:"Keep the data when a claim is deleted. Default true."`
	Shares       named[Share] `yaml:"shares" jsonschema_description:"Folders of the server by name, for notebooks."`
	VM           *NFSVM       `yaml:"vm" jsonschema_description:"Create the server: a VM with a data disk."`
}

// Share may also be written as its path alone.
type Share struct {
	Export       string   `yaml:"export" jsonschema:"required" jsonschema_description:"Absolute path on the server."`
	ReadOnly     bool     `yaml:"readOnly" jsonschema_description:"Mount it read-only."`
	MountOptions []string `yaml:"mountOptions" jsonschema_description:"Default: those of nfs."`
}

type NFSVM struct {
	Name    string         `yaml:"name" jsonschema_description:"Name of the VM. Default: the cluster's name with -nfs appended."`
	Host    string         `yaml:"host" jsonschema_description:"Proxmox host. Default proxmox.host."`
	Address netip.Addr     `yaml:"address" jsonschema:"required" jsonschema_description:"Its address in the nodes' network."`
	Cores   *int           `yaml:"cores" jsonschema_description:"vCPUs. Default 2."`
	Memory  *spec.Size     `yaml:"memory" jsonschema_description:"Default 4GiB."`
	Size    *spec.Size     `yaml:"size" jsonschema:"required" jsonschema_description:"Size of the data disk, e.g. 2TiB."`
	Storage string         `yaml:"storage" jsonschema_description:"Storage of its disks. Default: that of the nodes."`
	Allow   []netip.Prefix `yaml:"allow" jsonschema_description:"Networks that may mount. Default: the nodes'."`
}

// Scratch may also be written as its path, or as true.
type Scratch struct {
	Class string `yaml:"class" jsonschema_description:"Name of the storage class. Default scratch."`
	Path  string `yaml:"path" jsonschema_description:"Folder for volumes on the nodes. Default: where their scratch disks are mounted."`
}

type Longhorn struct {
	Class       string `yaml:"class" jsonschema_description:"Name of the storage class. Default longhorn."`
	Replicas    *int   `yaml:"replicas" jsonschema_description:"Replicas of each volume. Default 3, or the number of nodes if that is lower."`
	Path        string `yaml:"path" jsonschema_description:"Folder for data on the nodes. Default /var/lib/longhorn."`
	DrainPolicy string `yaml:"drainPolicy" jsonschema:"enum=block-if-contains-last-replica,enum=allow-if-replica-is-stopped,enum=always-allow,enum=block-for-eviction,enum=block-for-eviction-if-contains-last-replica" jsonschema_description:"What draining a node waits for. Default block-if-contains-last-replica."`
}

type CephFS struct {
	ClusterID string         `yaml:"clusterID" jsonschema:"required" jsonschema_description:"The cluster's fsid, as ceph fsid prints it."`
	Monitors  []string       `yaml:"monitors" jsonschema:"required" jsonschema_description:"Monitors, address:port."`
	FSName    string         `yaml:"fsName" jsonschema:"required" jsonschema_description:"Name of the file system, as ceph fs ls prints it."`
	Pool      string         `yaml:"pool" jsonschema_description:"Data pool. Default: the file system's own choice."`
	User      string         `yaml:"user" jsonschema:"required" jsonschema_description:"Ceph user, without client. before it."`
	Key       spec.SecretRef `yaml:"key" jsonschema:"required" jsonschema_description:"Reference to its key, as ceph auth get-key prints it."`
	Class     string         `yaml:"class" jsonschema_description:"Name of the storage class. Default cephfs."`
}

// LoadBalancer may also be written as its kind alone.
type LoadBalancer struct {
	Kind      string                `yaml:"kind" jsonschema:"enum=servicelb,enum=metallb,enum=cilium" jsonschema_description:"Default: metallb with addresses (cilium with that CNI), else K3s' servicelb."`
	Addresses []AddressPool         `yaml:"addresses" jsonschema_description:"Free addresses of the nodes' network: ranges as in 10.0.0.200-10.0.0.219, or prefixes."`
	Reserved  map[string]netip.Addr `yaml:"reserved" jsonschema_description:"Addresses of single services: namespace/name, or ingress."`
}

// Ingress may also be written as its kind alone.
type Ingress struct {
	Kind  string `yaml:"kind" jsonschema:"enum=traefik,enum=gateway,enum=none" jsonschema_description:"traefik: Ingresses. gateway: the Gateway API. Both are served by K3s' Traefik. none: no ingress. Default traefik."`
	Class string `yaml:"class" jsonschema_description:"Class of Ingresses or Gateways. Default traefik."`
}

// TLS may also be written as its source alone.
type TLS struct {
	Source string         `yaml:"source" jsonschema:"enum=self-signed,enum=acme,enum=ca,enum=secret" jsonschema_description:"Who signs certificates. Default: follows from the other keys, else self-signed."`
	Issuer string         `yaml:"issuer" jsonschema_description:"Name of the ClusterIssuer. Default homelab."`
	Email  string         `yaml:"email" jsonschema_description:"For acme: the account's address, which gets warnings about expiring certificates."`
	Server string         `yaml:"server" jsonschema_description:"For acme: URL of the directory. Default: Let's Encrypt."`
	CA     string         `yaml:"ca" jsonschema_description:"For ca: PEM file of the authority's certificate. For secret: that of the certificate's signer, if it is private."`
	Key    spec.SecretRef `yaml:"key" jsonschema_description:"For ca: reference to the authority's private key."`
	Secret string         `yaml:"secret" jsonschema_description:"For secret: namespace/name of an existing Secret of type kubernetes.io/tls."`
}

// TLSSource is the source of a section that names none.
func TLSSource(t *TLS) string {
	switch {
	case t.Secret != "":
		return spec.TLSSecret
	case t.Email+t.Server != "":
		return spec.TLSACME
	case t.CA != "" || !t.Key.IsZero():
		return spec.TLSCA
	default:
		return spec.TLSSelfSigned
	}
}

// Rancher may also be written as its hostname alone.
type Rancher struct {
	Hostname  string         `yaml:"hostname" jsonschema:"required" jsonschema_description:"Its hostname, e.g. rancher.lab.example."`
	Version   string         `yaml:"version" jsonschema_description:"Version of the chart. Default: the pinned one."`
	Replicas  *int           `yaml:"replicas" jsonschema_description:"Default: the number of servers, at most 3."`
	Bootstrap spec.SecretRef `yaml:"bootstrapPassword" jsonschema_description:"Reference to the first password of admin, 12 characters at least. Default: generated and kept in the cluster."`
}

// Fleet may also be written as its repository alone.
type Fleet struct {
	Standalone *bool          `yaml:"standalone" jsonschema_description:"Install Fleet. Default: true without rancher, which brings its own."`
	Repo       string         `yaml:"repo" jsonschema_description:"URL of the Git repository, https or ssh."`
	Branch     string         `yaml:"branch" jsonschema_description:"Default main."`
	Path       string         `yaml:"path" jsonschema_description:"Folder in it that is written. Default fleet/NAME with the cluster's name."`
	Username   string         `yaml:"username" jsonschema_description:"Login of an https repository."`
	Password   spec.SecretRef `yaml:"password" jsonschema_description:"Reference to its password or token."`
	SSHKey     spec.SecretRef `yaml:"sshKey" jsonschema_description:"Reference to the private key of an ssh repository."`
	KnownHosts string         `yaml:"knownHosts" jsonschema_description:"File with the host keys of an ssh repository, as ssh-keyscan prints them."`
	CA         string         `yaml:"ca" jsonschema_description:"PEM file of the authority that signed the https repository's certificate."`
	Polling    Period         `yaml:"polling" jsonschema_description:"How often Fleet polls the repository. Default 15s."`
	Default    string         `yaml:"default" jsonschema:"enum=direct,enum=fleet" jsonschema_description:"How parts that charts.via does not name are deployed. Default direct."`
	Extra      []string       `yaml:"extra" jsonschema_description:"Further folders of the repository that Fleet deploys and homelab never writes."`
	Author     string         `yaml:"author" jsonschema_description:"Author of commits, Name <address>. Default: homelab."`
}

// Monitoring may also be written as true.
type Monitoring struct {
	Retention    Period     `yaml:"retention" jsonschema_description:"How long metrics are kept. Default 15d."`
	Class        string     `yaml:"class" jsonschema_description:"Storage class of the metrics. Default: the default one."`
	Size         *spec.Size `yaml:"size" jsonschema_description:"Size of their volume. Default 50GiB."`
	Hostname     string     `yaml:"hostname" jsonschema_description:"Hostname of Grafana. Default: none, inside the cluster only."`
	GPUs         *bool      `yaml:"gpus" jsonschema_description:"Metrics and a dashboard of GPUs. Default: true if a node has GPUs."`
	Alertmanager bool       `yaml:"alertmanager" jsonschema_description:"Also run Alertmanager."`
}

type Backup struct {
	Endpoint   string         `yaml:"endpoint" jsonschema_description:"URL of the S3 service. Default: Amazon's."`
	Region     string         `yaml:"region" jsonschema_description:"Default us-east-1."`
	Bucket     string         `yaml:"bucket" jsonschema:"required" jsonschema_description:"Name of the bucket."`
	Prefix     string         `yaml:"prefix" jsonschema_description:"Folder in the bucket. Default: the cluster's name."`
	AccessKey  spec.SecretRef `yaml:"accessKey" jsonschema:"required" jsonschema_description:"Reference to the access key."`
	SecretKey  spec.SecretRef `yaml:"secretKey" jsonschema:"required" jsonschema_description:"Reference to the secret key."`
	Schedule   string         `yaml:"schedule" jsonschema_description:"Cron expression. Default 0 3 * * *."`
	Retention  Period         `yaml:"retention" jsonschema_description:"How long a backup is kept. Default 30d."`
	Namespaces []string       `yaml:"namespaces" jsonschema_description:"Namespaces to back up. Default: all."`
	FileSystem *bool          `yaml:"fileSystem" jsonschema_description:"Also back up the volumes' files. Default true."`
	CA         string         `yaml:"ca" jsonschema_description:"PEM file of the authority that signed the service's certificate."`
	Insecure   bool           `yaml:"insecure" jsonschema_description:"Do not check the service's certificate."`
}

// Queue is a group's part of the GPUs.
type Queue struct {
	GPUs       *int           `yaml:"gpus" jsonschema:"minimum=0" jsonschema_description:"How many nvidia.com/gpu it can always have. Default 0: only what others leave."`
	MIG        map[string]int `yaml:"mig" jsonschema_description:"How many MIG instances with a name of their own, by profile, e.g. 1g.5gb: 8."`
	Namespaces []string       `yaml:"namespaces" jsonschema:"required" jsonschema_description:"Pods and Jobs in these wait in the queue; in the hub's, only notebooks with GPUs."`
	Borrow     *bool          `yaml:"borrow" jsonschema_description:"It may also use what other queues leave unused. Default true."`
	Reclaim    bool           `yaml:"reclaim" jsonschema_description:"It takes its own part back from borrowers, by ending their pods. Default: it waits for them."`
}
