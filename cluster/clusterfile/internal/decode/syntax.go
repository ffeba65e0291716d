package decode

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
)

// CPUList reads 0-7,16.
func CPUList(s, separator string) (all []int, ok bool) {
	for part := range strings.SplitSeq(s, separator) {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to < from || to > 4095 || len(all) > 4095 {
			return nil, false
		}
		for n := from; n <= to; n++ {
			all = append(all, n)
		}
	}
	return all, true
}

// IsAuthorizedKey reports whether s is an authorized_keys line: the type, and a
// base64 blob that begins with the same type (RFC 4253, section 6.6).
func IsAuthorizedKey(s string) bool {
	f := strings.Fields(s)
	if len(f) < 2 || strings.ContainsAny(s, "\r\n") {
		return false
	}
	blob, err := base64.StdEncoding.DecodeString(f[1])
	n := len(f[0])
	return err == nil && len(blob) > 4+n && blob[0] == 0 && blob[1] == 0 && blob[2] == 0 && int(blob[3]) == n && string(blob[4:4+n]) == f[0]
}

// IsCleanPath reports whether p is absolute, in its shortest form, and not the root.
func IsCleanPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.Contains(p+"/", "//") && !strings.Contains(p+"/", "/./") && !strings.Contains(p+"/", "/../")
}

var place = regexp.MustCompile(`^[\pL\pN/._~@=,:-]+$`)

// IsPlace reports whether p is a clean path without characters that are special in fstab,
// systemd or a shell, so that file systems and volumes can be there.
func IsPlace(p string) bool { return IsCleanPath(p) && place.MatchString(p) }
