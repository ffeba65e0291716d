package spec

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Lab is the endpoint of the embedded lab.
const Lab = "lab"

// Spec is a wanted cluster: everything that cluster.yaml says, merged, with defaults, and
// checked. A Spec does not change once it is read.
type Spec struct {
	Name string `yaml:"name" required:"true" doc:"The cluster: at most 32 lower-case letters, digits and hyphens. Another name means another cluster."`
	File string // the file's path, as given to Load
	Dir  string // the folder of File; relative paths in the file are joined to it

	Proxmox   Proxmox   `yaml:"proxmox" absent:"required" doc:"The Proxmox VE API. Not needed if every node is ‘external’, or with ‘harvester’."`
	Harvester Harvester `yaml:"harvester" json:",omitzero" absent:"Proxmox VE" doc:"[Harvester](harvester.md), whose VMs the nodes are, instead of ‘proxmox’."`
	LabGuests LabGuests `yaml:"lab" json:",omitzero" absent:"simulated VMs" doc:"Settings of the embedded lab."`
	Image     Image     `yaml:"image" absent:"‘ubuntu-24.04’" doc:"The nodes' [operating system](distributions.md)."`
	Network   Network   `yaml:"network" absent:"required without DHCP" doc:"The network of every node."`
	Access    Access    `yaml:"ssh" absent:"a generated key" doc:"Who may log in to the nodes, and how to reach them."`
	Guest     Guest     `yaml:"guest" absent:"nothing" doc:"Packages, files and kernel settings for every node."`
	// Distribution is DistributionTalos, DistributionKubeadm, or empty for K3s. The section that it names is moved to K3s.
	Distribution string     `yaml:"distribution" json:",omitempty" enum:"k3s,kubeadm,talos" absent:"‘k3s’" doc:"What runs Kubernetes: ‘k3s’, [‘kubeadm’](kubeadm.md), or [‘talos’](talos.md), which needs another program. Cannot be changed later."`
	K3s          K3s        `yaml:"k3s" absent:"see below" doc:"Kubernetes."`
	Kubeadm      Kubeadm    `yaml:"kubeadm" json:",omitzero" absent:"see below" doc:"Kubernetes with ‘distribution: kubeadm’."`
	Talos        TalosLinux `yaml:"talos" json:",omitzero" absent:"see below" doc:"Talos Linux, with ‘distribution: talos’."`
	Mirror       *Mirror    `yaml:"mirror" json:"-" absent:"the internet" doc:"What nodes without internet [get everything from](images.md#a-registry-of-your-own-without-internet)."`
	NVIDIA       NVIDIA     `yaml:"nvidia" absent:"see below" doc:"The driver, and how pods request GPUs."`
	Patience     int        `yaml:"patience" json:",omitempty" min:"1" max:"100" absent:"1" doc:"Multiplies every time limit of a step. Use 3 on a slow host. A whole number, 1 to 100."`
	Platform     Platform   `yaml:",inline"`

	// Defaults and Pools are what Nodes are made from. A completed Spec has its nodes in Nodes alone,
	// servers first, then agents, each in the order of the file.
	Defaults Shape  `yaml:"defaults" json:"-" doc:"Settings of every node."`
	Pools    []Pool `yaml:"pools,named" json:"-" doc:"Groups of similar nodes, by name."`
	Nodes    []Node `yaml:"nodes,named" doc:"Single nodes by name, or overrides for nodes of a pool."`
	VMs      []VM   `yaml:"vms,named" json:",omitempty" absent:"none" doc:"[VMs that are not nodes](vms.md), by name."`

	Warnings []Problem `yaml:"-"` // allowed, but probably not intended

	// Places are the file:line:column of values that an error may name when they are used: the
	// address of a "node NAME", and on a further card "node NAME CARD", "vip", "pool RANGE", "k3s.version" and "proxmox.KEY".
	Places map[string]string `json:"-" yaml:"-"`

	// Sealed: machines run an image that is complete: it has no shell, and lets containers do only what they name.
	Sealed bool `json:"-" yaml:"-"`
	// LocalAPI is where each node has a proxy of the Kubernetes API; not valid: there is none.
	LocalAPI netip.AddrPort `json:"-" yaml:"-"`

	TemplateAsked bool              `json:"-" yaml:"-"` // the file says image.templateStorage
	Placed        map[string]string `json:"-" yaml:"-"` // why a node is on its host, by name, of those that placement.Place put there
}

