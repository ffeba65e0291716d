package spec

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Lab is the endpoint of the embedded lab.
const Lab = "lab"

// Spec is a wanted cluster: everything that cluster.yaml says, merged, with defaults, and
// checked. A Spec does not change once it is read.
type Spec struct {
	Name string `yaml:"name" required:"true" doc:"Name of the cluster: tag of its VMs, prefix of its images, ISOs and mappings."`
	File string // the file's path, as given to Load
	Dir  string // the folder of File; relative paths in the file are joined to it

	Proxmox   Proxmox   `yaml:"proxmox" doc:"Where the Proxmox VE API is and how to log in. Not needed if every node is external."`
	LabGuests LabGuests `yaml:"lab" json:",omitzero" doc:"The VMs of the embedded lab. Only with endpoint: lab."`
	Image     Image     `yaml:"image" doc:"What the nodes' template is made from. Default: a pinned Ubuntu 24.04 cloud image."`
	Network   Network   `yaml:"network" doc:"The network of every node; pools and nodes can override parts of it."`
	Access    Access    `yaml:"ssh" doc:"Who may log in to the nodes, and how to reach them."`
	Guest     Guest     `yaml:"guest" doc:"Packages, files and kernel settings for every node."`
	K3s       K3s       `yaml:"k3s" doc:"Version and settings of Kubernetes."`
	NVIDIA    NVIDIA    `yaml:"nvidia" doc:"Driver, and how pods request GPUs."`
	Patience  int       `yaml:"patience" json:",omitempty" min:"1" max:"100" doc:"Multiplies every time limit of a step: 3 for a slow host. Default 1."`
	Platform  Platform  `yaml:",inline"`

	// Defaults and Pools are what Nodes are made from. A completed Spec has its nodes in Nodes alone,
	// servers first, then agents, each in the order of the file.
	Defaults Shape  `yaml:"defaults" json:"-" doc:"Settings of every node, unless its pool or its own entry overrides them; null unsets."`
	Pools    []Pool `yaml:"pools,named" json:"-" doc:"Groups of similar nodes, by name."`
	Nodes    []Node `yaml:"nodes,named" doc:"Single nodes by name: further ones, or overrides for nodes of a pool."`

	Warnings []Problem `yaml:"-"` // allowed, but probably not intended

	// Places are the file:line:column of values that an error may name when they are used: the
	// address of a "node NAME", "vip", "pool RANGE", "k3s.version" and "proxmox.KEY".
	Places map[string]string `json:"-" yaml:"-"`

	TemplateAsked bool              `json:"-" yaml:"-"` // the file says image.templateStorage
	Placed        map[string]string `json:"-" yaml:"-"` // why a node is on its host, by name, of those that placement.Place put there
}

// Completed reports whether the Spec comes from package clusterfile: all defaults are filled in, and
// everything is checked.
func (s *Spec) Completed() bool { return s.Places != nil }

// Proxmox says where the Proxmox VE API is and how to log in.
type Proxmox struct {
	Endpoint    string    `yaml:"endpoint" required:"true" doc:"lab, or the host with or without https://, port and /api2/json."`
	TokenID     string    `yaml:"token" doc:"API token ID, user@realm!name. The secret belongs in secret."`
	TokenSecret SecretRef `yaml:"secret" doc:"Reference to the API token's secret: env:NAME, file:PATH or sops:FILE#path."`
	User        string    `yaml:"user" doc:"user@realm for settings that Proxmox refuses to every token: hugepages, affinity."`
	Password    SecretRef `yaml:"password" doc:"Reference to that user's password."`
	CAFile      string    `yaml:"ca" doc:"PEM file of the CA that signed the API's certificate."`
	Fingerprint string    `yaml:"fingerprint" doc:"SHA-256 fingerprint of the API's certificate."`
	Insecure    bool      `yaml:"insecure" doc:"Do not check the certificate. Anyone between you and the host can then read the token."`
	Host        string    `yaml:"host" doc:"Proxmox host of nodes that name none; auto: one of hosts with enough room."`
	Hosts       []Host    `yaml:"hosts,named" doc:"Proxmox hosts, with their resources."` // and every host with a node, sorted by name
}

