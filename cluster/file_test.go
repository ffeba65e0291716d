package cluster

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/clusterfile"
	"github.com/cps-gpu/homelab/spec"
)

var rewrite = flag.Bool("update", false, "rewrite golden files")

// fileOf is what a file says.
func fileOf(t *testing.T, text string) *spec.Spec {
	t.Helper()
	s, err := clusterfile.Parse("cluster.yaml", []byte(text))
	require.NoError(t, err)
	return s
}

// smallFile is a server and a worker in the lab.
const smallFile = `name: lab
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools:
  cp: {role: server, count: 1, addresses: [10.0.0.11]}
  wk: {count: 1, addresses: [10.0.0.21]}
`
