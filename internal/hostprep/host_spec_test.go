package hostprep

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
)

// A host gives away what its own machines get: the cards that are named, or every card as soon as one machine
// leaves the choice open. Machines of other hosts, and of other owners, take nothing.
func TestWhatAHostGivesAway(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func() bool { return random.IntN(2) == 0 }
	for range 500 {
		want := Spec{Owner: "the cluster x", Framebuffer: some()}
		file := &spec.Spec{Name: "x"}
		open := false
		for range random.IntN(4) {
			n := spec.Node{Host: "pve1", External: random.IntN(4) == 0}
			if random.IntN(3) == 0 {
				n.Host = "pve2"
			}
			mine := n.Host == "pve1" && !n.External
			if some() {
				n.GPUs.Count = 1 + random.IntN(2)
				for range random.IntN(3) {
					n.GPUs.PCI = append(n.GPUs.PCI, proxmox.PCIAddress{Bus: uint8(random.IntN(200)), Function: random.IntN(2)})
				}
				want.GPUs = want.GPUs || mine
				open = open || mine && len(n.GPUs.PCI) == 0
			}
			if !n.External && some() {
				n.Devices = []spec.Device{{PCI: "1ac1:089a"}}
				want.Devices = want.Devices || n.Host == "pve1"
			}
			if mine {
				for _, a := range n.GPUs.PCI {
					want.Cards = append(want.Cards, a.Whole())
				}
			}
			file.Nodes = append(file.Nodes, n)
		}
		if open {
			want.Cards = nil
		}
		p := &Prep{Spec: file, Framebuffer: want.Framebuffer}
		assert.Equal(t, want, p.hostSpec("pve1"), "%+v", file.Nodes)
	}
}

// A file of homelab's own, or a new one, has no backup; the lines of a change are those that differ, and together
// with the others they are the file.
func TestLinesOfAFileChange(t *testing.T) {
	assert.Equal(t, "/etc/modules"+backupSuffix, FileChange{Path: "/etc/modules"}.Backup())
	assert.Empty(t, FileChange{Path: "/etc/modules", Ours: true}.Backup())
	assert.Empty(t, FileChange{Path: "/etc/modules", New: true}.Backup())
	for _, x := range []struct {
		before, after string
		gone, come    []string
	}{
		{"", "a\nb\n", nil, []string{"a", "b"}},
		{"a\nb\n", "", []string{"a", "b"}, nil},
		{"a\nb\nc\n", "a\nx\nc\n", []string{"b"}, []string{"x"}},
		{"a\na\n", "a\na\na\n", nil, []string{"a"}},
		{"a\nb\n", "a\nb\n", nil, nil},
		{"a\nb", "b\n", []string{"a"}, nil},
	} {
		gone, come := FileChange{Before: x.before, After: x.after}.Lines()
		assert.Equal(t, x.gone, append([]string(nil), gone...), "%q to %q", x.before, x.after)
		assert.Equal(t, x.come, append([]string(nil), come...), "%q to %q", x.before, x.after)
	}
}
