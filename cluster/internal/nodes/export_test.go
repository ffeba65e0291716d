package nodes

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// What exportfs -v of nfs-utils 2.6 prints, where some names are too long for its column.
func TestExportsOfARealServer(t *testing.T) {
	seen, err := parseExports("active\n@@ file\n/export 10.0.0.0/24(rw)\n@@ table\n" +
		"/export       \t10.0.0.0/24(sync,wdelay,hide,no_subtree_check,mountpoint=/export,sec=sys,rw,secure,no_root_squash,no_all_squash)\n" +
		"/export/datasets\n\t\t10.0.0.0/24(sync,wdelay,hide,no_subtree_check,sec=sys,ro,secure,root_squash,no_all_squash)\n" +
		"/export/datasets\n\t\t<world>(sync,wdelay,hide,no_subtree_check,sec=sys,ro,secure,root_squash,no_all_squash)\n")
	require.NoError(t, err)
	assert.Equal(t, exportsSeen{
		service: "active", file: "/export 10.0.0.0/24(rw)\n",
		table: []string{"/export 10.0.0.0/24", "/export/datasets 10.0.0.0/24", "/export/datasets <world>"},
	}, seen)

	want := exportsOf((&spec.NFS{Export: "/export", Shares: []spec.Share{{Export: "/export/datasets"}}, VM: &spec.NFSVM{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24")}}}))
	assert.Equal(t, []string{"/export 10.0.0.0/24"}, want.pairs(), "a folder in another one needs no line, and a network no host's bits")
	have := exportsSeen{service: "active", file: want.file(), table: want.pairs()}
	assert.Empty(t, want.diff(have))
	have.service, have.table = "inactive", []string{"/export <world>", "/home 10.0.0.9"}
	assert.Equal(t, "nfs-server: inactive → active; export: /export 10.0.0.0/24; export: /export <world> → (none)", want.diff(have).String())

	_, err = parseExports("sh: exportfs: not found")
	assert.Error(t, err)
}
