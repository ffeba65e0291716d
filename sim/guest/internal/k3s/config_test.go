package k3s

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

func TestConfigFilesAreMerged(t *testing.T) {
	d := disk.New()
	v := disk.ViewOf(d)
	v.Save(etc+"/config.yaml", "tls-san: [a]\nnode-label: x=1\nwrite-kubeconfig-mode: \"0600\"\ncluster-init: true\n", 0o600)
	v.Save(etc+"/config.yaml.d/2.yaml", "tls-san+: b\nnode-label: [y=2]\n", 0o600)
	v.Save(etc+"/config.yaml.d/ignored.txt", "tls-san: c\n", 0o600)
	c, err := readConfig(v, []string{"--disable=traefik", "--token", "t", "--debug"}, []string{"K3S_URL=https://x:6443", "K3S_TOKEN=other"})
	require.NoError(t, err)
	assert.Equal(t, config{"tls-san": {"a", "b"}, "node-label": {"y=2"}, "write-kubeconfig-mode": {"0600"}, "cluster-init": {"true"},
		"disable": {"traefik"}, "token": {"t"}, "debug": {"true"}, "server": {"https://x:6443"}}, c)
	v.Save(etc+"/config.yaml", "a: [\n", 0o600)
	_, err = readConfig(v, nil, nil)
	assert.ErrorContains(t, err, "failed to parse /etc/rancher/k3s/config.yaml")
}

func FuzzK3sConfig(f *testing.F) {
	f.Add("a: b\nc+: [d]\n", "K10a::b:c")
	f.Fuzz(func(t *testing.T, text, token string) {
		d := disk.New()
		disk.ViewOf(d).Save(etc+"/config.yaml", text, 0o600)
		if c, err := readConfig(disk.ViewOf(d), nil, nil); err == nil {
			_ = c.check("agent", func(string) {})
			c.critical()
		}
		parseToken(token)
	})
}
