package cluster

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/internal/harvestervms"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// Backend is how to reach everything that a cluster consists of.
type Backend struct {
	Proxmox   *proxmox.Client   // nil if no machine is a VM of Proxmox VE
	Harvester *harvester.Client // nil if no machine is a VM of Harvester
	Signers   []ssh.Signer      // keys to log in to the guests with
	// MachineKeys are offered to single external machines in place of all others, by node.
	MachineKeys map[string]ssh.Signer
	// TokenKey is the LoginKey of the API token, which is offered after Signers; may be nil.
	TokenKey ssh.Signer
	Agent    string // socket of an SSH agent with further keys, or empty
	// Dial reaches the guests and the Kubernetes API; nil dials directly. For a jump host, use the
	// Dial of its ssh.Client; it also goes to nodes with a Jump of their own.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Via  string // what messages call this way, e.g. "jump host bastion"
	// ProxyURL goes into the kubeconfig that is written for kubectl; may be empty.
	ProxyURL string
	// KnownHosts contains host keys of external machines, in addition to those in Dir, e.g. the
	// user's own ~/.ssh/known_hosts. It is only read. May be nil.
	KnownHosts *ssh.KnownHosts
	// Dir holds the files of this cluster on this machine: kubeconfig and known_hosts. Both can be
	// lost, since homelab recreates them from the running machines.
	Dir string
	// Charts finds charts; the file's own settings are merged into it.
	Charts helm.Source
	// GitDial reaches the Git repository of fleet.repo; nil dials directly.
	GitDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// CheckDNS says before anything changes why the credentials of the file's zones are not taken;
	// nil asks nobody.
	CheckDNS func(context.Context, *spec.DNS) error
	// CheckProvider says before anything changes why programs could not ask the provider of the login;
	// nil asks nobody.
	CheckProvider func(context.Context, *spec.Platform) error
	// KubeWrap wraps the transport of Kubernetes requests; may be nil.
	KubeWrap func(http.RoundTripper) http.RoundTripper
	// ToolkitDigests are the SHA-256 of the packages of NVIDIA's container toolkit that mirror.folder may have, by file;
	// nil: those of nvidia.ToolkitVersion.
	ToolkitDigests map[string]string
	// Distribution is the Kubernetes of files that say distribution: talos: a distribution.Maker, which only a module of
	// this repository can be.
	Distribution any
	Token        secret.Value // the secret of the API token, which Distribution may derive keys from
}

// ErrNoProxmox answers a question about hosts if there are none because every machine of the
// cluster is external or a VM of Harvester.
var ErrNoProxmox = errors.New("the file has no proxmox section, so there are no hosts of Proxmox VE to ask")

// Cluster binds a Spec to a Backend. It is safe for concurrent use.
type Cluster struct {
	Backend // what New was given: a later change has no effect
	site    *site
}

// flow is the order of Up.
type flow struct{ machines }

// machines are the steps of each node: its VM, its driver, and how it is replaced.
type machines struct{ holdings }

// holdings are the steps about all that the cluster has on the hosts, and needs there or no longer.
type holdings struct{ cards }

// cards are the steps about which node has which GPU.
type cards struct{ *site }

// site is what all steps share: the file, and the ways to the hosts, the machines and Kubernetes.
type site struct {
	spec *spec.Spec
	Backend

	nodes     *nodes.Nodes
	seeds     *firstboot.Maker
	templates *templates.Templates
	hosts     *ssh.KnownHosts
	warnings  *warnings
	members   *members.Members

	parts  *parts.Steps  // the steps of the platform
	baking chan struct{} // has room for the one step that bakes a template for a machine that is recreated
}

