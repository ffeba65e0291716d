package lint

import (
	"crypto/md5" //nolint:gosec // names, not secrets: Fleet's choice
	"encoding/hex"
	"regexp"
	"strings"
)

// maxReleaseName is Helm's limit for names of releases
// (fleet pkg/apis bundledeployment_types.go MaxHelmReleaseNameLen).
const maxReleaseName = 53

var (
	lintNameOther   = regexp.MustCompile(`[^a-zA-Z0-9-]+`)
	lintNameDashes  = regexp.MustCompile(`-+`)
	lintNameLabel   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	lintNameRelease = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// bundleName is the name that Fleet gives the bundle of a folder without a name of its own:
// repository and path joined by hyphens, adapted to Helm's rules. A name with other characters
// than a-z, 0-9 and hyphens, or of more than 53, ends in a part of a checksum (fleet v0.16.1
// internal/cmd/cli/apply/apply.go bundleFromDir, internal/names/name.go HelmReleaseName).
func bundleName(gitRepo, dir string) string {
	id := strings.Trim(gitRepo+"/"+strings.TrimPrefix(dir, "./"), "/")
	if dir == "." || dir == "" {
		id = gitRepo
	}
	return helmReleaseName(id)
}

// helmReleaseName turns any text into the name of a release.
func helmReleaseName(id string) string {
	name := strings.ReplaceAll(id, "/", "-")
	if name != strings.ToLower(name) || lintNameOther.MatchString(name) {
		name += "-" + nameSum(name, 8)
	}
	name = lintNameOther.ReplaceAllLiteralString(strings.ToLower(name), "-")
	name = strings.Trim(lintNameDashes.ReplaceAllString(name, "-"), "-")
	if !lintNameLabel.MatchString(name) {
		return nameSum(id, 24)
	}
	return nameLimit(name, maxReleaseName)
}

// nameLimit shortens a name; its last five characters are then a checksum.
func nameLimit(name string, size int) string {
	const sum = 5
	if len(name) <= size {
		return name
	}
	return strings.TrimSuffix(name[:size-sum-1], "-") + "-" + nameSum(name, sum)
}

func nameSum(s string, size int) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])[:size]
}
