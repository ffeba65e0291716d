package lease

import (
	"context"
	"errors"
)

// Answers of a Store, besides errors of its own.
var (
	ErrNone  = errors.New("there is no lease")
	ErrThere = errors.New("there is a lease already")
	ErrStale = errors.New("the lease has changed")
)

// Seen is a lease as it was read.
type Seen struct {
	Text    string
	Version string // what Replace replaces: opaque, for the store
	// Locked says why the lease cannot be written for a while; "" if it can.
	Locked string
}

// Store stores one lease. Errors that pass by themselves have a method Passing.
type Store interface {
	// Read returns the lease, or ErrNone.
	Read(ctx context.Context) (Seen, error)
	// Create writes a lease if there is none, or returns ErrThere.
	Create(ctx context.Context, text string) error
	// Replace replaces exactly the lease that was read, or returns ErrStale.
	Replace(ctx context.Context, over Seen, text string) error
	// Remove removes exactly the lease that was read, or returns ErrStale, even if the request
	// arrives late. A missing lease is not an error.
	Remove(ctx context.Context, over Seen) error
	// String says where the lease is, for people: "VM 900000123 on pve1".
	String() string
}
