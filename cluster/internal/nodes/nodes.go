package nodes

import (
	"context"
	"net"
	"slices"
	"sync/atomic"

	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Config is what Nodes need to reach the machines.
type Config struct {
	Spec    *spec.Spec
	Proxmox *proxmox.Client // nil where every machine is external, or where Proxmox cannot be reached
	Seeds   *firstboot.Maker
	Signers []ssh.Signer // keys to log in with
	// MachineKeys are keys of single external machines in place of all others, by node.
	MachineKeys map[string]ssh.Signer
	TokenKey    ssh.Signer // an additional key, of the API token; may be nil
	Agent       string     // socket of an SSH agent with more keys, or empty
	// Dial reaches the machines; nil dials directly.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Via  string // what messages call this way
	// Hosts are the host keys of the machines that this cluster made: a cache.
	Hosts *ssh.KnownHosts
	// KnownHosts are the host keys of external machines. It is only read, and may be nil.
	KnownHosts *ssh.KnownHosts
	// HostKeys asks the source of machines that are no VMs of Proxmox VE for a machine's host keys; nil where there is none.
	HostKeys func(ctx context.Context, machine string) ([]ssh.PublicKey, error)
}

// Nodes are the machines of a cluster, seen from inside in one run. They are safe for concurrent use.
type Nodes struct {
	*sharedState
	guests map[string]*guest // by machine name
	memory atomic.Pointer[memory]
}

// sharedState is what all runs have in common.
type sharedState struct {
	Config
	connections map[string]*ssh.Client // by machine name
	// unheard is when none of several machines accepted a connection, in Unix nanoseconds.
	unheard atomic.Int64
	// ImagePort is where nodes that boot an image of their own answer, instead of SSH. It is set before the first question.
	ImagePort string
}

// New makes Nodes. It does not connect to any of them.
func New(c Config) *Nodes {
	s := &sharedState{Config: c, connections: map[string]*ssh.Client{}}
	for _, n := range c.Spec.Machines() {
		s.connections[n.Name] = ssh.New(s.sshConfig(n))
	}
	return s.ForRun()
}

// ForRun returns the same machines for another run, with the same connections.
func (s *sharedState) ForRun() *Nodes {
	ns := &Nodes{sharedState: s, guests: map[string]*guest{}}
	ns.Reset()
	for _, n := range s.Spec.Machines() {
		ns.guests[n.Name] = ns.newGuest(n)
	}
	return ns
}

// Reset forgets what an earlier Plan or Run has seen: everything may have changed since.
func (ns *Nodes) Reset() { ns.memory.Store(&memory{}) }

// Keys are all keys that this run may log in with, in the order in which they are offered.
func (ns *Nodes) Keys(ctx context.Context) ([]ssh.Signer, error) {
	keys := slices.Clone(ns.signers())
	if ns.Agent == "" {
		return keys, nil
	}
	more, err := ssh.AgentSigners(ctx, ns.Agent)
	return append(keys, more...), err
}

// Close ends the connections to the machines.
func (ns *Nodes) Close() {
	for _, c := range ns.connections {
		_ = c.Close()
	}
}

// FileServer reports whether a machine is the NFS server that this cluster makes.
func (ns *Nodes) FileServer(name string) bool {
	g := ns.guests[name]
	return g != nil && g.node.Role == spec.FileServer
}

// DropHostKey forgets the host key of a machine that is about to be recreated.
func (ns *Nodes) DropHostKey(name string) error { return ns.Hosts.Store(ns.guests[name].addr) }
