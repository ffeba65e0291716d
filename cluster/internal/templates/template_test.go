package templates

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/stretchr/testify/assert"
)

// A template that is half-made is told, and whether it is merely switched off.
func TestHalfMadeTemplatesAreTold(t *testing.T) {
	const off = "it is off"
	for _, tt := range []struct {
		template, running, begun, wanted bool
		says                             string
	}{
		{false, false, true, true, off}, {false, false, false, true, "half-made"}, {false, true, true, true, "half-made"}, {false, true, false, false, "half-made"}, {true, false, true, true, ""}, {true, false, false, false, ""},
	} {
		d := templateState{vm: &proxmox.Summary{Template: tt.template, Running: tt.running}, hasSeed: tt.begun, wanted: tt.wanted}.diff().String()
		assert.Equal(t, tt.says == off, strings.Contains(d, off), "%+v: %s", tt, d)
		assert.Equal(t, tt.says == "", d == "", "%+v: %s", tt, d)
	}
	assert.Empty(t, templateState{}.diff())
	assert.NotEmpty(t, templateState{wanted: true}.diff())
}

// A machine that becomes a template is as large as the host's largest node, and no larger
// than that takes.
func TestHowLargeABakeIs(t *testing.T) {
	node := func(host string, cores int, memory spec.Size, external bool) spec.Node {
		return spec.Node{Name: "n", Host: host, Cores: cores, Memory: memory, External: external}
	}
	s := &spec.Spec{Nodes: []spec.Node{node("pve1", 2, 2*spec.GiB, false), node("pve1", 1, 3*spec.GiB, false), node("pve2", 64, 64*spec.GiB, false), node("pve1", 64, 64*spec.GiB, true), node("", 64, 64*spec.GiB, true)}}
	cores, memory := bakeShape(s, "pve1")
	assert.Equal(t, []any{2, 3 * spec.GiB}, []any{cores, memory})
	cores, memory = bakeShape(s, "pve2")
	assert.Equal(t, []any{bakeCores, bakeMemory}, []any{cores, memory})
	assert.Equal(t, 4*spec.GiB, bakeMemory)
}

// What a template holds is said, and read again.
func TestContentsAreReadAgain(t *testing.T) {
	for want, c := range map[string]Contents{
		"": {}, "x.img": {Image: "x.img"}, "K3s v1": {K3s: "v1"}, "K3s v1, driver 580, toolkit 1, on x.img": {Image: "x.img", K3s: "v1", Driver: "580", Toolkit: "1"},
	} {
		assert.Equal(t, want, c.String())
		if want != "" {
			said := readContents(fmt.Sprintf("- image: %s\n- K3s: no\nk3s: %s\n - driver: %s\ntoolkit: %s", c.Image, c.K3s, c.Driver, c.Toolkit))
			c.Packages = []string{}
			assert.Equal(t, c, said)
		}
	}
}
