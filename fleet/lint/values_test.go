package lint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Values are judged as Fleet takes them, all in one: what opens in one value may end in a
// later one, in the order of the keys as they are written out.
func TestLintTemplatesAreOfAllValues(t *testing.T) {
	const begin, end = `"${ if .ClusterName }"`, `"${ end }"`
	lint := func(a, z string) []string {
		return lintOne(t, Options{}, "a/fleet.yaml", "helm:\n  values:\n    z: "+z+"\n    a: "+a+"\n",
			"a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n", "a/templates/x.yaml", settings)
	}
	require.Empty(t, lint(begin, end))
	for _, bad := range [][2]string{{end, begin}, {begin, `""`}, {`""`, end}} {
		require.Contains(t, lint(bad[0], bad[1])[0], "[values-template]", bad)
	}
}

// A bundle is too big where its files are more than an object takes, and no sooner.
func TestLintBundleSizeIsTheMost(t *testing.T) {
	for more, findings := range map[int]int{0: 0, 4: 1} { // of a file that is not read a quarter is counted
		b := &lintBundle{BundleSource: &BundleSource{File: "fleet.yaml"}, files: []*lintFile{{name: "model.bin", size: 4*maxStored + more}}}
		l := &linter{rules: lintRuleIndex(), tree: &lintTree{}, bundles: []*lintBundle{b}}
		require.Equal(t, maxStored+more/4, l.storedSize(b))
		fileCheck{l}.checkLayout()
		require.Len(t, l.found, findings)
	}
}
