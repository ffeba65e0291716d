package platform_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/chart"
)

func ExamplePins() {
	pins := platform.Pins()
	fmt.Println(pins["rancher"].Chart, pins["rancher"].Version)
	for _, c := range pins.Check("v1.37.1+k3s1", map[string]string{"rancher": ""}) {
		fmt.Println(c)
	}
	// Output:
	// rancher 2.15.2
	// rancher 2.15.2 works with Kubernetes from 1.34 to below 1.37, and this is v1.37.1+k3s1: rancher 2.15.2 takes Kubernetes from 1.34 to below 1.37
}

// k3s is what the examples install.
const k3s = "v1.36.5+k3s1"

func TestPins(t *testing.T) {
	for name, p := range platform.Pins() {
		u, err := url.Parse(p.Repo)
		require.NoError(t, err, name)
		assert.Contains(t, []string{"https", "oci"}, u.Scheme, name)
		assert.NotEmpty(t, u.Host, name)
		_, err = semver.StrictNewVersion(strings.TrimPrefix(p.Version, "v"))
		require.NoError(t, err, "%s: exact versions only", name)
		for _, constraint := range append([]chart.Line{{Kubernetes: p.Kubernetes}}, p.Lines...) {
			if constraint.Kubernetes != "" {
				_, err = semver.NewConstraint(constraint.Kubernetes)
				require.NoError(t, err, name)
			}
		}
		assert.Regexp(t, `20\d\d-\d\d|20\d\d|as fleet`, p.Source, "%s: when it was read", name)
		_, err = time.Parse(time.DateOnly, p.Compared)
		require.NoError(t, err, name)
	}
}

func TestOurPinsWorkTogether(t *testing.T) {
	parts := map[string]string{}
	for name, p := range platform.Pins() {
		parts[name] = p.Version
	}
	delete(parts, "fleet") // Rancher brings it
	delete(parts, "fleet-crd")
	assert.Empty(t, platform.Pins().Check(k3s, parts))
	assert.Empty(t, platform.Pins().Check(k3s, map[string]string{"fleet": "", "fleet-crd": "", "jupyterhub": "", "longhorn": ""}))
	assert.Empty(t, platform.Pins().Check("", parts), "without a Kubernetes version only parts are compared")
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
			refused := chart.Incompatible(platform.Pins().Check(c.kubernetes, c.parts))
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
		found := platform.Pins().Check(k3s, map[string]string{c.part: c.version})
		require.NotEmpty(t, found, c.part)
		assert.Contains(t, fmt.Sprint(found), c.says)
		assert.Empty(t, chart.Incompatible(found), c.part)
	}
	// Another patch of a known line is not news.
	assert.Empty(t, platform.Pins().Check(k3s, map[string]string{"rancher": "2.15.3"}))
	assert.Empty(t, platform.Pins().Check(k3s, map[string]string{"cert-manager": "1.21.1"}), "with and without v")
}

func FuzzCheck(f *testing.F) {
	f.Add(k3s, "2.15.2")
	f.Add("", "v0")
	f.Add("1.36", "1.2.3-rc.1+x")
	f.Fuzz(func(t *testing.T, kubernetes, version string) {
		for _, c := range platform.Pins().Check(kubernetes, map[string]string{"rancher": version, "longhorn": version, "fleet": ""}) {
			if c.Problem == "" || c.Cure == "" {
				t.Errorf("without words: %+v", c)
			}
		}
	})
}

// charts.digests of a file are those of its releases, whatever is known.
func TestDigestsOfAFile(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	file, err := clusterfile.Parse("cluster.yaml", []byte(`
name: t
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
pools: {cp: {role: server, count: 1, addresses: [10.0.0.11]}}
storage: {nfs: "10.0.0.30:/x"}
monitoring: true
charts: {digests: {nfs: "`+digest+`", monitoring: "`+digest+`"}}
`))
	require.NoError(t, err)
	pieces, err := platform.Pieces(file, false)
	require.NoError(t, err)
	for _, p := range pieces {
		if p.Release != nil {
			assert.Equal(t, digest, p.Release.Digest, p.Name)
		}
	}
}

// A release has its pin's digest at that version alone.
func TestDigests(t *testing.T) {
	for name, p := range platform.Pins() {
		if p.Digest == "" {
			continue
		}
		assert.Regexp(t, `^sha256:[0-9a-f]{64}$`, p.Digest, name)
		assert.Contains(t, p.Source, "digest: ", name)
		assert.Equal(t, p.Digest, p.Release(name, "x", "", nil).Digest)
		assert.Equal(t, p.Digest, p.Release(name, "x", p.Version, nil).Digest)
		assert.Empty(t, p.Release(name, "x", p.Version+"-other", nil).Digest)
	}
}
