package k3s_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/secret"
)

const keysFile = "etc/rancher/k3s/config.yaml.d/homelab-s3.yaml"

func TestS3(t *testing.T) {
	m, s := newMachine(t), firstServer(t)
	m.install()
	s.S3 = &k3s.S3{Endpoint: "minio.lab.example:9000", Region: "vienna", Bucket: "etcd", Folder: "lab", Insecure: true,
		AccessKey: secret.New("AKIA0"), SecretKey: secret.New("5ec2e7")}
	require.NoError(t, k3s.StartServer(t.Context(), m, s))
	m.started("k3s")
	assert.Empty(t, s.Diff(m.observe()).String())

	config := m.read("etc/rancher/k3s/config.yaml")
	for _, line := range []string{"etcd-s3: true", "etcd-s3-endpoint: minio.lab.example:9000", "etcd-s3-region: vienna", "etcd-s3-bucket: etcd",
		"etcd-s3-folder: lab", "etcd-s3-insecure: true"} {
		assert.Contains(t, config, line+"\n")
	}
	assert.Empty(t, m.observe().ForeignFiles, "the file with the keys is ours")
	assert.YAMLEq(t, "{etcd-s3-access-key: AKIA0, etcd-s3-secret-key: 5ec2e7}", m.read(keysFile))
	info, err := os.Stat(m.path(keysFile))
	require.NoError(t, err)
	assert.Equal(t, "-rw-------", info.Mode().String())
	for _, run := range append(m.runs, config) {
		assert.NotContains(t, run, "5ec2e7")
		assert.NotContains(t, run, "AKIA0")
	}

	// Others may not read the keys.
	require.NoError(t, os.Chmod(m.path(keysFile), 0o644))
	assert.Equal(t, "s3 keys: /etc/rancher/k3s/config.yaml.d/homelab-s3.yaml with mode 0644 → "+
		"/etc/rancher/k3s/config.yaml.d/homelab-s3.yaml with mode 0600 (needs a restart)", s.Diff(m.observe()).String())

	// Another key is seen, and neither is shown; K3s reads it when it starts again.
	s.S3.SecretKey = secret.New("0ther")
	assert.Equal(t, "s3 keys: other keys → as configured (needs a restart)", s.Diff(m.observe()).String())
	require.NoError(t, k3s.StartServer(t.Context(), m, s))
	assert.Contains(t, m.read("units/calls"), "\nrestart --no-block k3s\n")
	m.started("k3s")
	assert.Empty(t, s.Diff(m.observe()).String())

	// No longer asked for, the keys leave the machine.
	s.S3 = nil
	assert.Contains(t, s.Diff(m.observe()).String(), "s3 keys: present → (none) (needs a restart)")
	require.NoError(t, k3s.StartServer(t.Context(), m, s))
	m.started("k3s")
	assert.Empty(t, s.Diff(m.observe()).String())
	assert.NotContains(t, m.read(keysFile), "0ther")
	assert.NotContains(t, m.read("etc/rancher/k3s/config.yaml"), "etcd-s3")
}

func TestS3Mistakes(t *testing.T) {
	s := firstServer(t)
	for want, s3 := range map[string]k3s.S3{
		"write the name of a bucket":      {AccessKey: secret.New("a"), SecretKey: secret.New("b")},
		"must both be set":                {Bucket: "b", AccessKey: secret.New("a")},
		`s3 endpoint "https://a.example"`: {Bucket: "b", Endpoint: "https://a.example", AccessKey: secret.New("a"), SecretKey: secret.New("b")},
		`s3 endpoint ":9000"`:             {Bucket: "b", Endpoint: ":9000", AccessKey: secret.New("a"), SecretKey: secret.New("b")},
	} {
		s.S3 = &s3
		assert.ErrorContains(t, s.Check(), want)
	}
	s.S3 = &k3s.S3{Bucket: "b", AccessKey: secret.New("a"), SecretKey: secret.New("b")}
	s.Extra = map[string]any{"etcd-s3-endpoint-ca": "/etc/ssl/minio.pem"}
	assert.NoError(t, s.Check())
	s.Extra = map[string]any{"etcd-s3-secret-key": "b"}
	assert.ErrorContains(t, s.Check(), "use the field S3")
}
