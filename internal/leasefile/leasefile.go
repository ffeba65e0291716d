// Package leasefile keeps a [converge.Lease] in a file of another machine.
package leasefile

import (
	"context"
	"crypto/sha256"
	_ "embed" // the script below
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// Folder exists on every Linux, and survives a reboot.
const Folder = "/var/lib"

// File is a lease in a file of another machine. Its writers take turns with a flock(1) on the
// file's folder. The kernel releases the lock with the process, so nothing is left behind.
type File struct {
	Root    remote.Runner
	Machine string
	Path    string
}

//go:embed lease.sh
var script string

// The exit codes of a change.
const (
	alreadyThere = 17
	stale        = 18
	busy         = 19 // flock(1) itself: the lock was not free within 10 s
)

// String is e.g. /var/lib/homelab-home.lease on server1.
func (l *File) String() string { return l.Path + " on " + l.Machine }

// Read returns the file.
func (l *File) Read(ctx context.Context) (converge.LeaseRecord, error) {
	text, err := remote.ReadFile(ctx, l.Root, l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return converge.LeaseRecord{}, converge.ErrNoLease
	}
	sum := sha256.Sum256(text)
	return converge.LeaseRecord{Text: string(text), Version: hex.EncodeToString(sum[:])}, err
}

// Create makes the file.
func (l *File) Create(ctx context.Context, text string) error {
	return l.change(ctx, "create", "", text)
}

// Replace writes the file.
func (l *File) Replace(ctx context.Context, over converge.LeaseRecord, text string) error {
	return l.change(ctx, "replace", over.Version, text)
}

// Remove deletes the file.
func (l *File) Remove(ctx context.Context, over converge.LeaseRecord) error {
	return l.change(ctx, "remove", over.Version, "")
}

func (l *File) change(ctx context.Context, verb, version, text string) error {
	err := remote.Run(ctx, l.Root, "flock", "-w", "10", "-E", strconv.Itoa(busy), path.Dir(l.Path), "sh", "-c", script, "lease.sh", verb, l.Path, version, text)
	var exit *remote.ExitError
	if errors.As(err, &exit) {
		switch exit.Code {
		case alreadyThere:
			return converge.ErrLeaseExists
		case stale:
			return converge.ErrLeaseStale
		case busy:
			return converge.Transient(fmt.Errorf("%s: another run has been changing it for 10 seconds", l))
		}
	}
	return err
}
