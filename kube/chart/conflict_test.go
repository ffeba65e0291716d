package chart_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/kube/chart"
)

// TestCheck: every conflict in whole sentences, with the parts and whether it is a warning.
func TestCheck(t *testing.T) {
	pins := chart.Pins{
		"rancher": {Version: "v2.15.2", Kubernetes: ">=1.34.0-0 <1.37.0-0", Lines: []chart.Line{
			{Minor: "2.15", Kubernetes: ">=1.34.0-0 <1.37.0-0", Fleet: "0.16"},
			{Minor: "2.14", Kubernetes: ">=1.33.0-0 <1.36.0-0"}, {Minor: "2.13", Kubernetes: "<1.35.0-0"}, {Minor: "2.12", Kubernetes: "no constraint"}}},
		"fleet": {Version: "0.16.2"}, "fleet-crd": {Version: "0.16.2"},
		"hub": {Version: "4.4.0", Kubernetes: ">=1.28.0-0", Advised: "4.3.5", Reason: "has holes"},
	}
	type versions = map[string]string
	const (
		alone  = "fleet needs the definitions of fleet-crd: install fleet-crd of the same version first"
		beside = "a standalone Fleet beside Rancher would be two controllers for the same objects, each undoing the other: " +
			"leave the standalone Fleet out: Rancher installs the one that it was tested with"
	)
	for _, c := range []struct {
		kubernetes string
		parts      versions
		refused    string
		warned     string
	}{
		{"v1.36.5+k3s1", versions{"rancher": "", "fleet-crd": "", "hub": ""}, "[]", "[]"},
		{"v1.36.5+k3s1", versions{"rancher": "2.15.2", "hub": "4.4.9"}, "[]", "[]"},
		{"stable", nil, `["stable" is not a version of Kubernetes: write it as K3s does, e.g. v1.36.5+k3s1]`, "[]"},
		{"", versions{"rancher": "2.12.1"}, "[]", "[]"},
		{"v1.37.1", versions{"rancher": ""}, "[rancher v2.15.2 works with Kubernetes from 1.34 to below 1.37, and this is v1.37.1: " +
			"rancher v2.15.2 takes Kubernetes from 1.34 to below 1.37]", "[]"},
		{"v1.33.1", versions{"rancher": "2.15.0"}, "[rancher 2.15.0 works with Kubernetes from 1.34 to below 1.37, and this is v1.33.1: " +
			"take rancher 2.14 or 2.13 for this Kubernetes; rancher v2.15.2 takes Kubernetes from 1.34 to below 1.37]", "[]"},
		{"v1.35.1", versions{"rancher": "2.13.0"}, "[rancher 2.13.0 works with Kubernetes below 1.35, and this is v1.35.1: " +
			"take rancher 2.15 or 2.14 for this Kubernetes; rancher v2.15.2 takes Kubernetes from 1.34 to below 1.37]", "[]"},
		{"v1.27.1", versions{"hub": ""}, "[hub 4.4.0 works with Kubernetes from 1.28 on, and this is v1.27.1: hub 4.4.0 takes Kubernetes from 1.28 on]", "[]"},
		{"v1.36.5", versions{"rancher": "2.16.0"}, "[]",
			"[it is not known what rancher 2.16.0 works with: v2.15.2 is the version that we know: look at its release notes, or take v2.15.2]"},
		{"v1.36.5", versions{"hub": "^4"}, `["^4" is not an exact version of hub: a range does not pin anything: write it exactly, e.g. 4.4.0]`, "[]"},
		{"v1.36.5", versions{"hub": "4.3.4"}, "[]", "[it is not known what hub 4.3.4 works with: 4.4.0 is the version that we know: " +
			"look at its release notes, or take 4.4.0 hub 4.3.4 has holes: take 4.3.5 or later; 4.4.0 is ours]"},
		{"v1.36.5", versions{"hub": "4.3.5"}, "[]",
			"[it is not known what hub 4.3.5 works with: 4.4.0 is the version that we know: look at its release notes, or take 4.4.0]"},
		{"v1.36.5", versions{"ollama": "1.0.0"}, "[]", "[nothing is known of the versions of ollama: check its documentation]"},
		{"", versions{"fleet": "", "fleet-crd": "v0.16.2"}, "[]", "[]"},
		{"", versions{"fleet": "0.16.3", "fleet-crd": ""},
			"[fleet 0.16.3 reads definitions of fleet-crd 0.16.2: the two charts are one release: take fleet-crd 0.16.3]", "[]"},
		{"", versions{"fleet": ""}, "[]", "[" + alone + "]"},
		{"", versions{"fleet": "", "fleet-crd": "", "rancher": ""}, "[" + beside + " (v2.15.2 brings Fleet 0.16)]", "[]"},
		{"", versions{"fleet": "", "fleet-crd": "", "rancher": "2.11.0"}, "[" + beside + "]",
			"[it is not known what rancher 2.11.0 works with: v2.15.2 is the version that we know: look at its release notes, or take v2.15.2]"},
	} {
		found := pins.Check(c.kubernetes, c.parts)
		var warned []chart.Conflict
		for _, f := range found {
			if f.Warning {
				warned = append(warned, f)
			}
		}
		assert.Equal(t, c.refused, fmt.Sprint(chart.Incompatible(found)), "%+v", c)
		assert.Equal(t, c.warned, fmt.Sprint(warned), "%+v", c)
	}
	assert.Equal(t, []string{"rancher", "fleet"}, pins.Check("", versions{"fleet": "", "fleet-crd": "", "rancher": ""})[0].Parts)
}

// TestRelease: the digest belongs to the pinned version alone, which may be written with and without a v.
func TestRelease(t *testing.T) {
	pin := chart.Pin{Chart: "web", Repo: "https://charts.example", Version: "v1.2.3", Digest: "sha256:ab"}
	for version, digest := range map[string]string{"": "sha256:ab", "1.2.3": "sha256:ab", "v1.2.3": "sha256:ab", "1.2.4": ""} {
		want := &chart.Release{Name: "n", Namespace: "s", Chart: "web", Repo: pin.Repo, Version: version, Digest: digest, Values: map[string]any{"a": 1}}
		if version == "" {
			want.Version = "v1.2.3"
		}
		assert.Equal(t, want, pin.Release("n", "s", version, map[string]any{"a": 1}))
	}
}

func TestMerge(t *testing.T) {
	type m = map[string]any
	got := chart.Merge(m{"a": m{"x": 1, "y": []int{1}}, "b": m{"x": 1}, "c": 1, "d": 1}, m{"a": m{"y": []int{2}, "z": 3}, "b": 5, "c": m{"x": 1}})
	assert.Equal(t, m{"a": m{"x": 1, "y": []int{2}, "z": 3}, "b": 5, "c": m{"x": 1}, "d": 1}, got)
}
