package written

import (
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// The sections of cluster.yaml as they are written: the loader decodes into them, and
// schema.json is generated from them. The tag jsonschema_description is what an editor shows.
// A pointer distinguishes a missing value from a zero.

type File struct {
	Name     string      `yaml:"name" jsonschema:"required" jsonschema_description:"Name of the cluster: tag of its VMs, prefix of its images, ISOs and mappings."`
	Proxmox  Proxmox     `yaml:"proxmox" jsonschema_description:"Where the Proxmox VE API is and how to log in. Not needed if every node is external."`
	Lab      Lab         `yaml:"lab" jsonschema_description:"The VMs of the embedded lab. Only with endpoint: lab."`
	Image    Image       `yaml:"image" jsonschema_description:"What the nodes' template is made from. Default: a pinned Ubuntu 24.04 cloud image."`
	Network  Network     `yaml:"network" jsonschema_description:"The network of every node; pools and nodes can override parts of it."`
	SSH      SSH         `yaml:"ssh" jsonschema_description:"Who may log in to the nodes, and how to reach them."`
	Guest    Guest       `yaml:"guest" jsonschema_description:"Packages, files and kernel settings for every node."`
	K3s      K3s         `yaml:"k3s" jsonschema_description:"Version and settings of Kubernetes."`
	NVIDIA   NVIDIA      `yaml:"nvidia" jsonschema_description:"Driver, and how pods request GPUs."`
	Patience *int        `yaml:"patience" jsonschema:"minimum=1,maximum=100" jsonschema_description:"Multiplies every time limit of a step: 3 for a slow host. Default 1."`
	Defaults Shape       `yaml:"defaults" jsonschema_description:"Settings of every node, unless its pool or its own entry overrides them; null unsets."`
	Pools    named[Pool] `yaml:"pools" jsonschema_description:"Groups of similar nodes, by name."`
	Nodes    named[Node] `yaml:"nodes" jsonschema_description:"Single nodes by name: further ones, or overrides for nodes of a pool."`

	Charts       Charts        `yaml:"charts" jsonschema_description:"Sources of Helm charts, and overrides of their versions and values."`
	Storage      Storage       `yaml:"storage" jsonschema_description:"Storage classes."`
	LoadBalancer *LoadBalancer `yaml:"loadBalancer" jsonschema_description:"What assigns addresses to Services. Default: K3s' servicelb."`
	Ingress      *Ingress      `yaml:"ingress" jsonschema_description:"How HTTP enters the cluster. Default: K3s' Traefik."`
	TLS          *TLS          `yaml:"tls" jsonschema_description:"Who signs certificates. Default: off; self-signed with rancher."`
	Rancher      *Rancher      `yaml:"rancher" jsonschema_description:"Rancher, with its own Fleet."`
	Fleet        *Fleet        `yaml:"fleet" jsonschema_description:"GitOps with Fleet."`
	Monitoring   *Monitoring   `yaml:"monitoring" jsonschema_description:"Prometheus and Grafana, with the GPUs' metrics."`
	Backup       *Backup       `yaml:"backup" jsonschema_description:"Velero, into a bucket."`
	Queues       named[Queue]  `yaml:"queues" jsonschema_description:"Kueue: groups that share the GPUs, by name."`
	Hub          *Hub          `yaml:"hub" jsonschema_description:"JupyterHub."`
}

type Proxmox struct {
	Endpoint    string         `yaml:"endpoint" jsonschema:"required" jsonschema_description:"lab, or the host with or without https://, port and /api2/json."`
	Token       TokenID        `yaml:"token" jsonschema_description:"API token ID, user@realm!name. The secret belongs in secret."`
	Secret      spec.SecretRef `yaml:"secret" jsonschema_description:"Reference to the API token's secret: env:NAME, file:PATH or sops:FILE#path."`
	User        string         `yaml:"user" jsonschema_description:"user@realm for settings that Proxmox refuses to every token: hugepages, affinity."`
	Password    spec.SecretRef `yaml:"password" jsonschema_description:"Reference to that user's password."`
	CA          string         `yaml:"ca" jsonschema_description:"PEM file of the CA that signed the API's certificate."`
	Fingerprint string         `yaml:"fingerprint" jsonschema_description:"SHA-256 fingerprint of the API's certificate."`
	Insecure    bool           `yaml:"insecure" jsonschema_description:"Do not check the certificate. Anyone between you and the host can then read the token."`
	Host        string         `yaml:"host" jsonschema_description:"Proxmox host of nodes that name none; auto: one of hosts with enough room."`
	Hosts       named[Host]    `yaml:"hosts" jsonschema_description:"Proxmox hosts, with their resources."`
}

type Host struct {
	SSH     string               `yaml:"ssh" jsonschema_description:"user@address:port for host:prep, host:check and gpu:list. Default root@<name>:22."`
	Cores   *int                 `yaml:"cores" jsonschema_description:"Its CPUs. If set, sums are checked."`
	Memory  *spec.Size           `yaml:"memory" jsonschema_description:"Its memory. If set, sums are checked."`
	GPUs    *int                 `yaml:"gpus" jsonschema_description:"Its GPUs. If set, sums are checked."`
	Storage map[string]spec.Size `yaml:"storage" jsonschema_description:"Capacity of its storages by name. If set, sums are checked."`
}

type Image struct {
	URL             string `yaml:"url" jsonschema_description:"A cloud image in qcow2 format."`
	SHA256          string `yaml:"sha256" jsonschema_description:"Its SHA-256."`
	SHA512          string `yaml:"sha512" jsonschema_description:"Its SHA-512, instead of sha256."`
	Distribution    string `yaml:"distribution" jsonschema:"enum=ubuntu-24.04,enum=debian-13" jsonschema_description:"Distribution of the image. Default ubuntu-24.04."`
	Template        string `yaml:"template" jsonschema_description:"An existing template by VMID or name, instead of url."`
	Storage         string `yaml:"storage" jsonschema_description:"Storage of the image, with content import. Default local."`
	TemplateStorage string `yaml:"templateStorage" jsonschema_description:"Storage of the template's disk. Default: that of the nodes."`
	SeedStorage     string `yaml:"seedStorage" jsonschema_description:"Storage of the seed ISOs, with content iso. Default local."`
	SecureBoot      bool   `yaml:"secureBoot" jsonschema_description:"Enrol the distribution's and Microsoft's keys, so that only signed kernels and modules load."`
}

type Network struct {
	Bridge  string       `yaml:"bridge" jsonschema_description:"Default vmbr0."`
	VLAN    *int         `yaml:"vlan" jsonschema_description:"VLAN tag, 1 to 4094. Default: untagged."`
	MTU     *int         `yaml:"mtu" jsonschema_description:"Default: the bridge's."`
	Queues  *int         `yaml:"queues" jsonschema_description:"Queues of the network card. Default: the node's cores."`
	DHCP    bool         `yaml:"dhcp" jsonschema_description:"Addresses come from a DHCP server."`
	Prefix  netip.Prefix `yaml:"prefix" jsonschema_description:"The nodes' network, e.g. 10.0.0.0/24."`
	Gateway netip.Addr   `yaml:"gateway" jsonschema_description:"The router's address. One outside of the prefix is reached on-link, as on rented hosts."`
	DNS     []netip.Addr `yaml:"dns" jsonschema_description:"DNS servers. Default: the gateway."`
	Search  []string     `yaml:"search" jsonschema_description:"DNS search domains."`
}

type Lab struct {
	Guests     string `yaml:"guests" jsonschema:"enum=simulated,enum=qemu" jsonschema_description:"qemu: real VMs on this machine, with a real K3s in them. Default simulated."`
	Kubernetes string `yaml:"kubernetes" jsonschema:"enum=simulated,enum=real" jsonschema_description:"real: etcd, API server, controllers and scheduler of Kubernetes, for simulated VMs. Default simulated."`
	Internet   *bool  `yaml:"internet" jsonschema_description:"Real VMs reach what this machine reaches. Default: true, but false with k3s.airgap."`
	Image      string `yaml:"image" jsonschema_description:"Folder with disk.raw, vmlinuz and initrd of a Debian 13 for real VMs. Default: built once."`
}

type SSH struct {
	User         string         `yaml:"user" jsonschema_description:"Admin user on the nodes. Default: the distribution's, ubuntu or debian."`
	PublicKeys   []PublicKey    `yaml:"publicKeys" jsonschema_description:"authorized_keys lines, or paths of .pub files."`
	PrivateKey   KeyPath        `yaml:"privateKey" jsonschema_description:"Path of the private key to log in with. Default: derived from the API token."`
	Agent        bool           `yaml:"agent" jsonschema_description:"Log in with the SSH agent's keys."`
	Jump         string         `yaml:"jump" jsonschema_description:"Jump host, user@host:port."`
	Proxy        string         `yaml:"proxy" jsonschema_description:"SOCKS proxy, socks5://host:port."`
	PasswordHash spec.SecretRef `yaml:"passwordHash" jsonschema_description:"Reference to the hash (mkpasswd) of the admin user's console password."`
}

type Guest struct {
	Packages      []string          `yaml:"packages" jsonschema_description:"Further packages."`
	Sysctls       map[string]string `yaml:"sysctls" jsonschema_description:"Kernel parameters, e.g. vm.max_map_count: 262144."`
	KernelModules []string          `yaml:"kernelModules" jsonschema_description:"Modules to load at boot."`
	Files         []GuestFile       `yaml:"files" jsonschema_description:"Further files."`
	APT           APT               `yaml:"apt" jsonschema_description:"Where packages come from."`
	Timezone      string            `yaml:"timezone" jsonschema_description:"Default Etc/UTC."`
}

type APT struct {
	Mirror     string `yaml:"mirror" jsonschema_description:"URL instead of the distribution's archive."`
	Proxy      string `yaml:"proxy" jsonschema_description:"URL of an HTTP proxy or cache for packages from repositories without TLS."`
	HTTPSProxy string `yaml:"httpsProxy" jsonschema_description:"URL of an HTTP proxy for nodes' downloads over https: NVIDIA's packages and key, K3s. Default: none."`
}

type GuestFile struct {
	Path    string   `yaml:"path" jsonschema:"required" jsonschema_description:"Absolute path on the node."`
	Content *string  `yaml:"content" jsonschema_description:"The file's content. Not for secrets."`
	Source  string   `yaml:"source" jsonschema_description:"A local file with the content, instead of content."`
	Owner   string   `yaml:"owner" jsonschema_description:"user:group. Default root:root."`
	Mode    FileMode `yaml:"mode" jsonschema_description:"Octal, default 0644."`
}

type K3s struct {
	Version           string          `yaml:"version" jsonschema_description:"Exact release, e.g. v1.36.5+k3s1."`
	VIP               netip.Addr      `yaml:"vip" jsonschema_description:"Virtual address of the API. Needed with more than one server."`
	VIPInterface      string          `yaml:"vipInterface" jsonschema_description:"Interface that carries it. Default: the one with the node's address."`
	TLSSANs           []string        `yaml:"tlsSANs" jsonschema_description:"Further names of the API in its certificate."`
	PodCIDR           netip.Prefix    `yaml:"podCIDR" jsonschema_description:"Default 10.42.0.0/16, or fd00:42::/56 for nodes with IPv6."`
	ServiceCIDR       netip.Prefix    `yaml:"serviceCIDR" jsonschema_description:"Default 10.43.0.0/16, or fd00:43::/112 for nodes with IPv6."`
	ClusterDomain     string          `yaml:"clusterDomain" jsonschema_description:"Default cluster.local."`
	Disable           []string        `yaml:"disable" jsonschema:"enum=coredns,enum=servicelb,enum=traefik,enum=local-storage,enum=metrics-server,enum=runtimes" jsonschema_description:"Components of K3s to leave out."`
	FlannelBackend    string          `yaml:"flannelBackend" jsonschema:"enum=vxlan,enum=host-gw,enum=wireguard-native,enum=none" jsonschema_description:"Default vxlan; none for another CNI."`
	CNI               string          `yaml:"cni" jsonschema:"enum=flannel,enum=cilium" jsonschema_description:"The pods' network: K3s' flannel, or Cilium instead. Default flannel."`
	Server            map[string]any  `yaml:"server" jsonschema_description:"Further keys of the servers' config.yaml."`
	Agent             map[string]any  `yaml:"agent" jsonschema_description:"Further keys of every node's config.yaml."`
	SecretsEncryption *bool           `yaml:"secretsEncryption" jsonschema_description:"Encrypt Secrets in etcd. Default true."`
	Snapshots         Snapshots       `yaml:"snapshots" jsonschema_description:"Snapshots of etcd."`
	Registries        named[Registry] `yaml:"registries" jsonschema_description:"Image registries by name: mirrors and logins."`
	Airgap            string          `yaml:"airgap" jsonschema_description:"Folder with k3s, its checksums and image tarball, for nodes without internet."`
	Upgrade           Upgrade         `yaml:"upgrade" jsonschema_description:"What another version does to running work."`
}

type Upgrade struct {
	GPUPods string `yaml:"gpuPods" jsonschema:"enum=keep,enum=evict" jsonschema_description:"Pods that still hold GPUs of a node after wait: keep leaves the node as it is, evict ends them. Default keep."`
	Wait    Period `yaml:"wait" jsonschema_description:"How long pods that hold GPUs have to end. Default 1h."`
}

type Snapshots struct {
	Schedule  string `yaml:"schedule" jsonschema_description:"Cron expression. Default 0 */12 * * *."`
	Retention *int   `yaml:"retention" jsonschema_description:"Number of snapshots to keep. Default 5."`
	S3        *S3    `yaml:"s3" jsonschema_description:"Also copy them to a bucket."`

	Recipients []string `yaml:"recipients" jsonschema_description:"Public keys of age: who can decrypt what cluster:backup writes."`
}

type S3 struct {
	Endpoint  string         `yaml:"endpoint" jsonschema_description:"Host of the S3 service, with http:// in front if it has no TLS. Default s3.amazonaws.com."`
	Region    string         `yaml:"region" jsonschema_description:"Default us-east-1."`
	Bucket    string         `yaml:"bucket" jsonschema:"required" jsonschema_description:"Name of the bucket."`
	Folder    string         `yaml:"folder" jsonschema_description:"Folder in the bucket."`
	AccessKey spec.SecretRef `yaml:"accessKey" jsonschema:"required" jsonschema_description:"Reference to the access key."`
	SecretKey spec.SecretRef `yaml:"secretKey" jsonschema:"required" jsonschema_description:"Reference to the secret key."`
}

type Registry struct {
	Endpoints []string          `yaml:"endpoints" jsonschema_description:"URLs to use instead of the registry."`
	Rewrite   map[string]string `yaml:"rewrite" jsonschema_description:"Patterns of image names, and their replacements."`
	Username  string            `yaml:"username" jsonschema_description:"Login."`
	Password  spec.SecretRef    `yaml:"password" jsonschema_description:"Reference to its password."`
	CA        string            `yaml:"ca" jsonschema_description:"PEM file of the CA that signed the registry's certificate."`
	Insecure  bool              `yaml:"insecure" jsonschema_description:"Do not check the registry's certificate."`
}

type NVIDIA struct {
	Stack   string         `yaml:"stack" jsonschema:"enum=device-plugin,enum=operator,enum=none" jsonschema_description:"Default device-plugin."`
	Driver  Driver         `yaml:"driver" jsonschema_description:"The kernel driver."`
	Sharing Sharing        `yaml:"sharing" jsonschema_description:"How one GPU serves several pods."`
	Values  map[string]any `yaml:"values" jsonschema_description:"Raw overrides for the stack's values."`
	Verify  Verify         `yaml:"verify" jsonschema_description:"What gpu:verify runs."`
}

type Verify struct {
	Images VerifyImages `yaml:"images" jsonschema_description:"Images to compute in, by digest or tag."`
}

type VerifyImages struct {
	CUDA       string `yaml:"cuda" jsonschema_description:"With NVIDIA's vectorAdd sample, for every level. Default: NVIDIA's own."`
	PyTorch    string `yaml:"pytorch" jsonschema_description:"With python3 and PyTorch. Default: PyTorch's own with -level=burn, otherwise none."`
	TensorFlow string `yaml:"tensorflow" jsonschema_description:"With python3 and TensorFlow. Default none."`
}

type Driver struct {
	Mode    string `yaml:"mode" jsonschema:"enum=prebuilt,enum=dkms,enum=operator,enum=none" jsonschema_description:"Default prebuilt: Ubuntu's signed modules. dkms builds them on the machines, as Debian 13 requires."`
	Branch  string `yaml:"branch" jsonschema_description:"auto, lts, production, or pinned, e.g. 580-server."`
	Flavour string `yaml:"flavour" jsonschema:"enum=auto,enum=open,enum=proprietary" jsonschema_description:"Kind of the kernel modules. Default auto."`
	Upgrade string `yaml:"upgrade" jsonschema:"enum=in-place,enum=replace" jsonschema_description:"How running nodes get another driver: in-place (default), or replace: each machine is recreated from a new template."`
}

type Sharing struct {
	Strategy string      `yaml:"strategy" jsonschema:"enum=none,enum=time-slicing,enum=mps,enum=mig" jsonschema_description:"Default none."`
	Replicas *int        `yaml:"replicas" jsonschema_description:"Number of pods per GPU, for time-slicing and mps."`
	Layouts  []MIGLayout `yaml:"layouts" jsonschema_description:"How GPUs are partitioned, for mig."`
}

type MIGLayout struct {
	GPUs     []int          `yaml:"gpus" jsonschema_description:"Indices of GPUs. Default: all."`
	Profiles map[string]int `yaml:"profiles" jsonschema_description:"MIG profiles and the number of each, e.g. 3g.20gb: 2."`
}
