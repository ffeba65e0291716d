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

// IsLabelKey reports whether s can be the key of a label or a taint: a name, or domain/name.
func IsLabelKey(s string) bool {
	domain, name, ok := strings.Cut(s, "/")
	if !ok {
		return s != "" && IsLabelValue(s)
	}
	return len(domain) <= 253 && subdomain.MatchString(domain) && name != "" && IsLabelValue(name)
}
