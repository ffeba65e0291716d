package k3s_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/secret"
)

func TestRegistries(t *testing.T) {
	m, a := newMachine(t), agent()
	m.install()
	a.Registries = []k3s.Registry{
		{Name: "docker.io", Endpoints: []string{"https://mirror.lab.example:5000"}, Rewrite: map[string]string{"^library/(.*)": "proxy/$1"},
			Username: "pull", Password: secret.New("pa55"), CA: []byte("PEM")},
		{Name: "registry.lab.example", Insecure: true},
	}
	join := k3s.Join{Token: token, Agent: a}
	require.NoError(t, k3s.JoinAgent(t.Context(), m, join))
	m.started("k3s-agent")
	assert.Empty(t, a.Diff(m.observe()).String())
	got := m.read("etc/rancher/k3s/registries.yaml")
	assert.YAMLEq(t, `
mirrors:
  docker.io: {endpoint: ["https://mirror.lab.example:5000"], rewrite: {"^library/(.*)": "proxy/$1"}}
configs:
  mirror.lab.example:5000: # and not docker.io, which must not see the mirror's password
    auth: {username: pull, password: pa55}
    tls: {ca_file: /etc/rancher/k3s/registries.d/384fb9a44fab.pem}
  registry.lab.example: {tls: {insecure_skip_verify: true}}`, got)
	info, err := os.Stat(m.path("etc/rancher/k3s/registries.yaml"))
	require.NoError(t, err)
	assert.Equal(t, "-rw-------", info.Mode().String())
	assert.Equal(t, "PEM", m.read("etc/rancher/k3s/registries.d/384fb9a44fab.pem"))
	for _, run := range m.runs {
		assert.NotContains(t, run, "pa55")
	}

	// Another password is seen, and neither is shown.
	a.Registries[0].Password = secret.New("0ther")
	assert.Equal(t, "registries.yaml: other contents → as configured (needs a restart)", a.Diff(m.observe()).String())
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: a}))
	assert.Contains(t, m.read("units/calls"), "\nrestart --no-block k3s-agent\n")
	m.started("k3s-agent")
	assert.Empty(t, a.Diff(m.observe()).String())

	// No longer asked for, it is emptied.
	a.Registries = nil
	assert.Equal(t, "registries.yaml: present → (none) (needs a restart)", a.Diff(m.observe()).String())
	require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: a}))
	m.started("k3s-agent")
	assert.Empty(t, a.Diff(m.observe()).String())
	assert.NotContains(t, m.read("etc/rancher/k3s/registries.yaml"), "mirror")

	a.Registries = []k3s.Registry{{Name: "ghcr.io", Username: "half"}}
	assert.ErrorContains(t, a.Check(), "username and password go together")
}

// With the embedded mirror every registry is below mirrors, those with a login of their own by name.
func TestEmbeddedRegistry(t *testing.T) {
	m, a := newMachine(t), agent()
	m.install()
	a.Registries = []k3s.Registry{{Name: "ghcr.io", Username: "pull", Password: secret.New("pa55")}}
	a.EmbeddedRegistry = true
	start := func() {
		t.Helper()
		require.NoError(t, k3s.JoinAgent(t.Context(), m, k3s.Join{Token: token, Agent: a}))
		m.started("k3s-agent")
		assert.Empty(t, a.Diff(m.observe()).String())
	}
	start()
	assert.YAMLEq(t, `
mirrors: {"*": {}, ghcr.io: {}}
configs: {ghcr.io: {auth: {username: pull, password: pa55}}}`, m.read("etc/rancher/k3s/registries.yaml"))
	assert.NotContains(t, m.read("etc/rancher/k3s/config.yaml"), "embedded", "agents do not start with that key")

	a.EmbeddedRegistry = false
	assert.Equal(t, "registries.yaml: other contents → as configured (needs a restart)", a.Diff(m.observe()).String())
	start()
	a.Registries[0].Name, a.Registries[0].Endpoints = "*", []string{"https://mirror.lab.example"}
	start()
	a.EmbeddedRegistry = true
	assert.Equal(t, "running: as before the last change → as configured (needs a restart)", a.Diff(m.observe()).String(), "no file of it differs")
	start()

	srv := k3s.Server{Version: version}
	srv.EmbeddedRegistry = true
	b, err := srv.YAML()
	require.NoError(t, err)
	assert.Contains(t, string(b), "embedded-registry: true\n")
}
