package converge

import (
	"context"
	"errors"
	"net"
	"slices"
)

// Permanent marks err as one that waiting does not fix. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error   { return p.error }
func (p *permanent) Permanent() bool { return true }

// Transient marks err as one that goes away by itself. It returns nil for nil.
func Transient(err error) error {
	if err == nil {
		return nil
	}
	return &transient{err}
}

type transient struct{ error }

func (p *transient) Unwrap() error   { return p.error }
func (p *transient) Transient() bool { return true }

// IsPermanent reports whether waiting does not fix err: err or any error in its tree has a
// method Permanent that returns true. Other packages can implement that without importing this
// one.
func IsPermanent(err error) bool {
	if p, ok := err.(interface{ Permanent() bool }); ok && p.Permanent() { //nolint:errorlint // the tree is walked here
		return true
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() error }:
		return IsPermanent(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), IsPermanent)
	}
	return false
}

// IsTransient reports whether err goes away by itself, such as that of a server that restarts:
// it has a method Transient that returns true; of joined errors, all have.
func IsTransient(err error) bool {
	if IsPermanent(err) {
		return false
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Transient() bool }:
		return e.Transient()
	case interface{ Unwrap() error }:
		return IsTransient(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !IsTransient(err) })
	}
	return false
}

// unlessContextError returns err, unless it only says that a context ended, so that a failure before
// Ctrl-C is not lost.
func unlessContextError(err error) error {
	if isMoreThanContext(err) {
		return err
	}
	return nil
}

func isMoreThanContext(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case nil:
		return false
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), isMoreThanContext)
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return isMoreThanContext(inner)
		}
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// cutShort reports whether the result of a check is meaningless because ctx ended meanwhile:
// it has no error, or one caused by that end.
func cutShort(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	ends := []error{context.Cause(ctx), context.Canceled, context.DeadlineExceeded, net.ErrClosed} // connections are closed at the end
	return err == nil || slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}