// Completed reports whether the Spec comes from package clusterfile: all defaults are filled in, and
// everything is checked that it checks itself.
func (s *Spec) Completed() bool { return s.Places != nil }

// Proxmox says where the Proxmox VE API is and how to log in.
type Proxmox struct {
	Endpoint    string    `yaml:"endpoint" required:"true" doc:"‘lab’, or the host, with or without ‘https://’ and port (8006)."`
	TokenID     string    `yaml:"token" absent:"required" doc:"ID of the API token, ‘user@realm!name’. The lab needs neither this nor the six keys below."`
	TokenSecret SecretRef `yaml:"secret" absent:"required" doc:"Reference to the token's secret."`
	User        string    `yaml:"user" doc:"‘user@realm’ for [‘hugepages’ and ‘affinity’](nodes.md#what-only-root-may-set)."`
	Password    SecretRef `yaml:"password" absent:"the command asks" doc:"Reference to that user's password."`
	CAFile      string    `yaml:"ca" absent:"system's" doc:"PEM of the authority of the host's certificate, e.g. a copy of ‘/etc/pve/pve-root-ca.pem’."`
	Fingerprint string    `yaml:"fingerprint" absent:"not compared" doc:"SHA-256 of the host's certificate, as ‘pvenode cert info’ shows it. Replaces an authority."`
	Insecure    bool      `yaml:"insecure" doc:"Do not check the certificate. Anyone in between can then read the token."`
	Region      string    `yaml:"region" absent:"‘name’" doc:"REGION of the nodes' [IDs in Kubernetes](nodes.md#ids-and-topology), ‘proxmox://REGION/VMID’. It cannot change while the cluster exists."`
	Host        string    `yaml:"host" absent:"the first of ‘hosts’, else ‘pve’ (‘pve1’ in the lab)" doc:"Host of nodes that name none: its name in the web interface. ‘auto’: [one with enough room](gpus.md#several-hosts)."`
	Hosts       []Host    `yaml:"hosts,named" absent:"those that nodes name" doc:"Hosts by name. If set, it must contain every node's host."` // and every host with a node, sorted by name
}

// LabGuests configures the VMs of the embedded lab.
type LabGuests struct {
	Guests       string `yaml:"guests" enum:"simulated,qemu" absent:"‘simulated’" doc:"‘qemu’: real VMs on this machine, with a real K3s."`
	ControlPlane string `yaml:"kubernetes" enum:"simulated,real" absent:"‘simulated’" doc:"For simulated VMs. ‘real’: etcd, API server, controllers and scheduler of Kubernetes, compiled once."`
	Internet     Switch `yaml:"internet" absent:"‘true’; ‘false’ with ‘k3s.airgap’" doc:"Real VMs reach what this machine reaches."`
	Image        string `yaml:"image" absent:"built once" doc:"Folder with ‘disk.raw’, ‘vmlinuz’ and ‘initrd’ of a Debian 13."`
	Place        string `yaml:"-"` // file:line:column of lab.guests, for checks that depend on the machine
}

// QEMU reports whether the lab's VMs are real ones.
func (l LabGuests) QEMU() bool { return l.Guests == "qemu" }

// Kubernetes reports whether simulated VMs have a real control plane.
func (l LabGuests) Kubernetes() bool { return l.ControlPlane == "real" }