// New binds spec to b. It changes nothing, and neither does a Plan: only Runs and Keep write to
// b.Dir. The spec is one that [Load] or [Complete] has made; New refuses another with what they find.
func New(want *spec.Spec, b Backend) (*Cluster, error) {
	if !want.Completed() {
		return nil, errors.New("cluster: the spec has no defaults yet and is not checked: call cluster.Complete first")
	}
	if err := Complete(want); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if err := b.CheckDistribution(want); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(want.Nodes, spec.Node.Unplaced) {
		return nil, errors.New("cluster: some nodes have no host yet: call placement.Place first")
	}
	c := &site{
		spec: want, Backend: b, baking: make(chan struct{}, 1), warnings: &warnings{},
		hosts: ssh.NewKnownHosts(filepath.Join(b.Dir, "known_hosts")),
	}
	c.seeds = firstboot.New(want, b.Proxmox, b.Signers, b.TokenKey)
	c.nodes = nodes.New(nodes.Config{
		Spec: want, Proxmox: b.Proxmox, Seeds: c.seeds, Signers: b.Signers, MachineKeys: b.MachineKeys, TokenKey: b.TokenKey, Agent: b.Agent,
		Dial: b.Dial, Via: b.Via, Hosts: c.hosts, KnownHosts: b.KnownHosts, HostKeys: harvestervms.HostKeys(b.Harvester),
	})
	if i := c.imager(); i != nil {
		c.seeds.FirstBoot, c.nodes.ImagePort = i.FirstBoot, i.Port()
	}
	c.members = members.New(members.Config{
		Spec: want, Nodes: c.nodes, Distribution: c.distribution(), VMs: b.Proxmox != nil, Hosts: c.hosts, Kubeconfig: c.kubeconfig(), ProxyURL: b.ProxyURL, KubeWrap: b.KubeWrap,
	})
	c.parts = parts.New(parts.Config{
		Spec: want, Make: sync.OnceValues(func() ([]addon.Recipe, error) { return platform.Pieces(want, true) }),
		Charts: b.Charts, Kube: c.members.Kube, Work: c.members.Work, GitDial: b.GitDial, CheckDNS: b.CheckDNS, CheckProvider: b.CheckProvider,
	})
	c.templates = &templates.Templates{Spec: want, Proxmox: b.Proxmox, Seeds: c.seeds, Distribution: c.distribution(), Toolkit: c.toolkit(), Allot: c.allot}
	c.hosts.DeferWrites() // a plan writes nothing
	if b.Proxmox != nil {
		b.Proxmox.VMs.RegisterNames(names.Tag(want), func(name string) bool { return names.MayBeName(want, name) })
		b.Proxmox.SetGrantCommands(proxmox.MissingGrantCommands(hostprep.RolePrefix(want), b.Proxmox.TokenID(),
			slices.Concat(hostprep.Grants(want, b.Proxmox.Version()), hostprep.ReadGrants(want))))
	}
	return &Cluster{b, c}, nil
}

// flow returns the steps of one graph, or of one question: they remember what they have seen
// until the graph's Plan or Run ends.
func (c *site) flow() *flow {
	s := *c
	s.nodes = c.nodes.ForRun()
	s.members = c.members.ForRun(s.nodes, s.distribution())
	s.parts = c.parts.ForRun(s.members.Kube, s.members.Work)
	return &flow{machines{holdings{cards{&s}}}}
}

// source is where the machines come from, for a question that no run asks.
func (c *site) source() source { return (&machines{holdings{cards{c}}}).source() }

// Spec returns the wanted state of the cluster.
func (c *Cluster) Spec() *spec.Spec { return c.site.spec }

// KubeconfigPath is where Up writes the administrator's kubeconfig.
func (c *Cluster) KubeconfigPath() string { return c.site.kubeconfig() }

func (c *site) kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// SaveHostKeys writes the machines' host keys that were learned to known_hosts in Dir. Up does so at
// its end. After other Runs, Keep saves asking again.
func (c *Cluster) SaveHostKeys() error { return c.site.hosts.Flush() }

// Close ends the connections to the guests.
func (c *Cluster) Close() {
	c.site.nodes.Close()
}

// Kube returns the client for the cluster's API.
func (c *Cluster) Kube(ctx context.Context) (*kube.Client, error) {
	return c.site.flow().members.Kube(ctx)
}

// LoginKey is the key to log in to the machines of a cluster, derived from the secret of its API
// token. It is the same on every machine that has the token, and need not be stored. The owner
// of a token is root in the guests anyway, through their agents. The key is HKDF-SHA256 of the
// secret (RFC 5869), for this purpose and this cluster alone, so it reveals nothing about the
// secret.
func LoginKey(token secret.Value, cluster string) (ssh.Signer, error) {
	if token.IsZero() {
		return nil, errors.New("login key: the API token has no secret")
	}
	seed, err := hkdf.Key(sha256.New, []byte(token.Reveal()), nil, "homelab login key, version 1, cluster "+cluster, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("login key: %w", err)
	}
	return ssh.SeedSigner(seed)
}

// K3sURL is the URL of the checksums of the file's release of K3s, "" if its files come from a
// folder.
func K3sURL(s *spec.Spec) string { return distributionOn(s, nil).URL() }

// Lease coordinates runs that change this cluster, no matter on which machine they run. It is a
// VM without disks in Proxmox or, if all machines are external, a file on the first server of
// the file, /var/lib/homelab-NAME.lease.
func (c *Cluster) Lease() converge.LeaseStore {
	return c.site.source().lease()
}
