package labneeds_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/labneeds"
)

var update = flag.Bool("update", false, "rewrite testdata/needs.txt")

// What the lab has for each file of the fixtures: hosts, bridges, storages, cards and devices.
func TestNeeds(t *testing.T) {
	files, err := filepath.Glob("../../cluster/clusterfile/testdata/good/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all strings.Builder
	for _, file := range files {
		s, err := clusterfile.Load(file)
		require.NoError(t, err, file)
		needs, err := json.Marshal(labneeds.NeedsOf(s))
		require.NoError(t, err)
		all.WriteString("# " + filepath.Base(file) + "\n" + string(needs) + "\n")
	}
	const golden = "testdata/needs.txt"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), all.String(), "-update rewrites it")
}

// A file that leaves the host to homelab and names none has one; each storage is there that something is kept on.
func TestNeedsOfStorages(t *testing.T) {
	s := &spec.Spec{Nodes: []spec.Node{{Name: "a", Host: spec.AnyHost, OSDisk: spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: "fast"}}, Networks: []spec.Card{{Bridge: "vmbr1"}, {Bridge: "vmbr1", MTU: 9000}}}}}
	s.LabGuests.Image = "disk"
	n := labneeds.NeedsOf(s)
	require.Len(t, n.Hosts, 1)
	assert.Equal(t, "pve1", n.Hosts[0].Name)
	assert.Equal(t, "disk", n.Guests.Image)
	assert.Equal(t, map[string][]string{"fast": {"images"}}, n.Hosts[0].Storages)
	assert.Equal(t, map[string]int{"vmbr1": 9000}, n.Hosts[0].MTUs)

	s.Proxmox.Hosts = []spec.Host{{Name: "odin", TemplateStorage: "slow"}}
	n = labneeds.NeedsOf(s)
	assert.Equal(t, "odin", n.Hosts[0].Name)
	assert.Equal(t, map[string][]string{"fast": {"images"}, "slow": {"images"}}, n.Hosts[0].Storages)
}