// Host is one Proxmox VE host, called node in Proxmox's API.
type Host struct {
	Name    string          `yaml:"-"`
	SSH     string          `yaml:"ssh" absent:"‘root@NAME:22’" doc:"Login for ‘host:prep’, ‘host:check’ and ‘gpu:list’. Building a cluster needs none."`
	Cores   int             `yaml:"cores" absent:"not checked" doc:"Its logical CPUs."`
	Memory  Size            `yaml:"memory" absent:"not checked" doc:"Its memory."`
	GPUs    int             `yaml:"gpus" absent:"not checked" doc:"Number of its GPUs."`
	Storage map[string]Size `yaml:"storage" absent:"not checked" doc:"Capacity of its storages, e.g. ‘{vmdata: 2TiB}’."`

	// TemplateStorage is the storage of the template's disk on this host:
	// image.templateStorage, or else that of its first node's boot disk, so that clones are
	// linked.
	TemplateStorage string `yaml:"-"`
}

// Image says what the nodes' template is made from.
type Image struct {
	URL     string `yaml:"url" absent:"a dated image of the distribution" doc:"A cloud image in qcow2 format, which the host downloads."`
	SHA256  string `yaml:"sha256" absent:"that of the default ‘url’" doc:"Its checksum. Required with ‘url’, except in the lab."`
	SHA512  string `yaml:"sha512" absent:"that of Debian's default ‘url’" doc:"Instead of ‘sha256’."`
	Release string `yaml:"-"` // the distribution's code name, e.g. noble

	Distribution string `yaml:"distribution" short:"text" default:"ubuntu-24.04" enum:"ubuntu-24.04,debian-13" doc:"‘ubuntu-24.04’ or ‘debian-13’; ‘image: debian-13’ means the same."`

	Template string `yaml:"template" absent:"none: one is baked" doc:"An existing template by name or VMID, instead of ‘url’: [templates.md](templates.md)."`

	ImageStorage    string `yaml:"storage" default:"local" doc:"Storage for the image, with content ‘import’."`
	TemplateStorage string `yaml:"templateStorage" absent:"that of the first node's OS disk" doc:"Storage for the template's disk, on every host. Nodes with their OS disk there are [linked clones](templates.md#linked-or-whole)."` // see Spec.TemplateStorage for one host
	SeedStorage     string `yaml:"seedStorage" default:"local" doc:"Storage for the first-boot ISOs, with content ‘iso’."`
	SecureBoot      bool   `yaml:"secureBoot" doc:"Only signed kernels and modules load, in all nodes. Prebuilt drivers are signed."`
}

// Network is the network of one node, or the default of all.
type Network struct {
	Bridge  string       `yaml:"bridge" default:"vmbr0" doc:"Bridge on the host."`
	VLAN    int          `yaml:"vlan" absent:"untagged" doc:"1 to 4094."`
	MTU     int          `yaml:"mtu" absent:"the bridge's" doc:"In bytes."`
	Queues  int          `yaml:"queues" absent:"the node's cores" doc:"Queues of the network card, at most 64."`
	DHCP    bool         `yaml:"dhcp" json:",omitempty" doc:"Addresses come from a DHCP server. A warning for servers: etcd breaks when their addresses change."`
	Prefix  netip.Prefix `yaml:"prefix" absent:"required without DHCP" doc:"The nodes' network, e.g. ‘10.0.0.0/24’."`
	Gateway netip.Addr   `yaml:"gateway" absent:"required without DHCP" doc:"The router's address. One outside of the prefix is reached on-link."`
	DNS     []netip.Addr `yaml:"dns" absent:"the gateway" doc:"List of DNS servers."`
	Search  []string     `yaml:"search" doc:"List of search domains."`

	Prefix6  netip.Prefix `yaml:"prefix6" json:",omitzero" absent:"none" doc:"The nodes' IPv6 network [besides that of IPv4](nodes.md#ipv4-and-ipv6), e.g. ‘fd00:10::/64’."`
	Gateway6 netip.Addr   `yaml:"gateway6" json:",omitzero" absent:"as routers announce" doc:"The IPv6 router's address, e.g. ‘fe80::1’."`
	Firewall Switch       `yaml:"firewall" json:",omitempty" absent:"unchanged; a new card: ‘false’" doc:"Put the card behind [Proxmox's firewall](nodes.md#firewall)."`
}