// LabGuests configures the VMs of the embedded lab.
type LabGuests struct {
	Guests       string `yaml:"guests" enum:"simulated,qemu" doc:"qemu: real VMs on this machine, with a real K3s in them. Default simulated."`
	ControlPlane string `yaml:"kubernetes" enum:"simulated,real" doc:"real: etcd, API server, controllers and scheduler of Kubernetes, for simulated VMs. Default simulated."`
	Internet     Switch `yaml:"internet" doc:"Real VMs reach what this machine reaches. Default: true, but false with k3s.airgap."`
	Image        string `yaml:"image" doc:"Folder with disk.raw, vmlinuz and initrd of a Debian 13 for real VMs. Default: built once."`
	Place        string `yaml:"-"` // file:line:column of lab.guests, for checks that depend on the machine
}

// QEMU reports whether the lab's VMs are real ones.
func (l LabGuests) QEMU() bool { return l.Guests == "qemu" }

// Kubernetes reports whether simulated VMs have a real control plane.
func (l LabGuests) Kubernetes() bool { return l.ControlPlane == "real" }

// Host is one Proxmox VE host, called node in Proxmox's API.
type Host struct {
	Name    string          `yaml:"-"`
	SSH     string          `yaml:"ssh" doc:"user@address:port for host:prep, host:check and gpu:list. Default root@<name>:22."`
	Cores   int             `yaml:"cores" doc:"Its CPUs. If set, sums are checked."`
	Memory  Size            `yaml:"memory" doc:"Its memory. If set, sums are checked."`
	GPUs    int             `yaml:"gpus" doc:"Its GPUs. If set, sums are checked."`
	Storage map[string]Size `yaml:"storage" doc:"Capacity of its storages by name. If set, sums are checked."`

	// TemplateStorage is the storage of the template's disk on this host:
	// image.templateStorage, or else that of its first node's boot disk, so that clones are
	// linked.
	TemplateStorage string `yaml:"-"`
}

// Image says what the nodes' template is made from.
type Image struct {
	URL     string `yaml:"url" doc:"A cloud image in qcow2 format."`
	SHA256  string `yaml:"sha256" doc:"Its SHA-256."`
	SHA512  string `yaml:"sha512" doc:"Its SHA-512, instead of sha256."`
	Release string `yaml:"-"` // the distribution's code name, e.g. noble

	Distribution string `yaml:"distribution" short:"text" default:"ubuntu-24.04" enum:"ubuntu-24.04,debian-13" doc:"Distribution of the image. Default ubuntu-24.04."`

	Template string `yaml:"template" doc:"An existing template by VMID or name, instead of url."`

	ImageStorage    string `yaml:"storage" default:"local" doc:"Storage of the image, with content import. Default local."`
	TemplateStorage string `yaml:"templateStorage" doc:"Storage of the template's disk. Default: that of the nodes."` // see Spec.TemplateStorage for one host
	SeedStorage     string `yaml:"seedStorage" default:"local" doc:"Storage of the seed ISOs, with content iso. Default local."`
	SecureBoot      bool   `yaml:"secureBoot" doc:"Enrol the distribution's and Microsoft's keys, so that only signed kernels and modules load."`
}

// Network is the network of one node, or the default of all.
type Network struct {
	Bridge  string       `yaml:"bridge" default:"vmbr0" doc:"Default vmbr0."`
	VLAN    int          `yaml:"vlan" doc:"VLAN tag, 1 to 4094. Default: untagged."`
	MTU     int          `yaml:"mtu" doc:"Default: the bridge's."`
	Queues  int          `yaml:"queues" doc:"Queues of the network card. Default: the node's cores."`
	DHCP    bool         `yaml:"dhcp" json:",omitempty" doc:"Addresses come from a DHCP server."`
	Prefix  netip.Prefix `yaml:"prefix" doc:"The nodes' network, e.g. 10.0.0.0/24."`
	Gateway netip.Addr   `yaml:"gateway" doc:"The router's address. One outside of the prefix is reached on-link, as on rented hosts."`
	DNS     []netip.Addr `yaml:"dns" doc:"DNS servers. Default: the gateway."`
	Search  []string     `yaml:"search" doc:"DNS search domains."`
}

// Access says who may log in to the nodes and how to reach them.
type Access struct {
	User         string    `yaml:"user" doc:"Admin user on the nodes. Default: the distribution's, ubuntu or debian."`
	PublicKeys   []string  `yaml:"publicKeys" doc:"authorized_keys lines, or paths of .pub files."`
	PrivateKey   string    `yaml:"privateKey" doc:"Path of the private key to log in with. Default: derived from the API token."`
	Agent        bool      `yaml:"agent" doc:"Log in with the SSH agent's keys."`
	Jump         string    `yaml:"jump" doc:"Jump host, user@host:port."`
	Proxy        string    `yaml:"proxy" doc:"SOCKS proxy, socks5://host:port."`
	PasswordHash SecretRef `yaml:"passwordHash" doc:"Reference to the hash (mkpasswd) of the admin user's console password."`
}

