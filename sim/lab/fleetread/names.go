package fleetread

import (
	"crypto/md5" //nolint:gosec // Fleet's choice, and no secret
	"encoding/hex"
	"path"
	"strings"
)

// longest is how long a release's name may be (pkg/apis, MaxHelmReleaseNameLen).
const longest = 53

// bundleName is what Fleet calls the bundle of a folder that has no name of its own:
// the GitRepo's name, the way there and, where the GitRepo named it, the file of
// options without its ending (cmd/cli/apply/apply.go, bundleFromDir).
func bundleName(gitRepo string, p place) string {
	id := path.Join(gitRepo, p.dir)
	if p.own {
		id = path.Join(id, strings.TrimSuffix(p.file, path.Ext(p.file)))
	}
	return releaseName(id)
}

// releaseName makes a release's name of any text (names/name.go, HelmReleaseName).
// Letters that no release may have become dashes, and then, since another text could
// become the same, eight digits of a checksum are added to it first.
func releaseName(text string) string {
	dashed := strings.ReplaceAll(text, "/", "-")
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return -1
	}, dashed)
	if clean != dashed {
		dashed += "-" + digits(dashed, 8)
	}
	var name strings.Builder
	for _, r := range strings.ToLower(dashed) {
		plain := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		switch {
		case plain:
			name.WriteRune(r)
		case !strings.HasSuffix(name.String(), "-"):
			name.WriteByte('-')
		}
	}
	out := strings.Trim(name.String(), "-")
	if out == "" {
		return digits(text, 24)
	}
	return limited(out, longest)
}

// limited cuts a name, five digits of the whole one's checksum at its end (names/name.go,
// Limit).
func limited(name string, size int) string {
	const sum = 5
	if len(name) <= size {
		return name
	}
	kept := name[:size-sum-1]
	if !strings.HasSuffix(kept, "-") {
		kept += "-"
	}
	return kept + digits(name, sum)
}

// digits are the first of a text's MD5 (names/name.go, Hex).
func digits(text string, n int) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])[:n]
}
