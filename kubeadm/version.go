package kubeadm

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// DefaultVersion is the release of Kubernetes that homelab installs unless another one is asked for.
const DefaultVersion = "v1.36.5"

var release = regexp.MustCompile(`^v1\.(\d{1,3})\.(\d{1,3})$`)

// IsVersion reports whether v is an exact release, e.g. v1.36.5.
func IsVersion(v string) bool { return release.MatchString(v) }

// parts are minor and patch of a release.
func parts(v string) (minor, patch int) {
	if m := release.FindStringSubmatch(v); m != nil {
		minor, _ = strconv.Atoi(m[1]) // three digits
		patch, _ = strconv.Atoi(m[2])
	}
	return minor, patch
}

// CompareVersions returns -1, 0 or +1 as a is older than, the same as, or newer than b.
func CompareVersions(a, b string) int {
	am, ap := parts(a)
	bm, bp := parts(b)
	return cmp.Or(cmp.Compare(am, bm), cmp.Compare(ap, bp))
}

// repositoryURL is the apt repository of a release: there is one for each minor.
func repositoryURL(version string) string {
	minor, _ := parts(version)
	return fmt.Sprintf("https://pkgs.k8s.io/core:/stable:/v1.%d/deb/", minor)
}
