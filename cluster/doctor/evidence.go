package doctor

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
	"github.com/cps-gpu/homelab/proxmox"
)

// Evidence is what was seen of a cluster.
type Evidence struct {
	Spec     *spec.Spec
	Time     time.Time // of the examination
	Proxmox  error     // why Proxmox could not be asked; nil if it was
	Hosts    []Host
	Machines []Machine // in the order of the file

	API     error // why the API could not be asked; nil if it was
	Nodes   []kube.Node
	Objects map[string][]unstructured.Unstructured // by kind: Pod, PersistentVolumeClaim, StorageClass, Namespace, Event
	Unread  map[string]error                       // kinds that could not be listed
	Fleet   []*fleet.State                         // each GitRepo of Fleet, Flux' GitRepository and Argo CD's Applications, with the bundles

	LastRun *FailedRun // the last run on this machine, if it failed
}

// Host is what Proxmox says of a host.
type Host struct {
	Name     string
	Online   bool
	Storages []proxmox.Storage // those that the file uses
	Err      error             // why its storages could not be listed
	Cards    []Card            // with a problem
}

// Card is a GPU of a host that cannot be used as it is.
type Card struct {
	Address, Model string
	Node           string // the node of the file that has it, "" for none
	Problem        string
}

// Machine is what was seen of one machine of the file.
type Machine struct {
	spec.Node
	VM    *proxmox.VM // nil if there is none, or if the machine is external
	Asked bool        // Proxmox was asked for the VM

	Err   error // why nobody could log in; nil if somebody did
	State MachineState
	// Kubernetes is what the machine has of it.
	Kubernetes    Kubernetes
	KubernetesErr error
	Driver        *nvidia.DriverState // nil if it was not asked
	DrvErr        error
	Certs         []Certificate // the first to end first
	MIG           *mig.State    // nil if the file divides none of its GPUs, or it was not asked
}

// Kubernetes is what a machine has of it.
type Kubernetes struct {
	Role    spec.Role // "": nothing is set up
	Version string    // of its program; "": there is none
	Running bool      // an agent that runs has joined
	Service string    // its unit
	Active  string    // systemd's word for that, e.g. activating
	Ended   string    // how its last run ended, if it does not run
	// Cause says in words what keeps it from running, if Line of its log shows that. Cure is what to do.
	Cause, Cure, Line string
}

// Certificate is a certificate of Kubernetes on a machine.
type Certificate struct {
	File      string // as the machine has it, without its folder
	Subject   string // its common name
	Authority bool
	Until     time.Time
}

// MachineState is how a machine is, seen from inside.
type MachineState struct {
	Disks  []Usage
	Inodes []Usage
	// ReadOnly are the mount points of file systems on disks that the kernel holds read-only.
	ReadOnly []string
	Failed   []string      // failed units
	Clock    string        // "yes" if it is synchronized; "" if unknown
	Ahead    time.Duration // by how much its clock is ahead of ours, at least
	Reboot   []string      // packages that wait for a restart
	Kernel   []string      // lines of the kernel's log that show trouble, the latest last
	// Unresolved are host names that a server has to resolve, and does not.
	Unresolved []string
}

// Usage is how full a file system is.
type Usage struct {
	At      string // mount point
	Percent int    // as df prints it
}

// FailedRun is a run of homelab that failed, and what its steps said.
type FailedRun struct {
	Ended  time.Time
	Failed []FailedStep
}

// FailedStep is a step that failed, and its error without secrets.
type FailedStep struct{ Name, Error string }
