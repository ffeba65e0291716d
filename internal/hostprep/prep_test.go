package hostprep_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const oneGPU = `
name: lab1
proxmox: {endpoint: "https://192.0.2.1:8006", token: homelab@pve!cluster, secret: "file:token", host: pve1}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
defaults: {storage: vmdata}
pools:
  server: {role: server, count: 1, addresses: [10.0.0.11]}
  gpu: {count: 1, addresses: [10.0.0.21], gpus: 1}
`

// One run makes a host ready but for the reboot, the next changes nothing, and the reboot is all that is left.
func TestPrep(t *testing.T) {
	in(t, "a fresh host", func(t *testing.T) {
		m := fresh(nil)
		m.Roles, m.Users, m.Tokens, m.ACLs = nil, nil, nil, nil
		_, r := root(t, m)
		file, err := clusterfile.Parse("cluster.yaml", []byte(oneGPU))
		require.NoError(t, err)
		kept := 0
		prep := func() *hostprep.Prep {
			return &hostprep.Prep{Spec: file, Hosts: []string{"pve1"}, Root: map[string]remote.Runner{"pve1": r},
				KeepToken: func(v secret.Value) error { kept++; assert.False(t, v.IsZero()); return nil }}
		}
		plan := func(p *hostprep.Prep) (out []string) {
			host, err := p.PlanHost(t.Context(), "pve1")
			require.NoError(t, err)
			shared, err := p.PlanAccess(t.Context())
			require.NoError(t, err)
			out = append(ids(host.Changes), ids(shared.Changes)...)
			if len(shared.Token) > 0 {
				out = append(out, "token")
			}
			if len(host.Reboot) > 0 {
				out = append(out, "reboot")
			}
			return out
		}
		run := func(p *hostprep.Prep) (out []string) {
			report, err := p.Graph().Run(t.Context(), nil)
			require.NoError(t, err)
			for _, s := range report.Steps {
				if s.Kind == converge.Changed {
					out = append(out, s.Step)
				}
			}
			return out
		}
		assert.Equal(t, []string{"boot", "modules", "cards", "initramfs", "role", "user", "grants", "token", "reboot"}, plan(prep()))
		p := prep()
		assert.ElementsMatch(t, []string{"boot/pve1", "modules/pve1", "cards/pve1", "initramfs/pve1", "role", "user", "token", "grants"}, run(p))
		assert.Equal(t, []string{"reboot"}, plan(p), "what was seen before the changes is forgotten")
		assert.Equal(t, []string{"reboot"}, plan(prep()))
		assert.Empty(t, run(prep()))
		assert.Equal(t, 1, kept)

		again := prep()
		again.NewToken = true
		assert.Equal(t, []string{"grants", "token", "reboot"}, plan(again), "the grants of a token go with it")
		assert.ElementsMatch(t, []string{"token", "grants"}, run(again))
		assert.Equal(t, []string{"reboot"}, plan(again), "one token in a run")
		assert.Equal(t, 2, kept)

		last := prep()
		last.Reboot, last.KeepToken = true, nil
		assert.Equal(t, []string{"reboot/pve1"}, run(last))
		assert.Empty(t, plan(last))
		assert.Equal(t, "/var/lib/homelab-hosts.lease on pve1", last.Leases()[0].String())

		last.Hosts, last.Root = []string{"pve2"}, map[string]remote.Runner{"pve2": r}
		_, err = last.PlanHost(t.Context(), "pve2")
		assert.ErrorContains(t, err, "host pve2: the machine's host name is pve1")
	})
}

// A script grants what the file needs, each with its reason, and nothing to the user where that is root.
func TestRoleScript(t *testing.T) {
	file, err := clusterfile.Parse("cluster.yaml", []byte(oneGPU))
	require.NoError(t, err)
	v := proxmox.Version{Version: "9.0", Release: "9.0"}
	for token, has := range map[string]bool{"homelab@pve!cluster": true, "root@pam!cluster": false} {
		script := hostprep.RoleScript(file, v, token)
		for _, g := range append(hostprep.Grants(file, v), hostprep.ReadGrants(file)...) {
			assert.Contains(t, script, strings.Join(g.Privileges, ", ")+": "+g.Reason)
			assert.Contains(t, script, "# On "+g.Path+map[bool]string{true: " and the paths below:", false: " alone:"}[g.Propagate])
		}
		assert.Equal(t, has, strings.Contains(script, "Use both only for this"), token)
	}
	file.Nodes[0].External, file.Nodes[1].External = true, true
	assert.Equal(t, 2, strings.Count(hostprep.RoleScript(file, v, "a@pve!b"), "\n"))
}

// An answer that is cut off, broken or missing is an error: nothing is planned from a part.
func TestHalfAnAnswer(t *testing.T) {
	in(t, "access", func(t *testing.T) {
		_, r := root(t, pvesim.OneGPU())
		var whole bytes.Buffer
		changed := func(change func([]byte) []byte) (hostprep.AccessState, error) {
			return access().ObserveAccess(t.Context(), remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
				_, err := cmd.Stdout.Write(change(whole.Bytes()))
				return err
			}))
		}
		_, err := access().ObserveAccess(t.Context(), remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
			cmd.Stdout = io.MultiWriter(cmd.Stdout, &whole)
			return r.Run(ctx, cmd)
		}))
		require.NoError(t, err)
		_, err = changed(bytes.Clone)
		require.NoError(t, err)
		text := whole.String()
		for i := 0; i < len(strings.TrimSpace(text)); i += 1 + len(text)/200 {
			_, err := changed(func(b []byte) []byte { return b[:i] })
			require.Error(t, err, "%d of %d bytes", i, len(text))
		}
		for at, c := range text {
			if c == '[' || c == '{' && (at == 0 || text[at-1] == '\n') {
				_, err := changed(func(b []byte) []byte { return append(append(bytes.Clone(b[:at]), 'x'), b[at:]...) })
				require.ErrorContains(t, err, "look at storages and users", "at %d", at)
			}
		}
		refused := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error { return &remote.ExitError{Args: cmd.Args, Code: 1} })
		_, err = access().ObserveAccess(t.Context(), refused)
		require.ErrorContains(t, err, "look at storages and users")
		_, err = access().MakeToken(t.Context(), refused, hostprep.AccessState{})
		require.Error(t, err)
		for said, want := range map[string]string{"x": "is not valid JSON", "{}": "made without a secret"} {
			_, err = access().MakeToken(t.Context(), remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
				_, err := io.WriteString(cmd.Stdout, said)
				return err
			}), hostprep.AccessState{})
			require.ErrorContains(t, err, want)
		}
	})
}
