// Package skew has Kubernetes' rules for the way of a machine from one version to another.
package skew

import (
	"errors"
	"fmt"
)

// Versions are those of one program that brings Kubernetes.
type Versions struct {
	Program string
	Minor   func(version string) (minor int, ok bool) // ok: it is a release
	Compare func(a, b string) int
	Unknown string // says that the installed program reports the version %q, which is not a release, and what to do
	Back    string // what to do in place of a downgrade; may be empty
}

// Check returns an [*Error] for a step that Kubernetes does not support: back, or across more than one minor version
// (kubernetes.io/releases/version-skew-policy).
func (v Versions) Check(from, to string) error {
	have, known := v.Minor(from)
	want, _ := v.Minor(to)
	no := func(reason string) error {
		return &Error{Program: v.Program, From: from, To: to, Reason: reason}
	}
	switch {
	case from == "" || from == to:
		return nil
	case !known:
		return fmt.Errorf(v.Unknown, from)
	case v.Compare(from, to) > 0 && v.Back != "":
		return no("Kubernetes cannot be downgraded: " + v.Back)
	case v.Compare(from, to) > 0:
		return no("Kubernetes cannot be downgraded")
	case want-have > 1:
		return no(fmt.Sprintf("upgrade one minor version at a time: write a v1.%d release first", have+1))
	}
	return nil
}

// ErrUnsupported is what each [*Error] is.
var ErrUnsupported = errors.New("Kubernetes does not support this step between versions")

// Error refuses a change of version.
type Error struct{ Program, From, To, Reason string }

// Error says which change and why not.
func (e *Error) Error() string {
	return fmt.Sprintf("%s cannot go from %s to %s: %s", e.Program, e.From, e.To, e.Reason)
}

// Is reports whether target is [ErrUnsupported].
func (e *Error) Is(target error) bool { return target == ErrUnsupported }
