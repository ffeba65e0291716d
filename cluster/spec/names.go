package spec

import (
	"regexp"
	"strings"
)

// The names that Kubernetes allows, as its package validation has them; that brings 200 packages.
var (
	variable   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`)
	subdomain  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

// IsVariable reports whether s can be the name of an environment variable.
func IsVariable(s string) bool { return variable.MatchString(s) }

// IsLabelValue reports whether s can be the value of a label or a taint.
func IsLabelValue(s string) bool { return len(s) <= 63 && labelValue.MatchString(s) }

// Labels that say where a node is; schedulers and storage drivers look at them.
const (
	ZoneLabel   = "topology.kubernetes.io/zone"
	RegionLabel = "topology.kubernetes.io/region"
)

// IsTopologyLabel reports whether a label is one of those that say where a node is.
func IsTopologyLabel(key string) bool { return key == ZoneLabel || key == RegionLabel }

// IsLabelKey reports whether s can be the key of a label or a taint: a name, or domain/name.
func IsLabelKey(s string) bool {
	domain, name, ok := strings.Cut(s, "/")
	if !ok {
		return s != "" && IsLabelValue(s)
	}
	return len(domain) <= 253 && subdomain.MatchString(domain) && name != "" && IsLabelValue(name)
}

// Versions that a file may name.
var (
	k3sVersion   = regexp.MustCompile(`^v1\.[0-9]{1,3}\.[0-9]{1,3}(-rc[0-9]+)?\+k3s[0-9]{1,3}$`)
	chartVersion = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`) // SemVer 2
)

// IsK3sVersion reports whether s is a release of K3s, such as v1.36.5+k3s1.
func IsK3sVersion(s string) bool { return k3sVersion.MatchString(s) }

// IsChartVersion reports whether s is an exact version of a chart, with or without a leading v.
func IsChartVersion(s string) bool { return chartVersion.MatchString(s) }
