package wait

import (
	"context"
	"errors"
	"net"
	"slices"
)

// Permanent marks err as one that waiting does not mend. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error   { return p.error }
func (p *permanent) Permanent() bool { return true }

// Passing marks err as one that goes away by itself. It returns nil for nil.
func Passing(err error) error {
	if err == nil {
		return nil
	}
	return &passing{err}
}

type passing struct{ error }

func (p *passing) Unwrap() error { return p.error }
func (p *passing) Passing() bool { return true }

// IsPermanent reports whether waiting does not mend err: it, or any error within it,
// also of joined ones, has a method Permanent that says so. Packages need not know this
// one for that.
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

// IsPassing reports whether err goes away by itself, such as that of a server that
// restarts: an error that has a method Passing, and of joined errors all.
func IsPassing(err error) bool {
	if IsPermanent(err) {
		return false
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Passing() bool }:
		return e.Passing()
	case interface{ Unwrap() error }:
		return IsPassing(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !IsPassing(err) })
	}
	return false
}

// Besides returns err, unless nothing but the end of a context is in it, or one of these
// causes of it: what went wrong before somebody pressed Ctrl-C, or before the time was over,
// is not to be lost.
func Besides(err error, causes ...error) error {
	if saysMore(err, append(causes, context.Canceled, context.DeadlineExceeded, net.ErrClosed)) { // connections are closed at the end
		return err
	}
	return nil
}

func saysMore(err error, ends []error) bool {
	is := func(end error) bool { return end != nil && errors.Is(err, end) }
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case nil:
		return false
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(inner error) bool { return saysMore(inner, ends) })
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return saysMore(inner, ends)
		}
	}
	return !slices.ContainsFunc(ends, is)
}
