package k3s

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"

	"github.com/cps-gpu/homelab/internal/skew"
)

// DefaultVersion is the release that this version of the package was written for.
const DefaultVersion = "v1.36.5+k3s1"

var (
	versionText = regexp.MustCompile(`^v1\.(\d{1,3})\.(\d{1,3})(?:-rc(\d{1,3}))?\+k3s(\d{1,3})$`)
	versionLine = regexp.MustCompile(`(?m)^k3s version (\S+)`)
)

// checkVersion accepts only an exact release: a channel such as "stable" changes its version.
func checkVersion(v string) error {
	if !versionText.MatchString(v) {
		return fmt.Errorf("k3s version %q: write an exact release such as %s", v, DefaultVersion)
	}
	return nil
}

// CompareVersions returns -1, 0 or +1 as a is older than, the same as, or newer
// than b. A text that is not a version is older than any.
func CompareVersions(a, b string) int {
	va, vb := versionParts(a), versionParts(b)
	for i := range va {
		if c := cmp.Compare(va[i], vb[i]); c != 0 {
			return c
		}
	}
	return 0
}

// versionParts returns minor, patch, release candidate (none is the highest) and
// the K3s revision.
func versionParts(v string) [4]int {
	m := versionText.FindStringSubmatch(v)
	if m == nil {
		return [4]int{-1, -1, -1, -1}
	}
	var p [4]int
	for i, s := range m[1:] {
		p[i], _ = strconv.Atoi(s)
	}
	if m[3] == "" {
		p[2] = 1 << 16
	}
	return p
}

// CheckUpgrade returns a [*skew.Error] for a step between two versions that Kubernetes does
// not support: back, or across more than one minor version.
func CheckUpgrade(from, to string) error {
	return skew.Versions{
		Program: "k3s", Compare: CompareVersions, Back: "restore a snapshot from before the upgrade instead",
		Minor:   func(v string) (int, bool) { m := versionParts(v)[0]; return m, m >= 0 },
		Unknown: "the installed k3s reports version %q, which is not a release: move " + binary + " away by hand",
	}.Check(from, to)
}
