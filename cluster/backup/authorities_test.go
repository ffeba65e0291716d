package backup_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/secret"
)

// authority is a certificate with its key, PEM.
func authority(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))
}

// A backup of kubeadm's has authorities with their keys, which are those of the snapshot. What is wrong is said without
// any of it.
func TestInspectWithAuthorities(t *testing.T) {
	cert, key := authority(t)
	other, otherKey := authority(t)
	files := map[string]string{"sa.key": key, "sa.pub": "public"}
	for _, name := range []string{"ca", "front-proxy-ca", "etcd/ca"} {
		files[name+".crt"], files[name+".key"] = cert, key
	}
	const roots = "/registry/configmaps/kube-system/kube-root-ca.crt"
	for wrong, with := range map[string]map[string]string{
		"": {}, "the authority front-proxy-ca has no certificate with its key": {"front-proxy-ca.key": otherKey},
		"the authorities lack sa.key":                     {"sa.key": ""},
		"the authorities are not those of the snapshot":   {"ca.crt": other, "ca.key": otherKey},
		"the authority etcd/ca has no certificate with i": {"etcd/ca.crt": ""},
	} {
		have := maps.Clone(files)
		maps.Copy(have, with)
		text, err := json.Marshal(have)
		require.NoError(t, err)
		facts, err := backup.Inspect(t.Context(), bytes.NewReader(snapshot(t, change{roots, []byte("k8s\x00" + cert)})), "s-cp1-1", secret.New(string(text)))
		if wrong == "" {
			require.NoError(t, err)
			assert.Len(t, facts.Authority, 64)
			assert.Equal(t, 1, facts.Objects["configmaps"])
			continue
		}
		require.ErrorContains(t, err, wrong)
		assert.NotContains(t, err.Error(), "PRIVATE")
	}
}
