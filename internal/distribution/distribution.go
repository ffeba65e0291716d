// Package distribution is what a cluster asks of the Kubernetes on its machines, whichever it is. What is the
// same everywhere is not asked: who may go down, what is drained, labels, GPUs as Kubernetes counts them.
package distribution

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/skew"
	"github.com/cps-gpu/homelab/secret"
)

// Distribution is one way to run Kubernetes on the machines of one cluster. It is safe for concurrent use.
// What it does can be repeated after an interruption at any point. None of its errors, events or arguments
// has a secret.
type Distribution interface {
	Facts() Facts
	// Compare returns -1, 0 or +1 as version a, which a kubelet reports, is older than, the same as, or newer than b.
	Compare(a, b string) int
	// CheckUpgrade says why a machine cannot go from a version to that of the file.
	CheckUpgrade(from string) error

	// Observe looks at a machine, in one round trip, and changes nothing.
	Observe(ctx context.Context, n spec.Node) (Member, error)
	// Claim marks a machine as this cluster's, before anything else is written there.
	Claim(ctx context.Context, n spec.Node) error
	// Restart makes the kubelet of a machine start again, and register if it was admitted again.
	Restart(ctx context.Context, n spec.Node, a Admission) error
	// Remove removes Kubernetes with its data from a machine, which the caller has drained.
	Remove(ctx context.Context, n spec.Node) error

	ControlPlane
	Keeper
	Files
}

// ControlPlane is what is asked of a server, by its name. An error that is [ErrNoCluster] says that this server was
// never in a cluster.
type ControlPlane interface {
	// Admit returns what n needs to join, valid for that long if it expires at all.
	Admit(ctx context.Context, server string, n spec.Node, valid time.Duration) (Admission, error)
	// Revoke makes it useless. It may have expired.
	Revoke(ctx context.Context, server string, a Admission) error
	// Kubeconfig is the administrator's, for the API at [APIURL].
	Kubeconfig(ctx context.Context, server string) (secret.Value, error)
	// Unwell says why the API server of a server does not work; "": it does.
	Unwell(ctx context.Context, server string) string
	// Snapshots lists those of etcd that a server has.
	Snapshots(ctx context.Context, server string) ([]Snapshot, error)
	// Save saves one whose name begins with prefix, and returns its name.
	Save(ctx context.Context, server, prefix string) (string, error)
}

// Member is the Kubernetes on one machine, as it was just seen. Its methods act on that machine.
type Member interface {
	State() State
	// Refuse says why neither waiting nor Start brings the machine to what the file says, and what to do.
	Refuse(ctx context.Context) error
	// CheckRanges says why a server that is recreated with the file's networks could not join again.
	CheckRanges() error
	// Foreign is the error for a machine that belongs to another cluster: [ErrForeign].
	Foreign() error
	// Diff says how it differs from the file. Restart: the pods of the node keep running.
	Diff(w Wish) converge.Diff
	// Install installs the program of the file's version where there is none.
	Install(ctx context.Context) error
	// Start writes what differs, and starts or restarts. It returns once that is requested, and for a server that creates
	// the cluster once it has.
	Start(ctx context.Context, w Wish, a Admission) error
	// Upgrade is Install and Start for a member of another version. Its node is drained.
	Upgrade(ctx context.Context, w Wish, a Admission) error

	// SaveSnapshot saves a snapshot of etcd whose name begins with prefix. FindSnapshot looks for one by its name.
	SaveSnapshot(ctx context.Context, prefix string) (SavedSnapshot, error)
	FindSnapshot(ctx context.Context, name string) (SavedSnapshot, error)
	// Restore makes etcd of a snapshot on a server that was stopped, which Start then starts as the only one. r reads
	// the snapshot. [ErrKey]: key is not that of the snapshot.
	Restore(ctx context.Context, w Wish, s SavedSnapshot, key secret.Value, r io.Reader) error
}

