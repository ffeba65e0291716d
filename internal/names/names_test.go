package names_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
)

// TestOwned: what is named after a cluster is its own, and not another's whose name begins or ends like its name.
func TestOwned(t *testing.T) {
	a, others := &spec.Spec{Name: "a"}, []*spec.Spec{{Name: "a-b"}, {Name: "b-a"}, {Name: "b"}, {Name: ""}}
	digest := strings.Repeat("0123456789abcdef", 4)
	node, bake := names.NodeSeed(a, "cp1", digest, digest), names.Seed(a, names.Bake, digest)
	assert.Equal(t, "homelab_a_cp1_0123456789ab-01234567.iso", node)
	assert.Equal(t, "homelab_a_template_0123456789ab.iso", bake)
	assert.Equal(t, "a_cp1_disk0", names.DeviceMapping(a, "cp1", "disk0"))
	assert.Equal(t, "a-template-pve1-0123456789ab", names.Template(a, "pve1", digest))
	for _, file := range []string{node, bake, names.Image(a)} {
		assert.True(t, names.OwnsFile(a, file), file)
		assert.Equal(t, file == bake, names.OwnsBake(a, file), file)
		for _, o := range others {
			assert.False(t, names.OwnsFile(o, file) || names.OwnsBake(o, file), "%q: %s", o.Name, file)
		}
	}
	for _, file := range []string{"", "homelab_a", "homelab_a_template", "backup_a_template_1.iso", "homelab_a_template_1_2.iso"} {
		assert.False(t, names.OwnsFile(a, file) || names.OwnsBake(a, file), file)
	}
	assert.True(t, names.IsMark(a, "homelab-a_x"))
	for _, tag := range []string{"homelab-a", "homelab-a-b_x", "homelab-b_x", "a_x"} {
		assert.False(t, names.IsMark(a, tag), tag)
	}
	assert.Equal(t, "a", names.MappingCluster(names.MappingNote(a)))
	assert.Empty(t, names.OtherMappingCluster(a, names.MappingNote(a)))
	assert.Equal(t, "a", names.OtherMappingCluster(others[0], names.MappingNote(a)))
	for _, note := range []string{"", "a", "it was made by homelab for cluster a"} {
		assert.Empty(t, names.MappingCluster(note), note)
		assert.Empty(t, names.OtherMappingCluster(a, note), note)
	}
	assert.NotEqual(t, names.BakeMAC(a, "pve1"), names.BakeMAC(a, "pve2"))
	assert.NotEqual(t, names.BakeMAC(a, "pve1"), names.BakeMAC(others[0], "pve1"))
}

// TestImage: its name changes with the digest of the file, or with the URL if it has none.
func TestImage(t *testing.T) {
	for _, c := range []struct {
		image  spec.Image
		digest string
	}{
		{spec.Image{URL: "https://a.example/x.img", SHA256: strings.Repeat("a", 64)}, "aaaaaaaaaaaa"},
		{spec.Image{URL: "https://a.example/x.img", SHA512: strings.Repeat("b", 128)}, "bbbbbbbbbbbb"},
		{spec.Image{URL: "https://a.example/x.img"}, cloudinit.Digest([]byte("https://a.example/x.img"))[:12]},
	} {
		assert.Equal(t, "homelab_a_image_"+c.digest+".qcow2", names.Image(&spec.Spec{Name: "a", Image: c.image}))
	}
}

func TestMayBeName(t *testing.T) {
	s := &spec.Spec{Name: "a", Nodes: []spec.Node{{Name: "cp1"}, {Name: "nuc", External: true}}}
	for name, may := range map[string]bool{"cp1": true, "a-template-pve1-1": true, "nuc": false, "cp": false, "b-template-pve1-1": false, "a-templates": false} {
		assert.Equal(t, may, names.MayBeName(s, name), name)
	}
}
