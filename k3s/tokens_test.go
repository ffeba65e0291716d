package k3s_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/remote"
)

// TestJoinTokens: a token lets agents in and no server, until it expires or is revoked. An agent
// that has joined starts again without it.
func TestJoinTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		first, _, _ := s.form(1)
		ctx := t.Context()
		id, token, err := k3s.CreateToken(ctx, first, time.Hour, "homelab: lab/wk1")
		require.NoError(t, err)
		assert.Contains(t, token.Reveal(), "::"+id+".")
		list, err := remote.Output(ctx, first, "k3s", "token", "list")
		require.NoError(t, err)
		assert.Regexp(t, id+` +1h +\S+ +authentication,signing +homelab: lab/wk1 `, string(list))

		m, r := s.boot("wk1", 21, k3s.RoleAgent)
		a := worker("wk1")
		diff := func(st k3s.State) string { return a.Diff(st).String() }
		require.NoError(t, k3s.JoinAgent(ctx, r, k3s.Join{Token: token, Agent: a}))
		s.up(r, k3s.RoleAgent, diff)

		_, cp := s.boot("cp2", 12, k3s.RoleServer)
		spec := s.server("cp2", 12)
		spec.URL, spec.Token = url, token
		require.NoError(t, k3s.JoinServer(ctx, cp, spec))
		_, err = k3s.Wait(ctx, cp, k3s.RoleServer)
		require.ErrorContains(t, err, "a bootstrap token cannot make a server")

		require.NoError(t, k3s.RevokeToken(ctx, first, id))
		require.NoError(t, k3s.RevokeToken(ctx, first, id), "the second time it is gone already")
		m.Kill()
		require.NoError(t, m.Boot(ctx))
		time.Sleep(2 * time.Minute)
		s.up(r, k3s.RoleAgent, diff)
		a.Labels = map[string]string{"pool": "cpu"}
		a.KubeletArgs = []string{"max-pods=50"}
		require.NoError(t, k3s.JoinAgent(ctx, r, k3s.Join{Agent: a}), "a machine that has joined needs no token")
		s.up(r, k3s.RoleAgent, diff)

		_, other := s.boot("wk2", 22, k3s.RoleAgent)
		b := worker("wk2")
		require.ErrorContains(t, k3s.JoinAgent(ctx, other, k3s.Join{Agent: b}), "Token must be set")
		require.NoError(t, k3s.JoinAgent(ctx, other, k3s.Join{Token: token, Agent: b}))
		_, err = k3s.Wait(ctx, other, k3s.RoleAgent)
		require.ErrorContains(t, err, "the server refuses the token: it is wrong, has expired or was deleted")
		_, brief, err := k3s.CreateToken(ctx, first, 2*time.Minute, "brief")
		require.NoError(t, err)
		time.Sleep(3 * time.Minute)
		require.NoError(t, k3s.JoinAgent(ctx, other, k3s.Join{Token: brief, Agent: b}))
		_, err = k3s.Wait(ctx, other, k3s.RoleAgent)
		require.ErrorContains(t, err, "has expired")
	})
}

// TestRejoin: an agent whose Node was deleted cannot join with the certificate of that Node.
func TestRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		first, _, kubeconfig := s.form(1)
		ctx := t.Context()
		_, token, err := k3s.CreateToken(ctx, first, time.Hour, "")
		require.NoError(t, err)
		_, r := s.boot("wk1", 21, k3s.RoleAgent)
		a := worker("wk1")
		require.NoError(t, k3s.JoinAgent(ctx, r, k3s.Join{Token: token, Agent: a}))
		s.up(r, k3s.RoleAgent, func(st k3s.State) string { return a.Diff(st).String() })
		c, err := kube.New(kube.Config{Kubeconfig: []byte(kubeconfig.Reveal()), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return s.network.Dial(ctx, network, addr)
		}})
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		require.NoError(t, c.DeleteNode(ctx, "wk1"))
		require.NoError(t, remote.Run(ctx, r, "systemctl", "restart", "--no-block", "k3s-agent"))
		_, err = k3s.Wait(ctx, r, k3s.RoleAgent)
		require.ErrorContains(t, err, "the certificate of a Node that was deleted or never registered")
		require.NoError(t, k3s.Rejoin(ctx, r, token))
		s.up(r, k3s.RoleAgent, func(st k3s.State) string { return a.Diff(st).String() })
		_, err = c.Node(ctx, "wk1")
		require.NoError(t, err)
	})
}