// Guest has what every node gets at first boot, in addition to our own files and packages.
type Guest struct {
	Packages      []string          `yaml:"packages" doc:"Further packages."`
	Sysctls       map[string]string `yaml:"sysctls" doc:"Kernel parameters, e.g. vm.max_map_count: 262144."`
	KernelModules []string          `yaml:"kernelModules" doc:"Modules to load at boot."`
	Files         []File            `yaml:"files" doc:"Further files."`
	APT           `yaml:"apt" doc:"Where packages come from."`
	Timezone      string `yaml:"timezone" default:"Etc/UTC" doc:"Default Etc/UTC."`
}

// APT says where packages come from.
type APT struct {
	APTMirror  string `yaml:"mirror" doc:"URL instead of the distribution's archive."`
	APTProxy   string `yaml:"proxy" doc:"URL of an HTTP proxy or cache for packages from repositories without TLS."`
	HTTPSProxy string `yaml:"httpsProxy" json:",omitempty" doc:"URL of an HTTP proxy for nodes' downloads over https: NVIDIA's packages and key, K3s. Default: none."`
}

// File is one file on a node.
type File struct {
	Path    string   `yaml:"path" required:"true" doc:"Absolute path on the node."`
	Content *string  `yaml:"content" doc:"The file's content. Not for secrets."`
	Source  string   `yaml:"source" json:"-" doc:"A local file with the content, instead of content."`
	Owner   string   `yaml:"owner" default:"root:root" doc:"user:group. Default root:root."`
	Perm    FileMode `yaml:"mode" doc:"Octal, default 0644."`
}

// K3s configures Kubernetes.
type K3s struct {
	Version      string       `yaml:"version" doc:"Exact release, e.g. v1.36.5+k3s1."`
	VIP          netip.Addr   `yaml:"vip" doc:"Virtual address of the API. Needed with more than one server."`
	VIPInterface string       `yaml:"vipInterface" doc:"Interface that carries it. Default: the one with the node's address."`
	TLSSANs      []string     `yaml:"tlsSANs" doc:"Further names of the API in its certificate."`
	PodCIDR      netip.Prefix `yaml:"podCIDR" doc:"Default 10.42.0.0/16, or fd00:42::/56 for nodes with IPv6."`
	ServiceCIDR  netip.Prefix `yaml:"serviceCIDR" doc:"Default 10.43.0.0/16, or fd00:43::/112 for nodes with IPv6."`

	ClusterDomain  string   `yaml:"clusterDomain" default:"cluster.local" doc:"Default cluster.local."`
	Disable        []string `yaml:"disable" enum:"coredns,servicelb,traefik,local-storage,metrics-server,runtimes" doc:"Components of K3s to leave out."`
	FlannelBackend string   `yaml:"flannelBackend" default:"vxlan" enum:"vxlan,host-gw,wireguard-native,none" doc:"Default vxlan; none for another CNI."`
	CNI            string   `yaml:"cni" json:",omitempty" enum:"flannel,cilium" doc:"The pods' network: K3s' flannel, or Cilium instead. Default flannel."`

	ServerConfig map[string]any `yaml:"server" doc:"Further keys of the servers' config.yaml."` // checked against K3s' own
	AgentConfig  map[string]any `yaml:"agent" doc:"Further keys of every node's config.yaml."`  // checked against K3s' own

	SecretsEncryption Switch     `yaml:"secretsEncryption" default:"true" doc:"Encrypt Secrets in etcd. Default true."`
	Snapshots         Snapshots  `yaml:"snapshots" doc:"Snapshots of etcd."`
	Registries        []Registry `yaml:"registries,named" doc:"Image registries by name: mirrors and logins."`
	AirgapDir         string     `yaml:"airgap" doc:"Folder with k3s, its checksums and image tarball, for nodes without internet."`
	Upgrade           Upgrade    `yaml:"upgrade" doc:"What another version does to running work."`
}

// Cilium reports whether it is the pods' network, in place of flannel.
func (k K3s) Cilium() bool { return k.CNI == "cilium" }

// Choices of Upgrade.GPUPods.
const (
	GPUPodsKeep  = "keep"  // the node keeps its version, and the pods go on
	GPUPodsEvict = "evict" // they are evicted
)

