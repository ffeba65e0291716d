package distribution

import (
	"context"
	"io"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/secret"
)

// Keeper is what a backup, a restore and certificates need, besides what a [Member] does.
type Keeper interface {
	// Secrets are what a backup must have besides a snapshot, by name.
	Secrets(ctx context.Context, server string) (map[string]secret.Value, error)
	// Key decrypts snapshots of the cluster. A server that was stopped for a restore has it, too.
	Key(ctx context.Context, server string) (secret.Value, error)
	// Fetch writes a snapshot to w. Delete removes it from the server.
	Fetch(ctx context.Context, server string, s SavedSnapshot, w io.Writer) error
	Delete(ctx context.Context, server string, s SavedSnapshot) error
	// Stop stops a server for a restore, and lays what it started from aside. It does not start again before Finish,
	// not even with its machine. From then on, State.Restoring is what.
	Stop(ctx context.Context, server, what string) error
	Finish(ctx context.Context, server string) error
	// Readmit lets an agent use what a restored cluster has, and restarts it. by is a server that runs.
	Readmit(ctx context.Context, by string, n spec.Node) error

	// Certificates reads those on a machine, the first to end first. A machine that never joined a cluster has none.
	Certificates(ctx context.Context, node string) ([]Certificate, error)
	// Rotate makes new certificates on a machine, whose Kubernetes is away meanwhile. The authorities stay.
	Rotate(ctx context.Context, n spec.Node) error
}

// RestoredBy is what [Keeper.Stop] gets for a server that joins the one that was restored.
func RestoredBy(server string) string { return "the cluster of " + server }

// KeyChecker is a [Distribution] that restores only what was saved with the secrets that its machines have.
type KeyChecker interface {
	// CheckKey says before anything is stopped why a snapshot with that key cannot be restored.
	CheckKey(key secret.Value) error
}

// Authorities names, in what [Keeper.Secrets] returns, the files of the cluster's authorities with their keys, where
// nothing in a snapshot has them. They are the key of its snapshots, then.
const Authorities = "authorities"

// SavedSnapshot is a file with a snapshot of etcd.
type SavedSnapshot struct {
	Name   string
	Place  string // on the server
	Size   int64  // in bytes
	SHA256 string // in hexadecimal
}

// Certificate is a certificate of Kubernetes on a machine.
type Certificate struct {
	File      string // without its folder, unless that tells more than the name, as etcd/
	Subject   string // its common name
	Authority bool
	From      time.Time
	Until     time.Time
}
