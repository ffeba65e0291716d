package suggest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNearest(t *testing.T) {
	known := []string{"memory", "cores", "podCIDR", "node-label", "node-taint"}
	for in, want := range map[string]string{
		"memroy": "memory", "MEMORY": "memory", "pod-cidr": "podCIDR", "nodeLabels": "node-label", "node_tain": "node-taint", "core": "cores",
		"wholly": "", "x": "", "": "",
	} {
		assert.Equal(t, want, Nearest(in, known), in)
	}
	assert.Empty(t, Nearest("memory", nil))
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"straße", "strasse", 2},
	} {
		assert.Equal(t, test.want, distance(test.a, test.b), "%s, %s", test.a, test.b)
		assert.Equal(t, test.want, distance(test.b, test.a), "%s, %s", test.b, test.a)
	}
}
