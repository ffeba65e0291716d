package converge

import (
	"context"
	"errors"
)

// Answers of a LeaseStore, besides errors of its own.
var (
	ErrNoLease     = errors.New("there is no lease")
	ErrLeaseExists = errors.New("there is a lease already")
	ErrLeaseStale  = errors.New("the lease has changed")
)

// LeaseRecord is a lease as it was read.
type LeaseRecord struct {
	Text    string
	Version string // what Replace replaces: opaque, for the store
	// Locked says why the lease cannot be written for a while; "" if it can.
	Locked string
}

// LeaseStore stores one lease. Errors that pass by themselves have a method Transient.
type LeaseStore interface {
	// Read returns the lease, or ErrNoLease.
	Read(ctx context.Context) (LeaseRecord, error)
	// Create writes a lease if there is none, or returns ErrLeaseExists.
	Create(ctx context.Context, text string) error
	// Replace replaces exactly the lease that was read, or returns ErrLeaseStale.
	Replace(ctx context.Context, over LeaseRecord, text string) error
	// Remove removes exactly the lease that was read, or returns ErrLeaseStale, even if the request
	// arrives late. A missing lease is not an error.
	Remove(ctx context.Context, over LeaseRecord) error
	// String says where the lease is, for people: "VM 900000123 on pve1".
	String() string
}