// TestAgentThatIsStoppedAndNotRestarted: a run that is cut off after start.sh has stopped an agent, and perhaps
// removed its certificate, leaves it down. The next run sees that, starts it, and it is the same member.
func TestAgentThatIsStoppedAndNotRestarted(t *testing.T) {
	const certificate = "/var/lib/rancher/k3s/agent/client-kubelet.crt"
	for _, certificateGone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			first, _, _ := s.form(1)
			ctx := t.Context()
			_, r := s.boot("wk1", 21, k3s.RoleAgent)
			a := worker("wk1")
			join := func() {
				_, token, err := k3s.CreateToken(ctx, first, time.Hour, "")
				require.NoError(t, err)
				require.NoError(t, k3s.JoinAgent(ctx, r, k3s.Join{Token: token, Agent: a}))
				s.up(r, k3s.RoleAgent, func(st k3s.State) string { return a.Diff(st).String() })
			}
			join()
			require.NoError(t, remote.Run(ctx, r, "systemctl", "stop", "k3s-agent"))
			if certificateGone {
				require.NoError(t, remote.Run(ctx, r, "rm", "-f", certificate, strings.TrimSuffix(certificate, ".crt")+".key"))
			}
			have, err := k3s.Observe(ctx, r)
			require.NoError(t, err)
			require.NotEmpty(t, a.Diff(have), "it is seen that it does not run")
			join()
		})
	}
}

// TestAgentThatEndsEarly: between its certificate and its Node, as recorded. With a bootstrap token it
// never joins by itself after that, with the servers' it does, and what ended it is said.
func TestAgentThatEndsEarly(t *testing.T) {
	rejected := map[string]bool{}
	for _, r := range recordings(t) {
		if r.file == "07-agent-ends-early.txt" {
			rejected[r.title] = strings.Contains(strings.Join(r.journal, "\n"), "Node authorization rejected")
		}
	}
	for of, bootstrap := range map[string]bool{"wk1 agent, bootstrap token, started again": true, "wk2 agent, the servers' token, started again": false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			first, token, _ := s.form(1)
			ctx := t.Context()
			var err error
			if bootstrap {
				_, token, err = k3s.CreateToken(ctx, first, time.Hour, "")
				require.NoError(t, err)
			}
			_, r := s.boot("wk1", 21, k3s.RoleAgent)
			a := worker("wk1")
			a.Extra = map[string]any{"default-runtime": "nvidia"}
			require.NoError(t, k3s.JoinAgent(ctx, r, k3s.Join{Token: token, Agent: a}))
			time.Sleep(time.Minute)
			have, err := k3s.Observe(ctx, r)
			require.NoError(t, err)
			assert.Equal(t, rejected[of], strings.Contains(strings.Join(have.Journal, "\n"), "Node authorization rejected"), of)
			_, err = k3s.Wait(ctx, r, k3s.RoleAgent)
			require.ErrorContains(t, err, "default-runtime is nvidia", of)
			a.Extra = nil
			require.NoError(t, k3s.JoinAgent(ctx, r, k3s.Join{Token: token, Agent: a}))
			s.up(r, k3s.RoleAgent, func(st k3s.State) string { return a.Diff(st).String() })
		})
	}
}

func TestTokensRefuse(t *testing.T) {
	for _, test := range []struct {
		name, prints, want string
		exit               int
		do                 func(remote.Runner) error
	}{
		{"endless", "", "K3s would never let a token of 0 expire", 0, func(r remote.Runner) error {
			_, _, err := k3s.CreateToken(t.Context(), r, 0, "")
			return err
		}},
		{"prints no token", "K10x::y\n", "printed none that begins with K10", 0, func(r remote.Runner) error {
			_, _, err := k3s.CreateToken(t.Context(), r, time.Minute, "")
			return err
		}},
		{"no server", "", "create a join token: ", 1, func(r remote.Runner) error {
			_, _, err := k3s.CreateToken(t.Context(), r, time.Minute, "")
			return err
		}},
		{"no ID", "", "is not the ID of one", 0, func(r remote.Runner) error { return k3s.RevokeToken(t.Context(), r, "--help") }},
		{"not revoked", "", "revoke the join token abcdef", 1, func(r remote.Runner) error { return k3s.RevokeToken(t.Context(), r, "abcdef") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.do(remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
				if c.Stdout != nil {
					_, _ = fmt.Fprint(c.Stdout, test.prints)
				}
				if test.exit != 0 {
					return &remote.ExitError{Args: c.Args, Code: test.exit, Stderr: "connection refused"}
				}
				return nil
			}))
			require.ErrorContains(t, err, test.want)
		})
	}
}
