package chart

import (
	"cmp"
	"strings"
)

// Pin is a chart at the version that we install. A version that is not pinned changes without
// notice; an upgrade is a change of one line, reviewed by a person.
//
// The version was the newest public one when it was written; Source says what was read, which may
// be an older version.
type Pin struct {
	Chart      string // name of the chart in Repo, e.g. "csi-driver-nfs"
	Repo       string // https://… or oci://…
	Version    string // exact
	App        string // version of what it installs, if that differs
	Kubernetes string // constraint on Kubernetes, as semver reads it, e.g. ">=1.34.0-0 <1.37.0-0"
	Source     string // where Kubernetes and the version were read, and when
	Compared   string // the day on which Version was last compared with its source, e.g. "2026-09-01"
	Digest     string // sha256:… of the archive; empty: not known

	Lines []Line // known release lines, the pinned one included
	// Advised is the oldest version that is recommended, and Why says what is wrong with older ones.
	Advised, Reason string
}

// Line is what is known about a minor version of a chart.
type Line struct {
	Minor      string // e.g. "2.15"
	Kubernetes string // constraint, as in Pin
	Fleet      string // minor version of Fleet that a Rancher brings
}

// Pins are the charts by the names of their parts.
type Pins map[string]Pin

// Release returns a release of the chart with the part's name. An empty version means the pinned one.
func (p Pin) Release(name, namespace, version string, values map[string]any) *Release {
	r := &Release{Name: name, Namespace: namespace, Chart: p.Chart, Repo: p.Repo, Version: cmp.Or(version, p.Version), Values: values}
	if trimV(r.Version) == trimV(p.Version) {
		r.Digest = p.Digest
	}
	return r
}

func trimV(version string) string { return strings.TrimPrefix(version, "v") }
