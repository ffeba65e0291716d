package nodes

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two machines of one template that was not sealed are told apart, in whatever order.
func TestTwinsAreMet(t *testing.T) {
	for _, tt := range []struct {
		a, b identity
		want string
	}{
		{identity{"1", "x"}, identity{"2", "y"}, ""}, {identity{"", ""}, identity{"", ""}, ""}, {identity{"1", ""}, identity{"", ""}, ""}, {identity{"", "x"}, identity{"1", ""}, ""},
		{identity{"1", "x"}, identity{"1", "y"}, "a and b have the same machine-id, 1: "}, {identity{"1", "x"}, identity{"2", "x"}, "a and b have the same SSH host key: "}, {identity{"1", "x"}, identity{"1", "x"}, "machine-id"},
	} {
		for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
			var all identities
			require.NoError(t, all.addNode(names[0], tt.a))
			require.NoError(t, all.addNode(names[0], tt.a), "it is itself")
			err := all.addNode(names[1], tt.b)
			assert.Equal(t, tt.want == "", err == nil, "%v", err)
			if err != nil {
				assert.Contains(t, err.Error(), tt.want)
			}
			assert.Equal(t, err == nil, all.isKnown(names[1]))
		}
	}
}

// The stored host key of a guest is returned; without one the result is empty, without an error.
func TestHostKeysThatAreKept(t *testing.T) {
	ns := &Nodes{sharedState: &sharedState{Config: Config{Hosts: ssh.NewKnownHosts(filepath.Join(t.TempDir(), "known_hosts"))}}}
	key, err := ns.storedHostKey(&guest{addr: "10.0.0.99:22"})
	require.NoError(t, err)
	assert.Empty(t, key)

	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	signer, err := ssh.ParseSigner(private)
	require.NoError(t, err)
	require.NoError(t, ns.Hosts.Store("10.0.0.99:22", signer.PublicKey()))
	key, err = ns.storedHostKey(&guest{addr: "10.0.0.99:22"})
	require.NoError(t, err)
	assert.Equal(t, ssh.AuthorizedKey(signer.PublicKey()), key)
}

// What a first boot says last is shown, else the stage that it is in.
func TestWhatAFirstBootDoes(t *testing.T) {
	for _, tt := range []struct {
		said   string
		err    error
		detail string
		want   string
	}{
		{"Unpacking x\n", nil, "config", "Unpacking x"}, {" \n", nil, "config", "config"}, {"", nil, "config", "config"}, {"half a li", errors.New("no answer"), "config", "config"},
		{"", nil, "DataSourceNoCloud [seed=/dev/sr0]", ""}, {strings.Repeat("é", 100), nil, "", strings.Repeat("é", maxShown/2)}, {strings.Repeat("x", maxShown+1), nil, "", strings.Repeat("x", maxShown)},
		{"x" + strings.Repeat("é", 100), nil, "", "x" + strings.Repeat("é", maxShown/2-1)},
	} {
		root := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
			_, _ = io.WriteString(cmd.Stdout, tt.said)
			return tt.err
		})
		assert.Equal(t, tt.want, bootDoes(t.Context(), root, cloudinit.Status{Detail: tt.detail}), "%+v", tt)
	}
}
