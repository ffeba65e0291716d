package suggest

import (
	"strings"
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
	assert.Equal(t, "cores", Nearest("corez", []string{"cores", "corey"}), "the first of two")
	assert.Empty(t, Nearest("xy", []string{"ab"}))
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"straße", "strasse", 2},
		{strings.Repeat("a", 64), strings.Repeat("a", 63) + "b", 1}, {strings.Repeat("a", 65), strings.Repeat("a", 64), 65}, {"abcd", "badc", 2},
	} {
		assert.Equal(t, test.want, distance(test.a, test.b), "%s, %s", test.a, test.b)
		assert.Equal(t, test.want, distance(test.b, test.a), "%s, %s", test.b, test.a)
	}
}

func TestLists(t *testing.T) {
	assert.Equal(t, `did you mean "cores"?`, Cure("core", []string{"memory", "cores"}))
	assert.Equal(t, "write memory or cores", Cure("x", []string{"memory", "cores"}))
	for n, want := range []string{"|", "a|a", "a or b|a, b", "a, b or c|a, b, c", "a, b, c or d|a, b, c, d", "a, b, c, d or e|a, b, c, d and 1 more"} {
		words := []string{"a", "b", "c", "d", "e"}[:n]
		assert.Equal(t, want, JoinOr(words)+"|"+FirstOf(words))
	}
}