// State is what everybody may know of a Member.
type State struct {
	Role       spec.Role // ""; nothing is set up; a program alone may be another owner's
	Configured bool      // it is part of a cluster or created it, perhaps an earlier one; not: it only has settings
	Started    bool      // its start was requested with that: a Node of its name may be this machine's
	Admitted   bool      // it has what it needs to join again by itself
	Running    bool      // an agent that runs has joined
	Active     string    // systemd's word for its service, e.g. activating
	Fault      Fault     // what keeps it from running, if that is known
	Ended      string    // how its last run ended, if it does not run
	Waits      string    // all of that in a few words
	Stuck      error     // why it will never run by itself; may be [ErrStale] or [ErrName]
	Version    string    // as its kubelet reports it; "": there is no program
	Outdated   string    // what has another version than the file's, e.g. "Talos v1.13.6 → v1.13.7", which Upgrade brings to it; "": only Version, if that has
	API        string    // the URL where it looks for the cluster; "": it is the cluster's beginning, or not part of one
	Cluster    string    // the cluster that has marked it as its own; "": none
	Authority  string    // SHA-256 of its cluster's certificate authority; "": it never joined one
	ProviderID string    // it registers with; "": the distribution's own
	Restoring  string    // what a restore that was cut short began with
	Away       bool      // it does not answer now, as while it starts: nothing else is known
}

// Fault is a known reason why a member does not run.
type Fault struct {
	Cause string // in words
	Cure  string // what to do; "": one can only wait
	Line  string // of its log
}

// Wish is what a machine should be, besides what the file says.
type Wish struct {
	ProviderID string
	Labels     map[string]string // that its node has when it registers
	Joins      bool              // false: this server creates the cluster
}

// Admission lets one machine join. The zero value: it needs none, or has what it needs.
type Admission struct {
	ID    string // for Revoke; no secret
	Value secret.Value
}

// Snapshot is one of etcd.
type Snapshot struct {
	Name    string
	Created time.Time
}

// Facts are what one may know without asking a machine.
type Facts struct {
	Title   string // in texts, e.g. K3s
	Program string // what State.Version is a version of; "": Title
	Step    string // its steps are Step/NODE
	Server  string // the service of a server, as its administrator calls it
	Agent   string
	Images  string           // the command that lists its own images; "": a file of its release does
	Saves   string           // the folder of this computer where Save saves; "": it saves on the server
	Lacks   map[string]error // commands that cannot be done with it, and why
	Wipes   bool             // a restore takes from a server what its own disk has; false: pods keep running
}

// Service names what runs on machines of a role.
func (f Facts) Service(r spec.Role) string {
	if r == spec.Agent {
		return f.Agent
	}
	return f.Server
}

// StepID names the step that brings a node to what it should be.
func (f Facts) StepID(node string) string { return f.Step + "/" + node }

// What an error means, whatever it says.
var (
	ErrNoCluster = errors.New("no cluster was created on this machine yet")
	ErrForeign   = errors.New("it belongs to another cluster")
	ErrUnfit     = errors.New("the machine cannot become a member as it is")
	ErrVersion   = skew.ErrUnsupported
	ErrStale     = errors.New("it must be admitted again")
	ErrName      = errors.New("the cluster knows another machine of its name")
	ErrKey       = errors.New("the snapshot was encrypted with another key")
)

// Means returns an error that says what err says, and is meaning. nil stays nil.
func Means(err, meaning error) error {
	if err == nil {
		return nil
	}
	return meant{err, meaning}
}

type meant struct {
	error
	meaning error
}

func (m meant) Unwrap() []error { return []error{m.error, m.meaning} }

// APIPort is the port where servers, and the virtual address in front of them, serve Kubernetes.
const APIPort = "6443"

// APIURL is how members and users of a cluster reach its API.
func APIURL(s *spec.Spec) string {
	return "https://" + net.JoinHostPort(s.APIAddress().String(), APIPort)
}
