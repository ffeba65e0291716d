package kubeadm

import (
	"context"
	_ "embed" // the scripts below
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

var (
	//go:embed stop.sh
	stopScript string
	//go:embed restore.sh
	restoreScript string
	//go:embed leave.sh
	leaveScript string
)

// Where a restore keeps things on a server.
const (
	pkiFolder     = "/etc/kubernetes/pki"
	restoreFolder = "/var/lib/homelab/restore"
	asideFolder   = "/var/lib/homelab/before-restore" // what it started from before the last restore
)

// authorityFiles are what all servers of a cluster have in common (phases/copycerts/copycerts.go). Everything else in the
// folder is made of them.
func authorityFiles() []string {
	return []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key", "sa.key", "sa.pub"}
}

// Authorities reads the authorities of a cluster with their private keys from one of its servers, as one value. A
// server that [StopForRestore] has stopped has them, too.
func Authorities(ctx context.Context, r remote.Runner) (secret.Value, error) {
	there, err := remote.Exists(ctx, r, asideFolder+pkiFolder+"/ca.key")
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the authorities: %w", err)
	}
	restoring, err := remote.Exists(ctx, r, folder+"/restoring")
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the authorities: %w", err)
	}
	from := pkiFolder
	if there && restoring {
		from = asideFolder + pkiFolder
	}
	files := map[string]string{}
	for _, name := range authorityFiles() {
		data, err := remote.ReadFile(ctx, r, from+"/"+name)
		if errors.Is(err, fs.ErrNotExist) {
			return secret.Value{}, fmt.Errorf("read the authorities: %w: %w", ErrNoCluster, err)
		}
		if err != nil {
			return secret.Value{}, fmt.Errorf("read the authorities: %w", err)
		}
		files[name] = string(data)
	}
	text, err := json.Marshal(files)
	return secret.New(string(text)), err
}

// placeAuthorities writes what Authorities has read.
func placeAuthorities(ctx context.Context, r remote.Runner, of secret.Value) error {
	files := map[string]string{}
	if err := json.Unmarshal([]byte(of.Reveal()), &files); err != nil {
		return errors.New("the authorities cannot be read")
	}
	for _, name := range authorityFiles() {
		if files[name] == "" {
			return fmt.Errorf("the authorities lack %s", name)
		}
		perm := fs.FileMode(0o644)
		if strings.HasSuffix(name, ".key") {
			perm = 0o600
		}
		if err := remote.WriteFile(ctx, r, pkiFolder+"/"+name, []byte(files[name]), perm); err != nil {
			return err
		}
	}
	return nil
}

// StopForRestore stops Kubernetes on a server, and lays its etcd, certificates and logins aside. It does not start again
// before [FinishRestore] has been called, not even with the machine. what says in a few words what is being restored.
// It can be repeated; once leaves a server as it is that was stopped for the same. Nothing is stopped if neither the
// machine nor the image of etcd of that version of Kubernetes has etcdutl.
func StopForRestore(ctx context.Context, r remote.Runner, version, what string, once bool) error {
	converge.Progressf(ctx, "stopping Kubernetes")
	how := map[bool]string{true: "once", false: "anew"}[once]
	if err := remote.Run(ctx, r, "sh", "-c", stopScript, "stop.sh", strings.Join(strings.Fields(what), " "), how, version); err != nil {
		return fmt.Errorf("stop Kubernetes for a restore: %w", err)
	}
	return nil
}

// FinishRestore says that a server is up again after a restore.
func FinishRestore(ctx context.Context, r remote.Runner) error {
	if err := remote.Run(ctx, r, "rm", "-rf", restoreFolder); err != nil {
		return err
	}
	return remote.Run(ctx, r, "rm", "-f", folder+"/stopped", folder+"/restoring")
}

// Restore is what a server is restored from.
type Restore struct {
	Size        int64        // of the snapshot, in bytes
	SHA256      string       // of the snapshot
	Authorities secret.Value // of its cluster
}

// RestoreServer makes etcd of a snapshot on a server that [StopForRestore] has stopped. [Create] starts it then, as the
// only server: all others have to join it again.
func RestoreServer(ctx context.Context, r remote.Runner, c Cluster, n Node, from Restore, snapshot io.Reader) error {
	have, err := Observe(ctx, r)
	switch {
	case err != nil:
	case have.Restoring == "":
		err = errors.New("the server was not stopped for it: see StopForRestore")
	case have.Version != c.Version:
		err = fmt.Errorf("%w: it has %q and should have %s", ErrNotInstalled, have.Version, c.Version)
	default:
		err = restore(ctx, r, c, n, from, snapshot)
	}
	if err != nil {
		return fmt.Errorf("restore a server: %w", err)
	}
	return nil
}

func restore(ctx context.Context, r remote.Runner, c Cluster, n Node, from Restore, snapshot io.Reader) error {
	converge.Progressf(ctx, "sending the snapshot")
	if err := remote.CopyFile(ctx, r, restoreFolder+"/snapshot.db", snapshot, from.Size, 0o600); err != nil {
		return err
	}
	if err := placeAuthorities(ctx, r, from.Authorities); err != nil {
		return err
	}
	address := n.Address
	if !address.IsValid() { // of the only server
		address = c.Endpoint.Addr()
	}
	const peerPort = 2380
	peer := "https://" + netip.AddrPortFrom(address, peerPort).String()
	converge.Progressf(ctx, "etcdutl makes etcd of the snapshot")
	return remote.Run(ctx, r, "sh", "-c", restoreScript, "restore.sh", from.SHA256, n.Name, peer, c.Version)
}

// Rejoin is [Join] for an agent that may be of a cluster with another authority, which it leaves.
func Rejoin(ctx context.Context, r remote.Runner, c Cluster, n Node, t Token) error {
	if err := remote.Run(ctx, r, "sh", "-c", leaveScript, "leave.sh"); err != nil {
		return fmt.Errorf("leave the cluster as it was: %w", err)
	}
	return Join(ctx, r, c, n, t)
}

// DeleteNode deletes a Node by way of a server. One that is not there is fine.
func DeleteNode(ctx context.Context, r remote.Runner, name string) error {
	err := remote.Run(ctx, r, "kubectl", "--kubeconfig", adminFile, "--server", "https://127.0.0.1:6443", "--tls-server-name", "kubernetes",
		"delete", "node", name, "--ignore-not-found", "--wait=false")
	if err != nil {
		return fmt.Errorf("delete the Node of an earlier %s: %w", name, err)
	}
	return nil
}
