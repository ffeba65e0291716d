package kubeadm

import (
	"bytes"
	"context"
	_ "embed" // the script below
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

//go:embed start.sh
var startScript string

// ErrNotInstalled says that a machine lacks the wanted version: see [Install].
var ErrNotInstalled = errors.New("kubernetes is not installed in the wanted version")

// Create makes the machine the first server of a cluster, or starts its kubelet again. It returns once the control
// plane works.
func Create(ctx context.Context, r remote.Runner, c Cluster, n Node) error {
	config, err := c.Init(n)
	if err != nil {
		return fmt.Errorf("create a cluster: %w", err)
	}
	if err := start(ctx, r, c, n, beginning{"init", Server, config, config}); err != nil {
		return fmt.Errorf("create a cluster: %w", err)
	}
	return nil
}

// Join makes the machine an agent, or starts its kubelet again, for which the zero Token will do. It returns once the
// kubelet has a login of its own.
func Join(ctx context.Context, r remote.Runner, c Cluster, n Node, t Token) error {
	config, err := c.join(n, t)
	if err == nil {
		err = start(ctx, r, c, n, beginning{"join", Agent, config, nil})
	}
	if err != nil {
		return fmt.Errorf("join an agent: %w", err)
	}
	return nil
}

// JoinServer makes the machine a further server, with a token of [CreateServerToken], or brings one that is a server
// to what c and n say, for which the zero Token will do. It returns once etcd has the new member and the control plane
// works. Servers join one after the other: etcd takes one member at a time.
func JoinServer(ctx context.Context, r remote.Runner, c Cluster, n Node, t Token) error {
	config, err := c.join(n, t)
	if err != nil {
		return fmt.Errorf("join a server: %w", err)
	}
	agreed, err := documents(c.configuration())
	if err == nil {
		err = start(ctx, r, c, n, beginning{"join", Server, config, agreed})
	}
	if err != nil {
		return fmt.Errorf("join a server: %w", err)
	}
	return nil
}

// beginning is how a machine becomes a member.
type beginning struct {
	verb   string // of kubeadm
	role   Role
	config []byte // that kubeadm gets
	agreed []byte // that a server keeps of it; no secret
}

func start(ctx context.Context, r remote.Runner, c Cluster, n Node, b beginning) error {
	have, err := Observe(ctx, r)
	if err != nil {
		return err
	}
	var vip []byte
	if b.role == Server {
		if vip, err = c.kubeVIP(n); err != nil {
			return err
		}
	}
	switch {
	case have.Role != "" && have.Role != b.role:
		return fmt.Errorf("the machine is %s of a cluster and should be %s: recreate it", have.Role, b.role)
	case have.Version != c.Version:
		return fmt.Errorf("%w: it has %q and should have %s", ErrNotInstalled, have.Version, c.Version)
	case have.Joined && !have.Starting:
		if vip != nil && have.kubeVIP != string(bytes.TrimSpace(vip)) {
			if err := updateKubeVIP(ctx, r, vip); err != nil {
				return err
			}
		}
		converge.Progressf(ctx, "starting kubelet")
		return remote.Run(ctx, r, "systemctl", "enable", "--now", "kubelet")
	}
	node, err := yaml.Marshal(n.registration())
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{folder + "/node.yaml", node}, {folder + "/agreed.yaml", b.agreed}, {kubeVIPFile, vip}} {
		if file.data == nil {
			continue
		}
		if err := remote.WriteFile(ctx, r, file.name, file.data, 0o644); err != nil {
			return err
		}
	}
	converge.Progressf(ctx, "kubeadm %s", b.verb)
	err = r.Run(ctx, remote.Cmd{Args: []string{"sh", "-c", startScript, "start.sh", b.verb, string(b.role)}, Stdin: bytes.NewReader(b.config)})
	return checksFailed(b.verb, err)
}

// failedCheck is a line of kubeadm's checks (preflight/checks.go), which are in the middle of what it says.
var failedCheck = regexp.MustCompile(`(?m)^\s*\[ERROR ([\w./-]+)\]: (.*)$`)

// checksFailed names the checks that failed, if that is what an error is about.
func checksFailed(verb string, err error) error {
	var exit *remote.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	var failed []string
	for _, m := range failedCheck.FindAllStringSubmatch(exit.Stderr, -1) {
		failed = append(failed, m[1]+": "+m[2])
	}
	if failed == nil {
		return err
	}
	return &ChecksError{Verb: verb, Failed: failed, err: err}
}

// ChecksError says that a machine did not pass kubeadm's own checks. Waiting rarely helps.
type ChecksError struct {
	Verb   string   // init or join
	Failed []string // "NAME: what is wrong"
	err    error
}

// Error has all failed checks.
func (e *ChecksError) Error() string {
	return fmt.Sprintf("kubeadm %s refuses this machine: %s", e.Verb, strings.Join(e.Failed, "; "))
}

// Unwrap returns how the command ended.
func (e *ChecksError) Unwrap() error { return e.err }

// Claim marks a machine as a cluster's, before anything else is written there.
func Claim(ctx context.Context, r remote.Runner, cluster string) error {
	return remote.WriteFile(ctx, r, folder+"/cluster", []byte(cluster+"\n"), 0o644)
}
