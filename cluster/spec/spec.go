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
	Name     string // of the cluster; also the tag of its VMs and the prefix of its images, ISOs and mappings
	File     string // the file's path, as given to Load
	Dir      string // the folder of File; relative paths in the file are already joined to it
	Proxmox  Proxmox
	Image    Image
	Network  Network // the default; every Node has its own, already merged
	Nodes    []Node  // servers first, then agents, each in the order of the file
	Access   Access
	Guest    Guest
	K3s      K3s
	NVIDIA   NVIDIA
	Platform Platform
	// LabGuests configures the VMs of the embedded lab; the zero value means simulated ones.
	LabGuests LabGuests `json:",omitzero"`
	Patience  int       `json:",omitempty"` // multiplies every time limit of a step; 0 is 1

	Warnings []Problem // allowed, but probably not intended

	// Places are the file:line:column of values that an error may name when they are used: the
	// address of a "node NAME", "vip", "pool RANGE", "k3s.version" and "proxmox.KEY".
	Places map[string]string `json:"-"`

	TemplateAsked bool              `json:"-"` // the file says image.templateStorage
	Placed        map[string]string `json:"-"` // why a node is on its host, by name, of those that placement.Place put there
}

// Proxmox says where the Proxmox VE API is and how to log in.
type Proxmox struct {
	Endpoint    string    // Lab, or https://host:port without a path
	TokenID     string    // user@realm!name; empty for the lab, which has its own
	TokenSecret SecretRef // zero for the lab
	User        string    // user@realm, for options that no token may set; may be empty
	Password    SecretRef // of User

	CAFile      string // PEM file of the authority of the API's certificate; empty: the system's roots
	Fingerprint string // SHA-256 of the certificate, upper-case hex with colons; empty: not pinned
	Insecure    bool   // do not check the certificate at all

	Host  string // the host of nodes that name none
	Hosts []Host // every host with a node and every declared one, sorted by name
}

// LabGuests configures the VMs of the embedded lab.
type LabGuests struct {
	Kubernetes bool // a real control plane for simulated VMs

	QEMU     bool   // real ones; the other fields apply to these
	Internet bool   // they reach what this machine reaches
	Image    string // folder with the files of clusterfile.LabImageFiles; empty: the lab builds one
	Place    string // file:line:column of lab.guests, for checks that depend on the machine
}

// Host is one Proxmox VE host, called node in Proxmox's API.
type Host struct {
	Name    string
	SSH     string          // user@address:port for host:prep; empty: root@<name>:22
	Cores   int             // declared capacity, zero: unknown
	Memory  Size            // declared capacity, zero: unknown
	GPUs    int             // declared capacity, zero: unknown
	Storage map[string]Size // declared capacity by storage, may be empty

	// TemplateStorage is the storage of the template's disk on this host:
	// image.templateStorage, or else that of its first node's boot disk, so that clones are
	// linked.
	TemplateStorage string
}

// Image says what the nodes' template is made from.
type Image struct {
	URL     string // of a cloud image, qcow2 whatever its suffix
	SHA256  string // lower-case hex; this or SHA512 is set if URL is, except in the lab
	SHA512  string
	Release string // the distribution's code name, e.g. noble

	Distribution string // ubuntu-24.04 or debian-13

	Template string // an existing template by VMID or name; then URL is empty and nothing is baked

	ImageStorage    string // for the downloaded image; content "import"
	TemplateStorage string // for the template's disk, content "images"; see Spec.TemplateStorage for one host
	SeedStorage     string // for the seed ISOs; content "iso"
	SecureBoot      bool   // Microsoft's and the distribution's keys enrolled in the EFI variables
}

// Network is the network of one node, or the default of all.
type Network struct {
	Bridge  string
	VLAN    int // 0: untagged
	MTU     int // 0: the bridge's
	Queues  int // 0 in the default; of a node: its cores
	Prefix  netip.Prefix
	Gateway netip.Addr
	DNS     []netip.Addr
	Search  []string
}

