package clusterfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// mirror is short for the keys that it fills, and each of them that the file has is as the file has it.
func TestMirror(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"k3s", "charts", "other"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o600))
	const file = "name: x\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}\npools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}\n"
	completed := func(more string) string {
		t.Helper()
		s, err := clusterfile.Parse(filepath.Join(dir, "cluster.yaml"), []byte(file+more+"\n"))
		require.NoError(t, err, more)
		s.Places, s.Warnings = nil, nil
		text, err := json.Marshal(s)
		require.NoError(t, err)
		return string(text)
	}
	const login = "username: u, password: env:P, ca: ca.pem, insecure: true"
	const own = `k3s: {airgap: other, registries: {"*": {endpoints: [https://own.lab]}}, agent: {disable-default-registry-endpoint: false, debug: true}}` + "\ncharts: {folder: other}"
	const short = "mirror: {registry: https://r.lab:5000"
	for _, c := range []struct{ short, long string }{
		{short + "}", `k3s: {registries: {"*": {endpoints: [https://r.lab:5000]}}, agent: {disable-default-registry-endpoint: true}}`},
		{short + ", folder: ., " + login + "}", `k3s: {airgap: k3s, registries: {"*": {endpoints: [https://r.lab:5000], ` + login + `}}, agent: {disable-default-registry-endpoint: true}}` +
			"\ncharts: {folder: charts, offline: true}"},
		{short + ", folder: .}\n" + own, own},
		{short + "}\nk3s: {registries: {docker.io: {username: u, password: env:P}}}",
			`k3s: {registries: {docker.io: {username: u, password: env:P}, "*": {endpoints: [https://r.lab:5000]}}, agent: {disable-default-registry-endpoint: true}}`},
	} {
		assert.JSONEq(t, completed(c.long), completed(c.short), c.short)
	}

	for more, want := range map[string]string{
		"mirror: {folder: .}":                                                "5:1: mirror has no registry; write registry: https://HOST:PORT",
		"mirror: {registry: r.lab:5000}":                                     "5:20: ",
		"mirror: {registry: https://r.lab, folder: none}":                    "", // images:mirror makes it
		"mirror: {registry: https://r.lab, username: u}":                     "5:1: the login of the mirror is incomplete; write both username and password",
		"mirror: {registry: https://r.lab, images: [rancher/fleet:v0.16.2]}": "",
		"mirror: {registry: https://r.lab, images: [a b]}":                   `5:44: "a b" is not an image`,
		"mirror: {registry: https://r.lab, ca: none.pem}":                    "none.pem does not exist",
		"mirror: {registry: https://r.lab}\ndistribution: kubeadm":           "5:1: distribution: kubeadm cannot do this yet: its files and images come from a mirror",
		"mirror: {registry: https://r.lab}\ndistribution: talos":             "write talos: {registries: {…}} instead",
		"mirror: {registry: https://r.lab}\nk3s: {version: v1.36.5+k3s1}":    "",
	} {
		_, err := clusterfile.Parse(filepath.Join(dir, "cluster.yaml"), []byte(file+more+"\n"))
		if want == "" {
			require.NoError(t, err, more)
			continue
		}
		require.ErrorContains(t, err, want, more)
	}

	warnings := func(registries string) []spec.Problem {
		t.Helper()
		s, err := clusterfile.Parse(filepath.Join(dir, "cluster.yaml"), []byte(file+short+"}\nk3s: {registries: {"+registries+"}}\n"))
		require.NoError(t, err)
		return s.Warnings
	}
	assert.Empty(t, warnings("docker.io: {endpoints: [https://r.lab:5000]}"))
	assert.Empty(t, warnings(`"r.lab:5000": {username: u, password: env:P}`), "the mirror's own login")
	warned := warnings("docker.io: {username: u, password: env:P}")
	require.Len(t, warned, 1)
	assert.Contains(t, warned[0].What, "nodes ask docker.io itself for its images, not the mirror")
}
