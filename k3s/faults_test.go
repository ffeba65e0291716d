package k3s_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/faults"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
)

const nextVersion = "v1.37.1+k3s1"

// operation is a verb of this package, on a machine, by way of a runner.
type operation struct {
	before func(m *machine) // brings the machine to where the verb is called; nil: nothing is there
	do     func(ctx context.Context, r remote.Runner) error
	diff   func(s k3s.State) string // what is missing of what it brings about; nil: it only reads
	reads  bool                     // all that it runs is read
}

func operations(t *testing.T) map[string]operation {
	t.Helper()
	server, next := firstServer(t), firstServer(t)
	next.Version = nextVersion
	joining := firstServer(t)
	joining.URL, joining.Token = "https://10.0.0.10:6443", token
	changed := firstServer(t)
	changed.TLSSANs = append(changed.TLSSANs, "lab.example")
	changed.Disable, changed.Manifests = nil, map[string][]byte{k3s.KubeVIPManifest: []byte("other")}
	worker := agent()
	nextWorker := agent()
	nextWorker.Version = nextVersion

	installed := func(m *machine) { m.install() }
	running := func(m *machine) {
		m.install()
		require.NoError(m.t, k3s.StartServer(m.t.Context(), m, firstServer(m.t)))
		m.started("k3s")
	}
	joined := func(m *machine) {
		m.install()
		require.NoError(m.t, k3s.JoinAgent(m.t.Context(), m, k3s.Join{Token: token, Agent: agent()}))
		m.started("k3s-agent")
	}
	upgradable := func(from func(*machine)) func(*machine) {
		return func(m *machine) { from(m); m.publish(nextVersion) }
	}
	begun := func(diff func(k3s.State) string) func(k3s.State) string {
		return func(s k3s.State) string {
			return strings.TrimPrefix(diff(s), "state: activating → active") // K3s does the rest by itself
		}
	}
	serverDiff := func(want k3s.Server) func(k3s.State) string {
		return begun(func(s k3s.State) string { return want.Diff(s).String() })
	}
	agentDiff := func(want k3s.Agent) func(k3s.State) string {
		return begun(func(s k3s.State) string { return want.Diff(s).String() })
	}
	return map[string]operation{
		"install": {
			before: func(m *machine) { m.publish(version) },
			do: func(ctx context.Context, r remote.Runner) error {
				_, err := k3s.Install(ctx, r, k3s.Release{Version: version})
				return err
			},
			diff: func(s k3s.State) string { return strings.TrimPrefix(s.Version, version) },
		},
		"first server":  {installed, func(ctx context.Context, r remote.Runner) error { return k3s.StartServer(ctx, r, server) }, serverDiff(server), false},
		"other server":  {installed, func(ctx context.Context, r remote.Runner) error { return k3s.JoinServer(ctx, r, joining) }, serverDiff(joining), false},
		"other setting": {running, func(ctx context.Context, r remote.Runner) error { return k3s.StartServer(ctx, r, changed) }, serverDiff(changed), false},
		"agent": {installed, func(ctx context.Context, r remote.Runner) error {
			return k3s.JoinAgent(ctx, r, k3s.Join{Token: token, Agent: worker})
		}, agentDiff(worker), false},
		"join again": {joined, func(ctx context.Context, r remote.Runner) error { return k3s.Rejoin(ctx, r, token) }, agentDiff(worker), false},
		"other version": {upgradable(running), func(ctx context.Context, r remote.Runner) error {
			return k3s.UpgradeServer(ctx, r, k3s.Release{Version: nextVersion}, next)
		}, serverDiff(next), false},
		"other version of an agent": {upgradable(joined), func(ctx context.Context, r remote.Runner) error {
			return k3s.UpgradeAgent(ctx, r, k3s.Release{Version: nextVersion}, k3s.Join{Token: token, Agent: nextWorker})
		}, agentDiff(nextWorker), false},
		"look": {running, func(ctx context.Context, r remote.Runner) error { _, err := k3s.Observe(ctx, r); return err }, nil, true},
		"token": {func(m *machine) { m.write("var/lib/rancher/k3s/server/token", token.Reveal()+"\n") }, func(ctx context.Context, r remote.Runner) error {
			_, err := k3s.Token(ctx, r)
			return err
		}, nil, true},
		"agents' token": {func(m *machine) { m.write("var/lib/rancher/k3s/server/agent-token", token.Reveal()+"\n") }, func(ctx context.Context, r remote.Runner) error {
			_, err := k3s.AgentToken(ctx, r)
			return err
		}, nil, true},
		"kubeconfig": {func(m *machine) { m.write("etc/rancher/k3s/k3s.yaml", kubeconfig) }, func(ctx context.Context, r remote.Runner) error {
			_, err := k3s.Kubeconfig(ctx, r, "https://10.0.0.10:6443", "lab")
			return err
		}, nil, true},
	}
}

// TestEveryCommandFails: each command of each verb is lost, unheard, refused, and the
// last that the machine hears. The verb says so; called again, it brings about the rest.
func TestEveryCommandFails(t *testing.T) {
	for name, op := range operations(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := []faults.Kind{faults.Lost, faults.Unheard, faults.Refused, faults.Outage}
			if op.reads {
				kinds = append(kinds, faults.CutShort)
			}
			faults.Each(t, kinds, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				m := newMachine(t)
				op.before(m)
				use(t, m.trial(op, f.Runner(m)))
			})
		})
	}
}

// trial is an operation by way of a runner that fails.
func (m *machine) trial(op operation, r remote.Runner) faults.Case {
	c := faults.Case{Do: func() error { return op.do(m.t.Context(), r) }}
	if op.diff != nil {
		c.Done = func() string { return op.diff(m.observe()) }
	}
	return c
}

// TestEveryProgramFails: the same for what the scripts run, one program at a time, and
// for scripts that are killed there.
func TestEveryProgramFails(t *testing.T) {
	all := operations(t)
	for _, name := range []string{"install", "agent", "other setting", "other version"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := all[name]
			faults.Each(t, []faults.Kind{faults.Refused, faults.Outage}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				m := newMachine(t)
				op.before(m)
				first := f.Programs(t, "mv", "cp", "mkdir", "chmod", "sha256sum", "rm", "curl="+bin(t, "curl"))
				use(t, m.trial(op, remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
					// A sum that cannot be told is one that differs: the file is written.
					if !slices.Contains(cmd.Args, "observe.sh") {
						m.first = first
						defer func() { m.first = "" }()
					}
					return m.Run(ctx, cmd)
				})))
			})
		})
	}
}

func bin(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "bin", name))
	require.NoError(t, err)
	return path
}

// TestRemoveFails: what keeps K3s on the machine is said.
func TestRemoveFails(t *testing.T) {
	faults.Each(t, []faults.Kind{faults.Lost, faults.Refused}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
		r := f.Runner(remote.RunnerFunc(func(context.Context, remote.Cmd) error { return nil }))
		use(t, faults.Case{Do: func() error { return k3s.Remove(t.Context(), r) }})
	})
}
