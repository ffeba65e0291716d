package secrets_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"filippo.io/age"

	talos "github.com/siderolabs/talos/pkg/machinery/config"
	talossecrets "github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/secrets"
)

// readBack makes the file beside cluster.yaml again of what a backup has, as docs/talos.md says, and reads it.
func readBack(t *testing.T, text string) *secrets.Bundle {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	s := &secrets.Store{Folder: t.TempDir(), Cluster: "home", Token: secret.New("11111111-2222-3333-4444-555555555555"),
		Recipients: []string{key.Recipient().String()}, Identities: []age.Identity{key}}
	f, err := os.Create(s.Path())
	require.NoError(t, err)
	to, err := age.Encrypt(f, key.Recipient())
	require.NoError(t, err)
	_, err = to.Write([]byte(text + "\n---\ncluster: home\nrecipients: []\n"))
	require.NoError(t, errors.Join(err, to.Close(), f.Close()))
	b, err := s.Open(t.Context(), func(context.Context) (*secrets.Bundle, error) { return nil, secrets.ErrLost })
	require.NoError(t, err)
	return b
}

// A backup has the authorities with their keys, and secrets that are the cluster's or another's.
func TestAuthorities(t *testing.T) {
	mine, err := talossecrets.NewBundle(talossecrets.NewClock(), talos.TalosVersion1_13)
	require.NoError(t, err)
	other, err := talossecrets.NewBundle(talossecrets.NewClock(), talos.TalosVersion1_13)
	require.NoError(t, err)
	saved, err := secrets.Authorities(mine)
	require.NoError(t, err)
	files := map[string]string{}
	require.NoError(t, json.Unmarshal([]byte(saved.Reveal()), &files))
	for _, name := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
		_, err := tls.X509KeyPair([]byte(files[name+".crt"]), []byte(files[name+".key"]))
		require.NoError(t, err, name)
	}
	assert.Contains(t, files["sa.pub"], "PUBLIC KEY")
	assert.Contains(t, files["sa.key"], "PRIVATE KEY")

	require.NoError(t, secrets.Compare(mine, saved))
	require.ErrorIs(t, secrets.Compare(other, saved), secrets.ErrOthers)
	assert.Equal(t, mine.Secrets, readBack(t, files["secrets.yaml"]).Secrets)
	require.ErrorContains(t, secrets.Compare(mine, secret.New("{}")), "the backup lacks secrets.yaml")
	files["secrets.yaml"] = "Cluster: [1]"
	broken, err := json.Marshal(files)
	require.NoError(t, err)
	require.ErrorContains(t, secrets.Compare(mine, secret.New(string(broken))), "are not the secrets of a cluster")
}
