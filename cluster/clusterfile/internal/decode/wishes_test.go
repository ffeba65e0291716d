package decode

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// sections are all sections of the file, by the names that wishes have for them.
func sections() map[string][]reflect.Type {
	out := map[string][]reflect.Type{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		switch {
		case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice:
			walk(t.Elem())
			return
		case !IsSection(t) || slices.Contains(out[sectionOf(t)], t):
			return
		}
		out[sectionOf(t)] = append(out[sectionOf(t)], t)
		for _, f := range Fields(t) {
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[spec.Spec]())
	return out
}

// Every wish can be met: its sections exist and do not know its keys, and nothing above it in the
// list takes them.
func TestWishesCanBeMet(t *testing.T) {
	all := sections()
	for _, w := range wishes {
		for in := range strings.FieldsSeq(w.in) {
			require.NotEmpty(t, all[in], "no section %q; there are %q", in, slices.Sorted(maps.Keys(all)))
			for key := range strings.FieldsSeq(w.keys) {
				assert.Equal(t, suggest.Normalize(key), key)
				met := false
				for _, section := range all[in] {
					known := slices.ContainsFunc(Keys(section), func(k string) bool { return suggest.Normalize(k) == key })
					got, ok := answer(section, yamlnode.Field{Name: key, Value: &yamlnode.Node{Kind: yamlnode.Text, Text: w.contains}})
					met = met || !known && ok && got == w
				}
				assert.True(t, met, "%s: %s", in, key)
			}
		}
		assert.NotContains(t, w.why, "; ", "the what of a problem is one clause")
		assert.NotEmpty(t, w.instead)
	}
}

// The answer depends on the value where one key has two meanings.
func TestWishByValue(t *testing.T) {
	for text, want := range map[string]string{
		"disks: {raw: {path: /dev/sdb}}":                         "only root@pam may give a VM a disk of its host",
		"disks: {data: {path: /data}}":                           `did you mean "mount"?`,
		"k3s: {kubelet-arg: ['provider-id=proxmox://home/211']}": "provider-id",
		"k3s: {kubelet-arg: [max-pods=200]}":                     "write k3s: {agent: …} for every node",
	} {
		c := NewChecker("f")
		c.DecodeTree(ReadTree(c, []byte(text)), &spec.Node{}, "cp1")
		require.Error(t, c.Err(), text)
		assert.Contains(t, c.Err().Error(), want)
	}
}
