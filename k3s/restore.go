package k3s

import (
	"context"
	_ "embed" // the scripts below
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

var (
	//go:embed stop.sh
	stopScript string
	//go:embed reset.sh
	resetScript string
)

// Where a restore keeps things.
const (
	restoringFile = "/etc/rancher/k3s/homelab.restoring" // says that one is under way on this server
	restoreDir    = "/var/lib/rancher/k3s/server/homelab-restore"

	// asideDir keeps what a server started from before the last restore.
	asideDir = "/var/lib/rancher/k3s/server/homelab-before-restore"
)

// StopForRestore stops K3s on a server, and lays its etcd, certificates and tokens aside
// (asideDir). K3s does not start again before [FinishRestore] has been called, not even with the
// machine. what says in a few words what is being restored. It can be repeated.
func StopForRestore(ctx context.Context, r remote.Runner, what string) error {
	converge.Progressf(ctx, "stopping k3s")
	if err := remote.Run(ctx, r, "sh", "-c", stopScript, "stop.sh", strings.Join(strings.Fields(what), " ")); err != nil {
		return fmt.Errorf("stop k3s for a restore: %w", err)
	}
	return nil
}

// FinishRestore says that a server is up again after a restore.
func FinishRestore(ctx context.Context, r remote.Runner) error {
	if err := remote.Run(ctx, r, "rm", "-rf", restoreDir); err != nil {
		return err
	}
	return remote.Run(ctx, r, "rm", "-f", restoringFile)
}

// TokenBeforeRestore is [Token] for a server that [StopForRestore] has stopped.
func TokenBeforeRestore(ctx context.Context, r remote.Runner) (secret.Value, error) {
	return readToken(ctx, r, asideDir+"/token")
}

// Restore is what a server is restored from.
type Restore struct {
	Name   string       // of the snapshot: one that ends with .zip is compressed
	Size   int64        // of the snapshot, in bytes
	SHA256 string       // of the snapshot
	Token  secret.Value // that the cluster had when the snapshot was taken
}

// resetLimit is how long K3s may take to make etcd of a snapshot; measured were six seconds for a small one.
const resetLimit = 10 * time.Minute

// ErrRestoreToken says that K3s cannot decrypt a snapshot with the token.
var ErrRestoreToken = errors.New("the token is not the one that the cluster had when the snapshot was taken")

// RestoreServer makes etcd of a snapshot on a server that [StopForRestore] has stopped, with
// the settings of s, which has no URL. StartServer starts it then, as the only server; all
// others have to join it again.
func RestoreServer(ctx context.Context, r remote.Runner, s Server, from Restore, snapshot io.Reader) error {
	if s.URL != "" || from.Token.IsZero() {
		return errors.New("restore a server: URL must be empty, and Token must be set")
	}
	if err := CheckSnapshotName(from.Name); err != nil { // it may come from somebody else's file
		return fmt.Errorf("restore a server: %w", err)
	}
	p, err := s.plan()
	if err != nil {
		return fmt.Errorf("restore a server: %w", err)
	}
	have, err := Observe(ctx, r)
	if err != nil {
		return err
	}
	switch {
	case have.Version != p.version:
		return fmt.Errorf("%w: %s is %q and should be %s", ErrNotInstalled, binary, have.Version, p.version)
	case have.Active == "active" || have.Active == "activating":
		return errors.New("restore a server: K3s runs on it; stop it with StopForRestore")
	}
	file := restoreDir + "/" + from.Name
	converge.Progressf(ctx, "sending the snapshot %s", from.Name)
	if err := remote.CopyFile(ctx, r, file, snapshot, from.Size, 0o600); err != nil {
		return fmt.Errorf("restore a server: %w", err)
	}
	if err := write(ctx, r, p, secret.Value{}, have); err != nil {
		return err
	}
	converge.Progressf(ctx, "k3s makes etcd of the snapshot %s", from.Name)
	err = r.Run(ctx, remote.Cmd{
		Args:  []string{"sh", "-c", resetScript, "reset.sh", file, from.SHA256, strconv.Itoa(int(resetLimit.Seconds()))},
		Stdin: strings.NewReader(password(from.Token) + "\n"),
	})
	var exit *remote.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	const timeLimit = 124 // of timeout(1)
	switch said := lastWords(exit.Stderr); {
	case exit.Code == timeLimit:
		return fmt.Errorf("restore a server: K3s made no etcd of the snapshot within %s: see whether its disk is slow, and repeat: %s", resetLimit, said)
	case strings.Contains(said, "encrypted with different token"):
		return fmt.Errorf("restore a server: %w: K3s says %s", ErrRestoreToken, said)
	case strings.Contains(said, "address already in use"):
		return fmt.Errorf("restore a server: another K3s still runs on it: end it, or wait until it ends, and repeat: %s", said)
	default:
		return fmt.Errorf("restore a server: K3s refused the snapshot (exit status %d): %s", exit.Code, said)
	}
}

// password is the secret part of a token, which is all that K3s needs of its own.
func password(token secret.Value) string {
	if _, creds, ok := strings.Cut(token.Reveal(), "::"); ok {
		_, own, _ := strings.Cut(creds, ":")
		return own
	}
	return token.Reveal()
}

// lastWords is the last line of K3s' output that is a problem, or else the last line.
func lastWords(output string) string {
	all := lines(output)
	for i := len(all) - 1; i >= 0; i-- {
		if strings.Contains(all[i], "level=fatal") || strings.Contains(all[i], "level=error") {
			return all[i]
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return all[len(all)-1]
}

// UseToken makes an agent use the token of a restored cluster, and restarts K3s there, which
// may have been of another authority. Pods keep running.
func UseToken(ctx context.Context, r remote.Runner, token secret.Value) error {
	if err := remote.WriteFile(ctx, r, tokenFile, []byte(token.Reveal()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the agent's token: %w", err)
	}
	converge.Progressf(ctx, "restarting k3s agent")
	return remote.Run(ctx, r, "systemctl", "restart", "--no-block", RoleAgent.Unit())
}
