package site_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/sim/lab/site"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func prepared(t *testing.T, dir string, needs labctl.Needs) labctl.Preparation {
	t.Helper()
	in, err := json.Marshal(needs)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, site.Prepare(t.Context(), dir, bytes.NewReader(in), &out, io.Discard))
	var p labctl.Preparation
	require.NoError(t, json.Unmarshal(out.Bytes(), &p))
	return p
}

// TestHardwareFitsTheNeeds: a preset where one does, otherwise a model that is written and lacks nothing.
func TestHardwareFitsTheNeeds(t *testing.T) {
	dir := t.TempDir()
	needs := labctl.Needs{Name: "mixed", Network: netip.MustParsePrefix("10.0.0.0/24"), Hosts: []labctl.HostNeeds{{Name: "pve1", Cores: 4, Cards: 1}}}
	assert.Equal(t, labctl.Preparation{Model: "one-gpu"}, prepared(t, dir, needs))

	needs.Hosts = append(needs.Hosts, labctl.HostNeeds{Name: "atlas", Cores: 4, Cards: 3, Models: []labctl.Model{{Asked: "L40S"}}})
	p := prepared(t, dir, needs)
	assert.Equal(t, filepath.Join(dir, "model-mixed.yaml"), p.Model)
	m, err := pvesim.LoadModel(p.Model)
	require.NoError(t, err)
	assert.Empty(t, needs.Missing(labmodel.HardwareOf(m)))
}

// TestRealGuestsNeedAnImage, which is the given one, or what this machine can make.
func TestRealGuestsNeedAnImage(t *testing.T) {
	needs := labctl.Needs{Name: "real", GuestsPlace: "cluster.yaml:3:15", Hosts: []labctl.HostNeeds{{Name: "pve1"}},
		Guests: labctl.Guests{Network: netip.MustParsePrefix("10.0.0.0/24"), Image: "image"}}
	here, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(here, "image"), prepared(t, t.TempDir(), needs).Guests.Image)

	needs.Guests.Image = ""
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	refused := prepared(t, t.TempDir(), needs)
	assert.Contains(t, refused.Refusal, "cluster.yaml:3:15: guests: qemu: no image can be made without ")
	assert.Equal(t, labctl.Preparation{Refusal: refused.Refusal}, refused)
}
