package pins_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/chart/pins"
)

func Example() {
	rancher, _ := pins.Of("rancher")
	fmt.Println(rancher.Chart, rancher.Version)
	for _, c := range pins.Check("v1.37.1+k3s1", map[string]string{"rancher": rancher.Version}) {
		fmt.Println(c)
	}
	// Output:
	// rancher 2.15.2
	// rancher 2.15.2 works with Kubernetes from 1.34 to below 1.37, and this is v1.37.1+k3s1: rancher 2.15.2 takes Kubernetes from 1.34 to below 1.37
}

// k3s is what the examples install.
const k3s = "v1.36.5+k3s1"

func TestTable(t *testing.T) {
	all := pins.All()
	require.True(t, slices.IsSortedFunc(all, func(a, b pins.Pin) int { return strings.Compare(a.Name, b.Name) }))
	seen := map[string]bool{}
	for _, p := range all {
		t.Run(p.Name, func(t *testing.T) {
			assert.False(t, seen[p.Name], "twice")
			seen[p.Name] = true
			u, err := url.Parse(p.Repo)
			require.NoError(t, err)
			assert.Contains(t, []string{"https", "oci"}, u.Scheme)
			assert.NotEmpty(t, u.Host)
			_, err = semver.StrictNewVersion(strings.TrimPrefix(p.Version, "v"))
			require.NoError(t, err, "exact versions only")
			if p.Kubernetes != "" {
				_, err = semver.NewConstraint(p.Kubernetes)
				require.NoError(t, err)
			}
			assert.Regexp(t, `20\d\d-\d\d|20\d\d|as fleet`, p.Source, "when it was read")
			byChart, ok := pins.Of(p.Chart)
			assert.True(t, ok)
			assert.Equal(t, p, byChart)
		})
	}
	_, ok := pins.Of("nothing")
	assert.False(t, ok)
}

func TestOurPinsWorkTogether(t *testing.T) {
	parts := map[string]string{}
	for _, p := range pins.All() {
		parts[p.Name] = p.Version
	}
	delete(parts, "fleet") // Rancher brings it
	delete(parts, "fleet-crd")
	assert.Empty(t, pins.Check(k3s, parts))
	assert.Empty(t, pins.Check(k3s, map[string]string{"fleet": "", "fleet-crd": "", "jupyterhub": "", "longhorn": ""}))
	assert.Empty(t, pins.Check("", parts), "without a Kubernetes version only parts are compared")
}

func TestKnownBadPairs(t *testing.T) {
	type versions = map[string]string
	for _, c := range []struct {
		name, kubernetes string
		parts            versions
		problem, cure    string
	}{
		{"Kubernetes newer than Rancher", "v1.37.1+k3s1", versions{"rancher": ""}, "rancher 2.15.2 works with", "takes Kubernetes from 1.34 to below 1.37"},
		{"an older Rancher", k3s, versions{"rancher": "2.13.8"}, "rancher 2.13.8 works with Kubernetes from 1.32 to below 1.35", "take rancher 2.15 for this Kubernetes"},
		{"Kubernetes older than Rancher", "v1.33.5+k3s1", versions{"rancher": "2.15.0"}, "from 1.34", "take rancher 2.14 or 2.13 or 2.12"},
		{"Fleet beside Rancher", k3s, versions{"rancher": "", "fleet": "", "fleet-crd": ""}, "two controllers", "Rancher installs the one that it was tested with (2.15.2 brings Fleet 0.16)"},
		{"Fleet and its definitions apart", k3s, versions{"fleet": "0.16.2", "fleet-crd": "0.16.1"}, "the two charts are one release", "take fleet-crd 0.16.2"},
		{"Fleet on a newer Kubernetes", "v1.37.0+k3s1", versions{"fleet": "", "fleet-crd": ""}, "to below 1.37", ""},
		{"an older Fleet", k3s, versions{"fleet": "0.14.9", "fleet-crd": "0.14.9"}, "fleet 0.14.9 works with", "take fleet 0.16"},
		{"Longhorn 1.13 on 1.33", "v1.33.1+k3s1", versions{"longhorn": "1.13.0"}, "longhorn 1.13.0 works with Kubernetes from 1.34 on", "take longhorn 1.12 or 1.11 or 1.10"},
		{"the hub on an old Kubernetes", "v1.27.1+k3s1", versions{"jupyterhub": ""}, "from 1.28 on", ""},
		{"a range is not a pin", k3s, versions{"cert-manager": "^1.21"}, "is not an exact version of cert-manager", "e.g. v1.21.2"},
		{"no Kubernetes version", "stable", nil, "is not a version of Kubernetes", "v1.36.5+k3s1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused := pins.Refused(pins.Check(c.kubernetes, c.parts))
			require.NotEmpty(t, refused)
			all := fmt.Sprint(refused)
			assert.Contains(t, all, c.problem)
			assert.Contains(t, all, c.cure)
			for _, r := range refused {
				assert.NotEmpty(t, r.Cure)
			}
		})
	}
}

func TestUnknownIsAWarning(t *testing.T) {
	for _, c := range []struct{ part, version, says string }{
		{"rancher", "2.16.0", "it is not known what rancher 2.16.0 works with"},
		{"monitoring", "95.0.0", "it is not known what monitoring 95.0.0 works with"},
		{"ollama", "1.0.0", "nothing is known of the versions of ollama"},
		{"jupyterhub", "4.3.1", "has known security holes"},
	} {
		found := pins.Check(k3s, map[string]string{c.part: c.version})
		require.NotEmpty(t, found, c.part)
		assert.Contains(t, fmt.Sprint(found), c.says)
		assert.Empty(t, pins.Refused(found), c.part)
	}
	// Another patch of a known line is not news.
	assert.Empty(t, pins.Check(k3s, map[string]string{"rancher": "2.15.3"}))
	assert.Empty(t, pins.Check(k3s, map[string]string{"cert-manager": "1.21.1"}), "with and without v")
}

func FuzzCheck(f *testing.F) {
	f.Add(k3s, "2.15.2")
	f.Add("", "v0")
	f.Add("1.36", "1.2.3-rc.1+x")
	f.Fuzz(func(t *testing.T, kubernetes, version string) {
		for _, c := range pins.Check(kubernetes, map[string]string{"rancher": version, "longhorn": version, "fleet": ""}) {
			if c.Problem == "" || c.Cure == "" {
				t.Errorf("without words: %+v", c)
			}
		}
	})
}

// The digests that are known, and by name those that are not yet: none becomes empty
// unseen when a version changes.
func TestDigests(t *testing.T) {
	var unknown []string
	for _, p := range pins.All() {
		if p.Digest == "" {
			unknown = append(unknown, p.Name)
			continue
		}
		assert.Regexp(t, `^sha256:[0-9a-f]{64}$`, p.Digest, p.Name)
		assert.Contains(t, p.Source, "digest: ", p.Name)
		assert.Equal(t, p.Digest, pins.Digest(p.Chart, p.Repo+"/", p.Version))
		assert.Empty(t, pins.Digest(p.Chart, p.Repo, p.Version+"-other"))
		assert.Empty(t, pins.Digest(p.Chart, "https://charts.example.com", p.Version))
	}
	assert.Equal(t, []string{"cephfs", "cert-manager", "cilium", "fleet", "fleet-crd", "gpu-operator", "jupyterhub", "kueue", "longhorn", "metallb", "monitoring", "rancher", "scratch"}, unknown)
}