// Choices of NVIDIA.DriverUpgrade.
const (
	DriverInPlace = "in-place" // the node is drained, and its machine switched off and on
	DriverReplace = "replace"  // its machine is recreated from a new template
)

// Upgrade says how nodes go to another version of K3s, another driver or another layout of their GPUs.
type Upgrade struct {
	GPUPods string        `yaml:"gpuPods" default:"keep" enum:"keep,evict" doc:"Pods that still hold GPUs of a node after wait: keep leaves the node as it is, evict ends them. Default keep."`
	Wait    time.Duration `yaml:"wait" default:"1h" doc:"How long pods that hold GPUs have to end. Default 1h."`
}

// Snapshots says when and where etcd's snapshots are stored.
type Snapshots struct {
	Schedule  string `yaml:"schedule" default:"0 */12 * * *" doc:"Cron expression. Default 0 */12 * * *."`
	Retention int    `yaml:"retention" default:"5" doc:"Number of snapshots to keep. Default 5."`
	S3        *S3    `yaml:"s3" doc:"Also copy them to a bucket."`

	Recipients []string `yaml:"recipients" doc:"Public keys of age: who can decrypt what cluster:backup writes."`
}

// S3 is a bucket for etcd snapshots.
type S3 struct {
	Endpoint  string    `yaml:"endpoint" default:"s3.amazonaws.com" doc:"Host of the S3 service, with http:// in front if it has no TLS. Default s3.amazonaws.com."`
	Region    string    `yaml:"region" default:"us-east-1" doc:"Default us-east-1."`
	Bucket    string    `yaml:"bucket" required:"true" doc:"Name of the bucket."`
	Folder    string    `yaml:"folder" doc:"Folder in the bucket."`
	Insecure  bool      `yaml:"-"` // http instead of https
	AccessKey SecretRef `yaml:"accessKey" required:"true" doc:"Reference to the access key."`
	SecretKey SecretRef `yaml:"secretKey" required:"true" doc:"Reference to the secret key."`
}

// Registry is how nodes reach one image registry.
type Registry struct {
	Name      string            `yaml:"-"` // e.g. docker.io
	Endpoints []string          `yaml:"endpoints" doc:"URLs to use instead of the registry."`
	Rewrite   map[string]string `yaml:"rewrite" doc:"Patterns of image names, and their replacements."`
	Username  string            `yaml:"username" doc:"Login."`
	Password  SecretRef         `yaml:"password" doc:"Reference to its password."`
	CAFile    string            `yaml:"ca" doc:"PEM file of the CA that signed the registry's certificate."`
	Insecure  bool              `yaml:"insecure" doc:"Do not check the registry's certificate."`
}

// Choices of NVIDIA.Stack.
const (
	StackDevicePlugin = "device-plugin"
	StackOperator     = "operator"
	StackNone         = "none"
)

// Choices of NVIDIA.DriverMode.
const (
	DriverPrebuilt = "prebuilt" // signed modules from Ubuntu's archive, in the template
	DriverDKMS     = "dkms"     // built on the machine, in the template and for each kernel that comes
	DriverOperator = "operator" // a container of the GPU operator
	DriverNone     = "none"     // somebody else's business
)

// NVIDIA says which driver the GPU nodes get and how pods request GPUs.
type NVIDIA struct {
	Stack   string `yaml:"stack" enum:"device-plugin,operator,none" doc:"Default device-plugin."`
	Driver  `yaml:"driver" doc:"The kernel driver."`
	Sharing Sharing        `yaml:"sharing" doc:"How one GPU serves several pods."`
	Values  map[string]any `yaml:"values" doc:"Raw overrides for the stack's values."`
	Verify  `yaml:"verify" doc:"What gpu:verify runs."`
}

// Driver says which driver GPU nodes get.
type Driver struct {
	DriverMode    string `yaml:"mode" enum:"prebuilt,dkms,operator,none" doc:"Default prebuilt: Ubuntu's signed modules. dkms builds them on the machines, as Debian 13 requires."`
	Branch        string `yaml:"branch" default:"auto" doc:"auto, lts, production, or pinned, e.g. 580-server."`
	Flavour       string `yaml:"flavour" default:"auto" enum:"auto,open,proprietary" doc:"Kind of the kernel modules. Default auto."`
	DriverUpgrade string `yaml:"upgrade" default:"in-place" enum:"in-place,replace" doc:"How running nodes get another driver: in-place (default), or replace: each machine is recreated from a new template."`
}

// Verify says what gpu:verify runs.
type Verify struct {
	Images VerifyImages `yaml:"images" json:",omitzero" doc:"Images to compute in, by digest or tag."`
}