// Access says who may log in to the nodes and how to reach them.
type Access struct {
	User         string    `yaml:"user" absent:"the distribution's: ‘ubuntu’ or ‘debian’" doc:"The admin user on the nodes. Not root."`
	PublicKeys   []string  `yaml:"publicKeys" absent:"only homelab's" doc:"Further keys that may log in: ‘authorized_keys’ lines, or paths of ‘.pub’ files. To remove one, edit ‘authorized_keys’ on the nodes."`
	PrivateKey   string    `yaml:"privateKey" absent:"[derived from the API token](nodes.md#logging-in-to-nodes)" doc:"Key to log in with. Requires ‘publicKeys’, unless all machines are external."`
	Agent        bool      `yaml:"agent" doc:"Log in with the keys of the SSH agent. Requires ‘publicKeys’, unless all machines are external."`
	Jump         string    `yaml:"jump" doc:"Jump host to the nodes and the Kubernetes API, ‘user@host:port’. Its key must be in your ‘~/.ssh/known_hosts’."`
	SudoPassword SecretRef `yaml:"sudoPassword" json:",omitzero" absent:"none: ‘sudo’ asks for none" doc:"Reference to the password that ‘sudo’ asks for on existing machines."`
	Proxy        string    `yaml:"proxy" doc:"SOCKS proxy instead of a jump host, ‘socks5://host:port’."`
	PasswordHash SecretRef `yaml:"passwordHash" absent:"no password" doc:"Reference to the hash (‘mkpasswd’) of the admin user's password for the console."`
}

// Guest has what every node gets at first boot, in addition to our own files and packages.
type Guest struct {
	Packages      []string          `yaml:"packages" doc:"Further packages; ‘name’ or ‘name=version’."`
	Sysctls       map[string]string `yaml:"sysctls" doc:"Kernel parameters, e.g. ‘vm.max_map_count: 262144’."`
	KernelModules []string          `yaml:"kernelModules" doc:"Modules to load at boot."`
	Files         []File            `yaml:"files" doc:"Further files."`
	APT           `yaml:"apt" absent:"the distribution's archive" doc:"Where packages come from."`
	Timezone      string `yaml:"timezone" default:"Etc/UTC" doc:"e.g. ‘Europe/Vienna’."`
}

// APT says where packages come from.
type APT struct {
	APTMirror  string `yaml:"mirror" doc:"URL to use instead of the distribution's archive."`
	APTProxy   string `yaml:"proxy" doc:"HTTP proxy or cache for repositories without TLS."`
	HTTPSProxy string `yaml:"httpsProxy" json:",omitempty" doc:"HTTP proxy with CONNECT, for NVIDIA's packages and K3s."`
}

// File is one file on a node.
type File struct {
	Path    string   `yaml:"path" required:"true" doc:"Absolute path on the node."`
	Content *string  `yaml:"content" absent:"this or ‘source’" doc:"The file's content."`
	Source  string   `yaml:"source" json:"-" absent:"this or ‘content’" doc:"A local file, at most 1 MiB."`
	Owner   string   `yaml:"owner" default:"root:root" doc:"‘user:group’."`
	Perm    FileMode `yaml:"mode" absent:"‘\"0644\"’" doc:"Octal."`
}

