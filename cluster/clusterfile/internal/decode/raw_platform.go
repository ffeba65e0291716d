package decode

import (
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// What runs on Kubernetes. Each part is a pointer: nil is a part that is off.

type Storage struct {
	Default  string         `yaml:"default" doc:"The default storage class. Default: the only one of nfs, longhorn and cephfs, else K3s' local-path."`
	Existing []string       `yaml:"existing" doc:"Existing storage classes that homelab does not create, and that parts may name."`
	NFS      *NFS           `yaml:"nfs" doc:"An NFS server: server:/export, or the keys below."`
	Scratch  *spec.Scratch  `yaml:"scratch" doc:"Volumes on each node's own scratch disk, lost with the node."`
	Longhorn *spec.Longhorn `yaml:"longhorn" doc:"Volumes that are replicated between the nodes' disks."`
	CephFS   *spec.CephFS   `yaml:"cephfs" doc:"A file system of an existing Ceph cluster."`
}

// NFS may also be written as server:/export.
type NFS struct {
	Server       string       `yaml:"server" short:"text" doc:"Address or name of the server, with or without :/export."`
	Export       string       `yaml:"export" doc:"Absolute path on the server, with a folder for each volume."`
	Class        string       `yaml:"class" doc:"Name of the storage class. Default nfs."`
	MountOptions []string     `yaml:"mountOptions" doc:"Mount options. Default nfsvers=4 (the newest that the server has), hard and noatime."`
	Retain       *bool        `yaml:"retain" doc:"Keep the data when a claim is deleted. Default true."`
	Shares       named[Share] `yaml:"shares" doc:"Folders of the server by name, for notebooks."`
	VM           *NFSVM       `yaml:"vm" doc:"Create the server: a VM with a data disk."`
}

// Share may also be written as its path alone.
type Share struct {
	Export       string   `yaml:"export" short:"text" required:"true" doc:"Absolute path on the server."`
	ReadOnly     bool     `yaml:"readOnly" doc:"Mount it read-only."`
	MountOptions []string `yaml:"mountOptions" doc:"Default: those of nfs."`
}

type NFSVM struct {
	Name    string         `yaml:"name" doc:"Name of the VM. Default: the cluster's name with -nfs appended."`
	Host    string         `yaml:"host" doc:"Proxmox host. Default proxmox.host."`
	Address netip.Addr     `yaml:"address" required:"true" doc:"Its address in the nodes' network."`
	Cores   *int           `yaml:"cores" doc:"vCPUs. Default 2."`
	Memory  *spec.Size     `yaml:"memory" doc:"Default 4GiB."`
	Size    *spec.Size     `yaml:"size" required:"true" doc:"Size of the data disk, e.g. 2TiB."`
	Storage string         `yaml:"storage" doc:"Storage of its disks. Default: that of the nodes."`
	Allow   []netip.Prefix `yaml:"allow" doc:"Networks that may mount. Default: the nodes'."`
}

// Rancher may also be written as its hostname alone.
type Rancher struct {
	Hostname  string         `yaml:"hostname" short:"text" required:"true" doc:"Its hostname, e.g. rancher.lab.example."`
	Version   string         `yaml:"version" doc:"Version of the chart. Default: the pinned one."`
	Replicas  *int           `yaml:"replicas" doc:"Default: the number of servers, at most 3."`
	Bootstrap spec.SecretRef `yaml:"bootstrapPassword" doc:"Reference to the first password of admin, 12 characters at least. Default: generated and kept in the cluster."`
}

// Fleet may also be written as its repository alone.
type Fleet struct {
	_          struct{}       `short:"switch"`
	Standalone *bool          `yaml:"standalone" doc:"Install Fleet. Default: true without rancher, which brings its own."`
	Repo       string         `yaml:"repo" short:"text" doc:"URL of the Git repository, https or ssh."`
	Branch     string         `yaml:"branch" doc:"Default main."`
	Path       string         `yaml:"path" doc:"Folder in it that is written. Default fleet/NAME with the cluster's name."`
	Username   string         `yaml:"username" doc:"Login of an https repository."`
	Password   spec.SecretRef `yaml:"password" doc:"Reference to its password or token."`
	SSHKey     spec.SecretRef `yaml:"sshKey" doc:"Reference to the private key of an ssh repository."`
	KnownHosts string         `yaml:"knownHosts" doc:"File with the host keys of an ssh repository, as ssh-keyscan prints them."`
	CA         string         `yaml:"ca" doc:"PEM file of the authority that signed the https repository's certificate."`
	Polling    Period         `yaml:"polling" doc:"How often Fleet polls the repository. Default 15s."`
	Default    string         `yaml:"default" enum:"direct,fleet" doc:"How parts that charts.via does not name are deployed. Default direct."`
	Extra      []string       `yaml:"extra" doc:"Further folders of the repository that Fleet deploys and homelab never writes."`
	Author     string         `yaml:"author" doc:"Author of commits, Name <address>. Default: homelab."`
}

// Monitoring may also be written as true.
type Monitoring struct {
	_            struct{}   `short:"switch"`
	Retention    Period     `yaml:"retention" doc:"How long metrics are kept. Default 15d."`
	Class        string     `yaml:"class" doc:"Storage class of the metrics. Default: the default one."`
	Size         *spec.Size `yaml:"size" doc:"Size of their volume. Default 50GiB."`
	Hostname     string     `yaml:"hostname" doc:"Hostname of Grafana. Default: none, inside the cluster only."`
	GPUs         *bool      `yaml:"gpus" doc:"Metrics and a dashboard of GPUs. Default: true if a node has GPUs."`
	Alertmanager bool       `yaml:"alertmanager" doc:"Also run Alertmanager."`
}

type Backup struct {
	Endpoint   string         `yaml:"endpoint" doc:"URL of the S3 service. Default: Amazon's."`
	Region     string         `yaml:"region" doc:"Default us-east-1."`
	Bucket     string         `yaml:"bucket" required:"true" doc:"Name of the bucket."`
	Prefix     string         `yaml:"prefix" doc:"Folder in the bucket. Default: the cluster's name."`
	AccessKey  spec.SecretRef `yaml:"accessKey" required:"true" doc:"Reference to the access key."`
	SecretKey  spec.SecretRef `yaml:"secretKey" required:"true" doc:"Reference to the secret key."`
	Schedule   string         `yaml:"schedule" doc:"Cron expression. Default 0 3 * * *."`
	Retention  Period         `yaml:"retention" doc:"How long a backup is kept. Default 30d."`
	Namespaces []string       `yaml:"namespaces" doc:"Namespaces to back up. Default: all."`
	FileSystem *bool          `yaml:"fileSystem" doc:"Also back up the volumes' files. Default true."`
	CA         string         `yaml:"ca" doc:"PEM file of the authority that signed the service's certificate."`
	Insecure   bool           `yaml:"insecure" doc:"Do not check the service's certificate."`
}

// Queue is a group's part of the GPUs.
type Queue struct {
	GPUs       *int           `yaml:"gpus" min:"0" doc:"How many nvidia.com/gpu it can always have. Default 0: only what others leave."`
	MIG        map[string]int `yaml:"mig" doc:"How many MIG instances with a name of their own, by profile, e.g. 1g.5gb: 8."`
	Namespaces []string       `yaml:"namespaces" required:"true" doc:"Pods and Jobs in these wait in the queue; in the hub's, only notebooks with GPUs."`
	Borrow     *bool          `yaml:"borrow" doc:"It may also use what other queues leave unused. Default true."`
	Reclaim    bool           `yaml:"reclaim" doc:"It takes its own part back from borrowers, by ending their pods. Default: it waits for them."`
}