// VerifyImages are those in which GPUs are verified; an empty one has a default, or its check is left out.
type VerifyImages struct {
	CUDA       string `yaml:"cuda" doc:"With NVIDIA's vectorAdd sample, for every level. Default: NVIDIA's own."`
	PyTorch    string `yaml:"pytorch" doc:"With python3 and PyTorch. Default: PyTorch's own with -level=burn, otherwise none."`
	TensorFlow string `yaml:"tensorflow" doc:"With python3 and TensorFlow. Default none."`
}

// Choices of Sharing.Strategy.
const (
	SharingNone        = "none"
	SharingTimeSlicing = "time-slicing"
	SharingMPS         = "mps"
	SharingMIG         = "mig"
)

// Sharing says how one GPU serves several pods.
type Sharing struct {
	Strategy string      `yaml:"strategy" default:"none" enum:"none,time-slicing,mps,mig" doc:"Default none."`
	Replicas int         `yaml:"replicas" doc:"Number of pods per GPU, for time-slicing and mps."`
	Layouts  []MIGLayout `yaml:"layouts" doc:"How GPUs are partitioned, for mig."`
}

// Shared reports whether several pods use one GPU.
func (s Sharing) Shared() bool { return s.Strategy == SharingTimeSlicing || s.Strategy == SharingMPS }

// Name tells apart the ways of sharing for which a device plugin needs different settings.
func (s Sharing) Name() string {
	switch {
	case s.Replicas > 1:
		return fmt.Sprintf("%s-%d", s.Strategy, s.Replicas)
	case s.Strategy == "":
		return SharingNone
	}
	return s.Strategy
}

// MIGLayout says how some GPUs of a node are partitioned.
type MIGLayout struct {
	GPUs     []int          `yaml:"gpus" doc:"Indices of GPUs. Default: all."`
	Profiles map[string]int `yaml:"profiles" doc:"MIG profiles and the number of each, e.g. 3g.20gb: 2."` // empty: MIG off
}

// String returns e.g. "2 of 3g.20gb".
func (l MIGLayout) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(l.Profiles)) {
		out = append(out, fmt.Sprintf("%d of %s", l.Profiles[name], name))
	}
	return strings.Join(out, ", ")
}

// Servers returns the control-plane nodes.
func (s *Spec) Servers() []Node { return s.nodes(func(n Node) bool { return n.Role == Server }) }

// Agents returns the nodes that are not servers.
func (s *Spec) Agents() []Node { return s.nodes(func(n Node) bool { return n.Role == Agent }) }

// GPUNodes returns the nodes with GPUs.
func (s *Spec) GPUNodes() []Node { return s.nodes(func(n Node) bool { return n.GPUs.Count > 0 }) }

// Node returns the node of that name.
func (s *Spec) Node(name string) (Node, bool) {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return s.Nodes[i], true
}

// HasMachine reports whether a machine of the file has that name: a node, or the NFS server.
func (s *Spec) HasMachine(name string) bool {
	return slices.ContainsFunc(s.Machines(), func(n Node) bool { return n.Name == name })
}

// APIAddress is the address of the Kubernetes API: the VIP, or the only server's own address.
// It is not valid for a single server with DHCP and no VIP.
func (s *Spec) APIAddress() netip.Addr {
	if s.K3s.VIP.IsValid() {
		return s.K3s.VIP
	}
	return s.Servers()[0].Address.Addr()
}

// TemplateStorage returns the storage of the template's disk on a host.
func (s *Spec) TemplateStorage(host string) string {
	for _, h := range s.Proxmox.Hosts {
		if h.Name == host {
			return h.TemplateStorage
		}
	}
	return s.Image.TemplateStorage
}

// IsLab reports whether the cluster is in the embedded lab.
func (s *Spec) IsLab() bool { return s.Proxmox.Endpoint == Lab }

// HasProxmox reports whether the file names a Proxmox VE. If not, every machine is external,
// and cluster.Backend.Proxmox is nil.
func (s *Spec) HasProxmox() bool { return s.Proxmox.Endpoint != "" }

func (s *Spec) nodes(keep func(Node) bool) []Node {
	var out []Node
	for _, n := range s.Nodes {
		if keep(n) {
			out = append(out, n)
		}
	}
	return out
}

// Startup is the position of a VM in its host's boot order.
type Startup struct {
	Order    int           // 0: not set
	Up, Down time.Duration // how long the host waits after starting, and for the shutdown
}