// Kubernetes has the settings that there are whatever runs it. A completed Spec has them in K3s.
type Kubernetes struct {
	VIP         netip.Addr `yaml:"vip" doc:"Virtual address of the Kubernetes API. Required with several servers; [must be unused](host-check.md#whose-an-address-is)."`
	TLSSANs     []string   `yaml:"tlsSANs" doc:"Further names and addresses for the API's certificate."`
	PodCIDR     Ranges     `yaml:"podCIDR" absent:"‘10.42.0.0/16’; ‘fd00:42::/56’ for nodes with IPv6" doc:"Addresses of pods: a ‘/24’ for each node, a ‘/64’ with IPv6. A list of two for [both families](nodes.md#ipv4-and-ipv6). Cannot be changed later."`
	ServiceCIDR Ranges     `yaml:"serviceCIDR" absent:"‘10.43.0.0/16’; ‘fd00:43::/112’ for nodes with IPv6" doc:"Addresses of services, of the same families. Cannot be changed later."`

	ClusterDomain string  `yaml:"clusterDomain" default:"cluster.local" doc:"DNS domain of services."`
	CNI           string  `yaml:"cni" json:",omitempty" enum:"flannel,cilium" absent:"‘flannel’; kubeadm: ‘cilium’" doc:"‘flannel’, or ‘cilium’, which also replaces kube-proxy; with kubeadm, ‘cilium’ alone. Cannot be changed later."`
	Upgrade       Upgrade `yaml:"upgrade" absent:"see below" doc:"What another ‘version’ does to running work: [upgrade.md](upgrade.md)."`
}

// K3s configures Kubernetes as K3s sets it up.
type K3s struct {
	Version      string `yaml:"version" absent:"‘v1.36.5+k3s1’" doc:"An exact release. Its files are checked by checksum."`
	Kubernetes   `yaml:",inline"`
	VIPInterface string `yaml:"vipInterface" absent:"the one with the node's address" doc:"Interface that carries ‘vip’."`
	Network      string `yaml:"network" json:",omitempty" absent:"the first card" doc:"Name of the [further card](nodes.md#several-networks) for traffic between nodes: pods, etcd, kubelets. Every VM needs it, with a static address. Cannot be changed later on a server."`

	Disable        []string `yaml:"disable" enum:"coredns,servicelb,traefik,local-storage,metrics-server,runtimes" absent:"components that another part replaces" doc:"Components to leave out: ‘coredns’, ‘servicelb’, ‘traefik’, ‘local-storage’, ‘metrics-server’, ‘runtimes’."`
	FlannelBackend string   `yaml:"flannelBackend" default:"vxlan" enum:"vxlan,host-gw,wireguard-native,none" doc:"‘vxlan’, ‘host-gw’, ‘wireguard-native’, or ‘none’ if you install another CNI."`

	ServerConfig map[string]any `yaml:"server" doc:"Further keys of the servers' ‘config.yaml’."` // checked against K3s' own
	AgentConfig  map[string]any `yaml:"agent" doc:"Further keys of every node's ‘config.yaml’."`  // checked against K3s' own

	SecretsEncryption Switch     `yaml:"secretsEncryption" default:"true" doc:"Encrypt Secrets in etcd."`
	Snapshots         Snapshots  `yaml:"snapshots" absent:"twice a day" doc:"Snapshots of etcd."`
	Registries        []Registry `yaml:"registries,named" doc:"Image registries by name."`
	EmbeddedRegistry  bool       `yaml:"embeddedRegistry" json:",omitempty" doc:"Nodes fetch images [from each other](images.md#from-node-to-node) first."`
	AirgapDir         string     `yaml:"airgap" absent:"none: download" doc:"Folder with ‘k3s’, ‘sha256sum-amd64.txt’ and ‘k3s-airgap-images-amd64.tar.zst’ of the release, for nodes without internet."`
}

// Kubeadm configures Kubernetes as kubeadm sets it up.
type Kubeadm struct {
	Version    string `yaml:"version" absent:"‘v1.36.5’" doc:"An exact release. Its packages are checked by signature."`
	Kubernetes `yaml:",inline"`
	Runtime    string `yaml:"runtime" json:",omitempty" enum:"containerd,crio" absent:"‘containerd’" doc:"What runs containers: ‘containerd’ of the distribution, or [‘crio’](kubeadm.md#cri-o), CRI-O of its own repository. A node that has another one is refused: ‘node:replace’ recreates it."`
	// RuntimeKey is the fingerprint of the key of a simulated repository of CRI-O, whose own nobody else can have.
	RuntimeKey string `yaml:"-" json:"-"`
}

