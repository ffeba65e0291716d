package k3snodes

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// TestLoginArgs: servers take Dex's tokens if groups have roles, beside the arguments of the file, which stay as they are.
func TestLoginArgs(t *testing.T) {
	ours := []any{"oidc-issuer-url=https://login.example.org", "oidc-client-id=kubectl", "oidc-username-claim=preferred_username", "oidc-username-prefix=login:",
		"oidc-groups-claim=groups", "oidc-groups-prefix=login:"}
	for _, c := range []struct {
		have any
		key  string
		want []any
	}{
		{nil, "kube-apiserver-arg", ours},
		{[]any{"v=3"}, "kube-apiserver-arg", append([]any{"v=3"}, ours...)},
		{"v=3", "kube-apiserver-arg", append([]any{"v=3"}, ours...)},
		{[]any{"v=3"}, "kube-apiserver-arg+", append([]any{"v=3"}, ours...)},
	} {
		s := &spec.Spec{K3s: spec.K3s{Version: "v1.36.5+k3s1", ServerConfig: map[string]any{}}}
		if c.have != nil {
			s.K3s.ServerConfig[c.key] = c.have
		}
		n := spec.Node{Name: "cp1", Address: netip.MustParsePrefix("10.0.0.11/24")}
		plain, err := New(s, nil).Server(n, distribution.Wish{})
		require.NoError(t, err)
		s.Platform.TLS, s.Platform.Login = &spec.TLS{}, &spec.Login{Hostname: "login.example.org"}
		same, err := New(s, nil).Server(n, distribution.Wish{})
		require.NoError(t, err)
		assert.Equal(t, plain, same, "without roles nothing changes")
		s.Platform.Login.ClusterRoles = map[string]string{"staff": "view"}
		srv, err := New(s, nil).Server(n, distribution.Wish{})
		require.NoError(t, err)
		require.NoError(t, srv.Check())
		assert.Equal(t, map[string]any{c.key: c.want}, srv.Extra)
		assert.Equal(t, c.have, s.K3s.ServerConfig[c.key])
		assert.Empty(t, srv.Files)

		path := filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(path, []byte("PEM"), 0o600))
		s.Platform.TLS = &spec.TLS{Source: spec.TLSCA, CACert: path}
		srv, err = New(s, nil).Server(n, distribution.Wish{})
		require.NoError(t, err)
		name := fmt.Sprintf("/etc/rancher/k3s/login.d/%x.pem", sha256.Sum256([]byte("PEM")))
		assert.Equal(t, map[string]any{c.key: append(slices.Clone(c.want), "oidc-ca-file="+name)}, srv.Extra)
		assert.Equal(t, map[string][]byte{name: []byte("PEM")}, srv.Files)
	}
}