// Access says who may log in to the nodes and how to reach them.
type Access struct {
	User         string   // the admin user on each node
	PublicKeys   []string // authorized_keys lines
	PrivateKey   string   // path; if empty, and without Agent, the key is derived from the API token
	Agent        bool     // use the agent at SSH_AUTH_SOCK
	Jump         string   // user@host:port, or empty
	Proxy        string   // socks5://host:port, or empty
	PasswordHash SecretRef
}

// Guest has what every node gets at first boot, in addition to our own files and packages.
type Guest struct {
	Packages      []string
	Sysctls       map[string]string
	KernelModules []string
	Files         []File
	APTMirror     string
	APTProxy      string
	HTTPSProxy    string `json:",omitempty"` // for what nodes fetch by https: packages, keys, K3s; empty: none
	Timezone      string
}

// File is one file on a node.
type File struct {
	Path    string
	Content string
	Owner   string // user:group
	Perm    uint32 // e.g. 0o644
}

// K3s configures Kubernetes.
type K3s struct {
	Version      string // exact, e.g. v1.36.5+k3s1
	VIP          netip.Addr
	VIPInterface string // empty: the one with the node's address
	TLSSANs      []string
	PodCIDR      netip.Prefix
	ServiceCIDR  netip.Prefix

	ClusterDomain  string
	Disable        []string // K3s components, e.g. traefik
	FlannelBackend string   // vxlan, host-gw, wireguard-native, none

	ServerConfig map[string]any // further keys of a server's config.yaml, checked against K3s' own
	AgentConfig  map[string]any // further keys of every node's config.yaml

	SecretsEncryption bool
	Snapshots         Snapshots
	Registries        []Registry // the contents of registries.yaml, in the order of the file
	AirgapDir         string     // folder with k3s, sha256sum-<arch>.txt and the image tarball; empty: the internet
	Upgrade           Upgrade
}

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
	GPUPods string        // what happens to pods that still hold GPUs of a node after Wait
	Wait    time.Duration // how long such pods have to end
}

// Snapshots says when and where etcd's snapshots are stored.
type Snapshots struct {
	Schedule  string // cron, five fields
	Retention int
	S3        *S3 // nil: only on the servers

	Recipients []string // public keys of age: who can decrypt backups
}

// S3 is a bucket for etcd snapshots.
type S3 struct {
	Endpoint, Region, Bucket, Folder string // Endpoint is host or host:port
	Insecure                         bool   // http instead of https
	AccessKey, SecretKey             SecretRef
}

// Registry is how nodes reach one image registry.
type Registry struct {
	Name      string            // e.g. docker.io
	Endpoints []string          // mirrors, asked in order; may be empty
	Rewrite   map[string]string // image name patterns and their replacements
	Username  string
	Password  SecretRef
	CAFile    string // local path; empty: the system's roots
	Insecure  bool
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
	Stack      string // StackDevicePlugin, StackOperator or StackNone
	DriverMode string // DriverPrebuilt, DriverDKMS, DriverOperator or DriverNone
	Branch     string // "auto", "lts", "production", or pinned, e.g. 580-server
	Flavour    string // "auto", "open" or "proprietary"
	// DriverUpgrade says how a node that runs gets another driver or toolkit: DriverInPlace or
	// DriverReplace.
	DriverUpgrade string
	Sharing       Sharing
	Values        map[string]any // raw overrides for the chosen stack's values; may be nil
	Images        VerifyImages   `json:",omitzero"` // of gpu:verify
}

// VerifyImages are those in which GPUs are verified; an empty one has a default, or its check is left out.
type VerifyImages struct {
	CUDA       string // with NVIDIA's vectorAdd in /cuda-samples
	PyTorch    string
	TensorFlow string
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
	Strategy string // SharingNone, SharingTimeSlicing, SharingMPS or SharingMIG
	Replicas int    // for time-slicing and MPS
	Layouts  []MIGLayout
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
	GPUs     []int          // indices; empty: all
	Profiles map[string]int // e.g. 3g.20gb: 2; empty: MIG off
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
