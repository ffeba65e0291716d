package lease

import (
	"context"
	"errors"
)

// What a Store answers, beside errors of its own.
var (
	ErrNone  = errors.New("there is no lease")
	ErrThere = errors.New("there is a lease already")
	ErrStale = errors.New("the lease is not what it was")
)

// Seen is a lease as it was read.
type Seen struct {
	Text    string
	Version string // what Replace writes over: the store's own affair
	// Locked says why nobody can write it now, for a while; "" if somebody can.
	Locked string
}

// Store keeps one lease. Errors that pass by themselves say so, by a method Passing.
type Store interface {
	// Read returns the lease, or ErrNone.
	Read(ctx context.Context) (Seen, error)
	// Create writes a lease where there is none, or returns ErrThere.
	Create(ctx context.Context, text string) error
	// Replace writes a lease over the one that was seen and no other, or returns ErrStale.
	Replace(ctx context.Context, over Seen, text string) error
	// Remove removes the lease that was seen and no other, or returns ErrStale, also when
	// it comes late. One that is gone is not an error.
	Remove(ctx context.Context, over Seen) error
	// String says where the lease is, for people: "VM 900000123 on pve1".
	String() string
}