// Choices of Spec.Distribution. Only the rooms of the distributions ask for them; everything else asks what follows.
const (
	DistributionKubeadm = "kubeadm"
	DistributionTalos   = "talos"
)

// KubernetesKey is how the file calls a setting of Kubernetes, e.g. kubeadm.upgrade.
func (s *Spec) KubernetesKey(name string) string { return cmp.Or(s.Distribution, "k3s") + "." + name }

// Cilium reports whether it is the pods' network, in place of flannel.
func (k Kubernetes) Cilium() bool { return k.CNI == "cilium" }

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
	GPUPods string        `yaml:"gpuPods" default:"keep" enum:"keep,evict" doc:"Pods that still hold GPUs of a node after ‘wait’: ‘keep’ leaves the node as it is; ‘evict’ ends them."`
	Wait    time.Duration `yaml:"wait" default:"1h" absent:"‘1h’" doc:"How long they have to end, e.g. ‘30m’, ‘2d’."`
}

// Snapshots says when and where etcd's snapshots are stored.
type Snapshots struct {
	Schedule  string `yaml:"schedule" default:"0 */12 * * *" doc:"Cron expression of five fields."`
	Retention int    `yaml:"retention" default:"5" absent:"‘5’" doc:"Number of snapshots to keep on each server."`
	S3        *S3    `yaml:"s3" doc:"Also copy them to a [bucket](restore.md#a-bucket)."`

	Recipients []string `yaml:"recipients" doc:"Public keys of [age](https://age-encryption.org): who can decrypt what ‘cluster:backup’ writes."`
}

// S3 is a bucket for etcd snapshots.
type S3 struct {
	Endpoint  string    `yaml:"endpoint" default:"s3.amazonaws.com" doc:"Host of the S3 service; with ‘http://’ in front if it has no TLS."`
	Region    string    `yaml:"region" default:"us-east-1" doc:"Its region."`
	Bucket    string    `yaml:"bucket" required:"true" doc:"An existing bucket."`
	Folder    string    `yaml:"folder" doc:"Folder in the bucket."`
	Insecure  bool      `yaml:"-"` // http instead of https
	AccessKey SecretRef `yaml:"accessKey" required:"true" doc:"Reference to the access key."`
	SecretKey SecretRef `yaml:"secretKey" required:"true" doc:"Reference to the secret key."`
}

// Registry is how nodes reach one image registry.
type Registry struct {
	Name      string            `yaml:"-"` // e.g. docker.io
	Endpoints []string          `yaml:"endpoints" doc:"URLs of mirrors, in order."`
	Rewrite   map[string]string `yaml:"rewrite" doc:"Patterns of image names, and their replacements."`
	Username  string            `yaml:"username" doc:"Login; requires ‘password’."`
	Password  SecretRef         `yaml:"password" doc:"Reference to its password."`
	CAFile    string            `yaml:"ca" absent:"system's" doc:"PEM of its authority."`
	Insecure  bool              `yaml:"insecure" doc:"Do not check its certificate."`
}

// Choices of NVIDIA.Stack.
const (
	StackDevicePlugin = "device-plugin"
	StackOperator     = "operator"
	StackDRA          = "dra"
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
	Stack   string `yaml:"stack" enum:"device-plugin,operator,dra,none" absent:"‘device-plugin’ if a node has GPUs, else ‘none’" doc:"What makes GPUs allocatable: ‘device-plugin’, ‘operator’, ‘dra’ or ‘none’; [which one](gpus.md#device-plugin-or-operator)."`
	Driver  `yaml:"driver" absent:"prebuilt, branch by the cards" doc:"The kernel driver."`
	Sharing Sharing        `yaml:"sharing" doc:"How one GPU serves several pods."`
	Guard   bool           `yaml:"guard" json:",omitempty" doc:"Refuse pods that would see GPUs [without a request](using-gpus.md#only-what-is-requested)."`
	Values  map[string]any `yaml:"values" doc:"With ‘operator’: values of its chart. No secrets."`
	Verify  `yaml:"verify" absent:"see below" doc:"What [‘gpu:verify’](verify.md) runs."`
}

