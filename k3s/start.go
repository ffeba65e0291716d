package k3s

import (
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"io/fs"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

//go:embed start.sh
var startScript string

// Join is what an agent needs to join a cluster.
type Join struct {
	Server string       // the cluster's URL, https://VIP:6443; may be in Agent.URL instead
	Token  secret.Value // from [CreateToken] on a server; the zero Value keeps the one that the machine has
	Agent  Agent
}

// StartServer makes the machine the first server of a cluster, or brings it back to what s
// says. K3s must be installed (see [Install]). It returns once the start is requested; [Wait]
// waits until K3s has started.
func StartServer(ctx context.Context, r remote.Runner, s Server) error {
	if s.URL != "" {
		return errors.New("start the first server: URL is set; use JoinServer for a server that joins " + s.URL)
	}
	return s.apply(ctx, r)
}

// JoinServer makes the machine a further server of the cluster at s.URL. One server joins at a
// time: etcd accepts a member only if the previous one is healthy. It returns once the start
// is requested.
func JoinServer(ctx context.Context, r remote.Runner, s Server) error {
	if s.URL == "" || s.Token.IsZero() {
		return errors.New("join a server: URL and Token must be set; without them it would start a cluster of its own")
	}
	return s.apply(ctx, r)
}

// JoinAgent makes the machine a worker of the cluster. It returns once the start is requested.
func JoinAgent(ctx context.Context, r remote.Runner, j Join) error {
	a := j.Agent
	switch {
	case a.URL == "":
		a.URL = j.Server
	case j.Server != "" && j.Server != a.URL:
		return fmt.Errorf("join an agent: Server is %s and Agent.URL is %s: write one of them", j.Server, a.URL)
	}
	p, err := a.plan()
	if err != nil {
		return fmt.Errorf("join an agent: %w", err)
	}
	return applyPlan(ctx, r, p, j.Token)
}

func (s Server) apply(ctx context.Context, r remote.Runner) error {
	p, err := s.plan()
	if err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	return applyPlan(ctx, r, p, s.Token)
}

// ErrRole says that a machine is a server and should be an agent, or the reverse. Only
// [Remove] allows to change that.
var ErrRole = errors.New("the machine has another role")

// ErrNotInstalled says that a machine lacks the binary of the wanted version.
var ErrNotInstalled = errors.New("k3s is not installed in the wanted version")

// applyPlan observes the machine, writes what differs, and starts K3s, or restarts it if its
// settings have changed.
func applyPlan(ctx context.Context, r remote.Runner, p plan, token secret.Value) error {
	have, err := Observe(ctx, r)
	if err != nil {
		return err
	}
	switch {
	case have.Role != RoleNone && have.Role != p.role:
		return fmt.Errorf("%w: it is %s and should be %s; drain it, delete its Node and remove K3s first", ErrRole, have.Role, p.role)
	case have.Version != p.version:
		return fmt.Errorf("%w: %s is %q and should be %s", ErrNotInstalled, binary, have.Version, p.version)
	case p.role == RoleAgent && token.IsZero() && have.TokenMode == "":
		return errors.New("join an agent: Token must be set, since the machine has none; create one on a server with CreateToken")
	}
	d := p.diff(have)
	if d.Empty() {
		return nil
	}
	if err := write(ctx, r, p, token, have); err != nil {
		return err
	}
	if have.Running() && have.Enabled && d.Effect() < converge.Restart {
		return nil // K3s reads the written files by itself, or at its next start
	}
	verb := "start"
	// Starting a unit that is starting already does nothing, even if it retries forever with a
	// wrong token or setting that is fixed now. It reads its token at its start only.
	stuck, _ := have.Diagnosis()
	newToken := p.role == RoleAgent && !token.IsZero()
	if d.Effect() == converge.Restart || have.Active == "activating" && (have.Applied != p.digest() || newToken) || stuck.Fatal {
		verb = "restart"
	}
	converge.Progressf(ctx, "%sing k3s %s", verb, p.role)
	args := []string{"sh", "-c", startScript, "start.sh", p.role.Unit(), verb, p.digest()}
	if newToken {
		args = append(args, "again")
	}
	err = remote.Run(ctx, r, args...)
	if err != nil {
		return fmt.Errorf("%s k3s %s: %w", verb, p.role, err)
	}
	return nil
}

// write writes the files that differ. The token comes first and the unit last, so that a
// machine that reboots in between does not start half-configured.
func write(ctx context.Context, r remote.Runner, p plan, token secret.Value, have State) error {
	type file struct {
		path    string
		content []byte
		perm    fs.FileMode
	}
	var files []file
	if !token.IsZero() {
		files = append(files, file{tokenFile, []byte(token.Reveal() + "\n"), 0o600})
	}
	for _, name := range sortedKeys(p.manifests) {
		if len(diffManifests(have.Manifests, map[string][]byte{name: p.manifests[name]})) > 0 {
			files = append(files, file{manifestsDir + "/" + name, p.manifests[name], 0o600})
		}
	}
	if len(p.registriesDiff(have)) > 0 {
		for _, name := range sortedKeys(p.files) {
			files = append(files, file{name, p.files[name], 0o644})
		}
		files = append(files, file{registriesFile, []byte(p.registriesText()), 0o600})
	}
	if len(p.s3Diff(have)) > 0 {
		files = append(files, file{s3File, []byte(p.s3.Reveal()), 0o600})
	}
	if len(diffKeys(have.Config, p.keys)) > 0 {
		for _, name := range sortedKeys(p.named) {
			files = append(files, file{name, p.named[name], 0o644})
		}
		files = append(files, file{configFile, p.config, 0o600})
	}
	if have.Unit != p.unit() {
		files = append(files, file{"/etc/systemd/system/" + p.role.Unit() + ".service", []byte(p.unit()), 0o644})
	}
	for _, f := range files {
		if err := remote.WriteFile(ctx, r, f.path, f.content, f.perm); err != nil {
			return fmt.Errorf("configure k3s %s: %w", p.role, err)
		}
	}
	return nil
}
