package decode

import (
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// The sections of cluster.yaml as they are written: the loader decodes into them, and
// schema.json is generated from them. See section.go for the tags.
// A pointer distinguishes a missing value from a zero.

type File struct {
	Name     string      `yaml:"name" required:"true" doc:"Name of the cluster: tag of its VMs, prefix of its images, ISOs and mappings."`
	Proxmox  Proxmox     `yaml:"proxmox" doc:"Where the Proxmox VE API is and how to log in. Not needed if every node is external."`
	Lab      Lab         `yaml:"lab" doc:"The VMs of the embedded lab. Only with endpoint: lab."`
	Image    Image       `yaml:"image" doc:"What the nodes' template is made from. Default: a pinned Ubuntu 24.04 cloud image."`
	Network  Network     `yaml:"network" doc:"The network of every node; pools and nodes can override parts of it."`
	SSH      SSH         `yaml:"ssh" doc:"Who may log in to the nodes, and how to reach them."`
	Guest    Guest       `yaml:"guest" doc:"Packages, files and kernel settings for every node."`
	K3s      K3s         `yaml:"k3s" doc:"Version and settings of Kubernetes."`
	NVIDIA   NVIDIA      `yaml:"nvidia" doc:"Driver, and how pods request GPUs."`
	Patience *int        `yaml:"patience" min:"1" max:"100" doc:"Multiplies every time limit of a step: 3 for a slow host. Default 1."`
	Defaults Shape       `yaml:"defaults" doc:"Settings of every node, unless its pool or its own entry overrides them; null unsets."`
	Pools    named[Pool] `yaml:"pools" doc:"Groups of similar nodes, by name."`
	Nodes    named[Node] `yaml:"nodes" doc:"Single nodes by name: further ones, or overrides for nodes of a pool."`

	Charts       spec.Charts        `yaml:"charts" doc:"Sources of Helm charts, and overrides of their versions and values."`
	Storage      Storage            `yaml:"storage" doc:"Storage classes."`
	LoadBalancer *spec.LoadBalancer `yaml:"loadBalancer" doc:"What assigns addresses to Services. Default: K3s' servicelb."`
	Ingress      spec.Ingress       `yaml:"ingress" doc:"How HTTP enters the cluster. Default: K3s' Traefik."`
	TLS          *spec.TLS          `yaml:"tls" doc:"Who signs certificates. Default: off; self-signed with rancher."`
	Rancher      *Rancher           `yaml:"rancher" doc:"Rancher, with its own Fleet."`
	Fleet        *Fleet             `yaml:"fleet" doc:"GitOps with Fleet."`
	Monitoring   *Monitoring        `yaml:"monitoring" doc:"Prometheus and Grafana, with the GPUs' metrics."`
	Backup       *Backup            `yaml:"backup" doc:"Velero, into a bucket."`
	Queues       named[Queue]       `yaml:"queues" doc:"Kueue: groups that share the GPUs, by name."`
	Hub          *Hub               `yaml:"hub" doc:"JupyterHub."`
}

type Proxmox struct {
	Endpoint    string         `yaml:"endpoint" required:"true" doc:"lab, or the host with or without https://, port and /api2/json."`
	Token       TokenID        `yaml:"token" doc:"API token ID, user@realm!name. The secret belongs in secret."`
	Secret      spec.SecretRef `yaml:"secret" doc:"Reference to the API token's secret: env:NAME, file:PATH or sops:FILE#path."`
	User        string         `yaml:"user" doc:"user@realm for settings that Proxmox refuses to every token: hugepages, affinity."`
	Password    spec.SecretRef `yaml:"password" doc:"Reference to that user's password."`
	CA          string         `yaml:"ca" doc:"PEM file of the CA that signed the API's certificate."`
	Fingerprint string         `yaml:"fingerprint" doc:"SHA-256 fingerprint of the API's certificate."`
	Insecure    bool           `yaml:"insecure" doc:"Do not check the certificate. Anyone between you and the host can then read the token."`
	Host        string         `yaml:"host" doc:"Proxmox host of nodes that name none; auto: one of hosts with enough room."`
	Hosts       named[Host]    `yaml:"hosts" doc:"Proxmox hosts, with their resources."`
}

type Host struct {
	SSH     string               `yaml:"ssh" doc:"user@address:port for host:prep, host:check and gpu:list. Default root@<name>:22."`
	Cores   *int                 `yaml:"cores" doc:"Its CPUs. If set, sums are checked."`
	Memory  *spec.Size           `yaml:"memory" doc:"Its memory. If set, sums are checked."`
	GPUs    *int                 `yaml:"gpus" doc:"Its GPUs. If set, sums are checked."`
	Storage map[string]spec.Size `yaml:"storage" doc:"Capacity of its storages by name. If set, sums are checked."`
}

type Image struct {
	URL             string `yaml:"url" doc:"A cloud image in qcow2 format."`
	SHA256          string `yaml:"sha256" doc:"Its SHA-256."`
	SHA512          string `yaml:"sha512" doc:"Its SHA-512, instead of sha256."`
	Distribution    string `yaml:"distribution" short:"text" enum:"ubuntu-24.04,debian-13" doc:"Distribution of the image. Default ubuntu-24.04."`
	Template        string `yaml:"template" doc:"An existing template by VMID or name, instead of url."`
	Storage         string `yaml:"storage" doc:"Storage of the image, with content import. Default local."`
	TemplateStorage string `yaml:"templateStorage" doc:"Storage of the template's disk. Default: that of the nodes."`
	SeedStorage     string `yaml:"seedStorage" doc:"Storage of the seed ISOs, with content iso. Default local."`
	SecureBoot      bool   `yaml:"secureBoot" doc:"Enrol the distribution's and Microsoft's keys, so that only signed kernels and modules load."`
}

type Network struct {
	Bridge  string       `yaml:"bridge" doc:"Default vmbr0."`
	VLAN    *int         `yaml:"vlan" doc:"VLAN tag, 1 to 4094. Default: untagged."`
	MTU     *int         `yaml:"mtu" doc:"Default: the bridge's."`
	Queues  *int         `yaml:"queues" doc:"Queues of the network card. Default: the node's cores."`
	DHCP    bool         `yaml:"dhcp" doc:"Addresses come from a DHCP server."`
	Prefix  netip.Prefix `yaml:"prefix" doc:"The nodes' network, e.g. 10.0.0.0/24."`
	Gateway netip.Addr   `yaml:"gateway" doc:"The router's address. One outside of the prefix is reached on-link, as on rented hosts."`
	DNS     []netip.Addr `yaml:"dns" doc:"DNS servers. Default: the gateway."`
	Search  []string     `yaml:"search" doc:"DNS search domains."`
}

type Lab struct {
	Guests     string `yaml:"guests" enum:"simulated,qemu" doc:"qemu: real VMs on this machine, with a real K3s in them. Default simulated."`
	Kubernetes string `yaml:"kubernetes" enum:"simulated,real" doc:"real: etcd, API server, controllers and scheduler of Kubernetes, for simulated VMs. Default simulated."`
	Internet   *bool  `yaml:"internet" doc:"Real VMs reach what this machine reaches. Default: true, but false with k3s.airgap."`
	Image      string `yaml:"image" doc:"Folder with disk.raw, vmlinuz and initrd of a Debian 13 for real VMs. Default: built once."`
}

type SSH struct {
	User         string         `yaml:"user" doc:"Admin user on the nodes. Default: the distribution's, ubuntu or debian."`
	PublicKeys   []PublicKey    `yaml:"publicKeys" doc:"authorized_keys lines, or paths of .pub files."`
	PrivateKey   KeyPath        `yaml:"privateKey" doc:"Path of the private key to log in with. Default: derived from the API token."`
	Agent        bool           `yaml:"agent" doc:"Log in with the SSH agent's keys."`
	Jump         string         `yaml:"jump" doc:"Jump host, user@host:port."`
	Proxy        string         `yaml:"proxy" doc:"SOCKS proxy, socks5://host:port."`
	PasswordHash spec.SecretRef `yaml:"passwordHash" doc:"Reference to the hash (mkpasswd) of the admin user's console password."`
}

type Guest struct {
	Packages      []string          `yaml:"packages" doc:"Further packages."`
	Sysctls       map[string]string `yaml:"sysctls" doc:"Kernel parameters, e.g. vm.max_map_count: 262144."`
	KernelModules []string          `yaml:"kernelModules" doc:"Modules to load at boot."`
	Files         []GuestFile       `yaml:"files" doc:"Further files."`
	APT           APT               `yaml:"apt" doc:"Where packages come from."`
	Timezone      string            `yaml:"timezone" doc:"Default Etc/UTC."`
}

type APT struct {
	Mirror     string `yaml:"mirror" doc:"URL instead of the distribution's archive."`
	Proxy      string `yaml:"proxy" doc:"URL of an HTTP proxy or cache for packages from repositories without TLS."`
	HTTPSProxy string `yaml:"httpsProxy" doc:"URL of an HTTP proxy for nodes' downloads over https: NVIDIA's packages and key, K3s. Default: none."`
}

type GuestFile struct {
	Path    string   `yaml:"path" required:"true" doc:"Absolute path on the node."`
	Content *string  `yaml:"content" doc:"The file's content. Not for secrets."`
	Source  string   `yaml:"source" doc:"A local file with the content, instead of content."`
	Owner   string   `yaml:"owner" doc:"user:group. Default root:root."`
	Mode    FileMode `yaml:"mode" doc:"Octal, default 0644."`
}

type K3s struct {
	Version           string          `yaml:"version" doc:"Exact release, e.g. v1.36.5+k3s1."`
	VIP               netip.Addr      `yaml:"vip" doc:"Virtual address of the API. Needed with more than one server."`
	VIPInterface      string          `yaml:"vipInterface" doc:"Interface that carries it. Default: the one with the node's address."`
	TLSSANs           []string        `yaml:"tlsSANs" doc:"Further names of the API in its certificate."`
	PodCIDR           netip.Prefix    `yaml:"podCIDR" doc:"Default 10.42.0.0/16, or fd00:42::/56 for nodes with IPv6."`
	ServiceCIDR       netip.Prefix    `yaml:"serviceCIDR" doc:"Default 10.43.0.0/16, or fd00:43::/112 for nodes with IPv6."`
	ClusterDomain     string          `yaml:"clusterDomain" doc:"Default cluster.local."`
	Disable           []string        `yaml:"disable" enum:"coredns,servicelb,traefik,local-storage,metrics-server,runtimes" doc:"Components of K3s to leave out."`
	FlannelBackend    string          `yaml:"flannelBackend" enum:"vxlan,host-gw,wireguard-native,none" doc:"Default vxlan; none for another CNI."`
	CNI               string          `yaml:"cni" enum:"flannel,cilium" doc:"The pods' network: K3s' flannel, or Cilium instead. Default flannel."`
	Server            map[string]any  `yaml:"server" doc:"Further keys of the servers' config.yaml."`
	Agent             map[string]any  `yaml:"agent" doc:"Further keys of every node's config.yaml."`
	SecretsEncryption *bool           `yaml:"secretsEncryption" doc:"Encrypt Secrets in etcd. Default true."`
	Snapshots         Snapshots       `yaml:"snapshots" doc:"Snapshots of etcd."`
	Registries        named[Registry] `yaml:"registries" doc:"Image registries by name: mirrors and logins."`
	Airgap            string          `yaml:"airgap" doc:"Folder with k3s, its checksums and image tarball, for nodes without internet."`
	Upgrade           Upgrade         `yaml:"upgrade" doc:"What another version does to running work."`
}

type Upgrade struct {
	GPUPods string `yaml:"gpuPods" enum:"keep,evict" doc:"Pods that still hold GPUs of a node after wait: keep leaves the node as it is, evict ends them. Default keep."`
	Wait    Period `yaml:"wait" doc:"How long pods that hold GPUs have to end. Default 1h."`
}

type Snapshots struct {
	Schedule  string `yaml:"schedule" doc:"Cron expression. Default 0 */12 * * *."`
	Retention *int   `yaml:"retention" doc:"Number of snapshots to keep. Default 5."`
	S3        *S3    `yaml:"s3" doc:"Also copy them to a bucket."`

	Recipients []string `yaml:"recipients" doc:"Public keys of age: who can decrypt what cluster:backup writes."`
}

type S3 struct {
	Endpoint  string         `yaml:"endpoint" doc:"Host of the S3 service, with http:// in front if it has no TLS. Default s3.amazonaws.com."`
	Region    string         `yaml:"region" doc:"Default us-east-1."`
	Bucket    string         `yaml:"bucket" required:"true" doc:"Name of the bucket."`
	Folder    string         `yaml:"folder" doc:"Folder in the bucket."`
	AccessKey spec.SecretRef `yaml:"accessKey" required:"true" doc:"Reference to the access key."`
	SecretKey spec.SecretRef `yaml:"secretKey" required:"true" doc:"Reference to the secret key."`
}

type Registry struct {
	Endpoints []string          `yaml:"endpoints" doc:"URLs to use instead of the registry."`
	Rewrite   map[string]string `yaml:"rewrite" doc:"Patterns of image names, and their replacements."`
	Username  string            `yaml:"username" doc:"Login."`
	Password  spec.SecretRef    `yaml:"password" doc:"Reference to its password."`
	CA        string            `yaml:"ca" doc:"PEM file of the CA that signed the registry's certificate."`
	Insecure  bool              `yaml:"insecure" doc:"Do not check the registry's certificate."`
}

type NVIDIA struct {
	Stack   string         `yaml:"stack" enum:"device-plugin,operator,none" doc:"Default device-plugin."`
	Driver  Driver         `yaml:"driver" doc:"The kernel driver."`
	Sharing Sharing        `yaml:"sharing" doc:"How one GPU serves several pods."`
	Values  map[string]any `yaml:"values" doc:"Raw overrides for the stack's values."`
	Verify  Verify         `yaml:"verify" doc:"What gpu:verify runs."`
}

type Verify struct {
	Images VerifyImages `yaml:"images" doc:"Images to compute in, by digest or tag."`
}

type VerifyImages struct {
	CUDA       string `yaml:"cuda" doc:"With NVIDIA's vectorAdd sample, for every level. Default: NVIDIA's own."`
	PyTorch    string `yaml:"pytorch" doc:"With python3 and PyTorch. Default: PyTorch's own with -level=burn, otherwise none."`
	TensorFlow string `yaml:"tensorflow" doc:"With python3 and TensorFlow. Default none."`
}

type Driver struct {
	Mode    string `yaml:"mode" enum:"prebuilt,dkms,operator,none" doc:"Default prebuilt: Ubuntu's signed modules. dkms builds them on the machines, as Debian 13 requires."`
	Branch  string `yaml:"branch" doc:"auto, lts, production, or pinned, e.g. 580-server."`
	Flavour string `yaml:"flavour" enum:"auto,open,proprietary" doc:"Kind of the kernel modules. Default auto."`
	Upgrade string `yaml:"upgrade" enum:"in-place,replace" doc:"How running nodes get another driver: in-place (default), or replace: each machine is recreated from a new template."`
}

type Sharing struct {
	Strategy string      `yaml:"strategy" enum:"none,time-slicing,mps,mig" doc:"Default none."`
	Replicas *int        `yaml:"replicas" doc:"Number of pods per GPU, for time-slicing and mps."`
	Layouts  []MIGLayout `yaml:"layouts" doc:"How GPUs are partitioned, for mig."`
}

type MIGLayout struct {
	GPUs     []int          `yaml:"gpus" doc:"Indices of GPUs. Default: all."`
	Profiles map[string]int `yaml:"profiles" doc:"MIG profiles and the number of each, e.g. 3g.20gb: 2."`
}