// Driver says which driver GPU nodes get.
type Driver struct {
	DriverMode    string `yaml:"mode" enum:"prebuilt,dkms,operator,none" absent:"‘prebuilt’ if a node has GPUs, else ‘none’" doc:"‘prebuilt’: Ubuntu's signed modules. ‘dkms’: modules [built on the machines](distributions.md#nvidias-driver), which Debian 13 needs. ‘operator’: containers, with ‘stack: operator’, on Ubuntu, without Secure Boot. ‘none’: you install the driver."`
	Branch        string `yaml:"branch" default:"auto" doc:"By PCI id and NVIDIA's life cycle; or ‘lts’, ‘production’, or a fixed one such as ‘580-server’. [How it is chosen](drivers.md)."`
	Flavour       string `yaml:"flavour" default:"auto" enum:"auto,open,proprietary" doc:"Kernel modules: ‘auto’, ‘open’ or ‘proprietary’."`
	DriverUpgrade string `yaml:"upgrade" default:"in-place" enum:"in-place,replace" doc:"How running nodes get another driver: ‘in-place’, or ‘replace’: from a [newly baked template](upgrade.md#drivers-toolkit-and-kernel)."`
}

// Verify says what gpu:verify runs.
type Verify struct {
	Images VerifyImages `yaml:"images" json:",omitzero" absent:"see below" doc:"Images that ‘gpu:verify’ computes in."`
}

// VerifyImages are those in which GPUs are verified; an empty one has a default, or its check is left out.
type VerifyImages struct {
	CUDA       string `yaml:"cuda" absent:"NVIDIA's ‘cuda-sample’" doc:"With ‘vectorAdd’ in ‘/cuda-samples’."`
	PyTorch    string `yaml:"pytorch" absent:"PyTorch's own (3 GB) for ‘-level=burn’, none for ‘full’" doc:"With ‘python3’ and PyTorch: [a smaller one](../internal/bench/image/README.md)."`
	TensorFlow string `yaml:"tensorflow" absent:"none: the check is skipped" doc:"With ‘python3’ and TensorFlow."`
}

// Servers returns the control-plane nodes.
func (s *Spec) Servers() []Node { return s.nodes(func(n Node) bool { return n.Role == Server }) }

// Agents returns the nodes that are not servers.
func (s *Spec) Agents() []Node { return s.nodes(func(n Node) bool { return n.Role == Agent }) }

// Node returns the node of that name.
func (s *Spec) Node(name string) (Node, bool) {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return s.Nodes[i], true
}

// Machine returns the machine of that name: a node, the NFS server, or another VM.
func (s *Spec) Machine(name string) (Node, bool) {
	all := s.Machines()
	i := slices.IndexFunc(all, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return all[i], true
}

// HasMachine reports whether a machine of the file has that name: a node, the NFS server, or another VM.
func (s *Spec) HasMachine(name string) bool {
	_, has := s.Machine(name)
	return has
}

// APIAddress is the address of the Kubernetes API: the VIP, or the only server's own address.
// It is not valid for a single server with DHCP and no VIP.
func (s *Spec) APIAddress() netip.Addr {
	if s.K3s.VIP.IsValid() {
		return s.K3s.VIP
	}
	return s.Servers()[0].Address.Addr()
}

// NodeAPI is where the nodes themselves reach the Kubernetes API, also without a network of pods.
func (s *Spec) NodeAPI() netip.AddrPort {
	if s.LocalAPI.IsValid() || len(s.Servers()) == 0 {
		return s.LocalAPI
	}
	return netip.AddrPortFrom(s.APIAddress(), 6443)
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

// HasProxmox reports whether the file names a Proxmox VE. If not, every machine is external or on
// Harvester, and cluster.Backend.Proxmox is nil.
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
