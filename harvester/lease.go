package harvester

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// Lease returns the lock that all runs that change the cluster share, from any machine: a Lease object in the
// namespace. The API server replaces one only over the version that was read.
func (c *Client) Lease() converge.LeaseStore { return &lease{c: c, name: "homelab-" + c.owner} }

type lease struct {
	c    *Client
	name string
}

// String names the object.
func (l *lease) String() string { return fmt.Sprintf("lease %s/%s", l.c.namespace, l.name) }

func (l *lease) record(u *unstructured.Unstructured) (converge.LeaseRecord, error) {
	if !l.c.owns(u, "") {
		return converge.LeaseRecord{}, foreignError(u, "remove it, or use another namespace")
	}
	return converge.LeaseRecord{Text: u.GetAnnotations()[textAnnotation], Version: string(u.GetUID()) + " " + u.GetResourceVersion()}, nil
}

// Read implements converge.LeaseStore.
func (l *lease) Read(ctx context.Context) (converge.LeaseRecord, error) {
	u, err := l.c.read(ctx, leaseKind(), l.c.namespace, l.name)
	switch {
	case err != nil:
		return converge.LeaseRecord{}, err
	case u == nil:
		return converge.LeaseRecord{}, converge.ErrNoLease
	}
	return l.record(u)
}

// Create implements converge.LeaseStore.
func (l *lease) Create(ctx context.Context, text string) error {
	u := leaseKind().object(l.c.namespace, l.name)
	l.c.tag(u, "")
	l.write(u, text)
	err := l.c.kube.Create(ctx, u)
	if errors.Is(err, kube.ErrConflict) {
		return converge.ErrLeaseExists
	}
	return err
}

func (l *lease) write(u *unstructured.Unstructured, text string) {
	annotations := u.GetAnnotations()
	annotations[textAnnotation] = text
	u.SetAnnotations(annotations)
}

// readExact reads the lease if it is still the one that was read; nil if there is none.
func (l *lease) readExact(ctx context.Context, over converge.LeaseRecord) (*unstructured.Unstructured, error) {
	u, err := l.c.read(ctx, leaseKind(), l.c.namespace, l.name)
	if u == nil || err != nil {
		return nil, err
	}
	now, err := l.record(u)
	if err == nil && now.Version != over.Version {
		err = converge.ErrLeaseStale
	}
	return u, err
}

// Replace implements converge.LeaseStore.
func (l *lease) Replace(ctx context.Context, over converge.LeaseRecord, text string) error {
	u, err := l.readExact(ctx, over)
	if err != nil {
		return err
	}
	if u == nil {
		return converge.ErrLeaseStale
	}
	l.write(u, text)
	return staleError(l.c.kube.Update(ctx, u))
}

// Remove implements converge.LeaseStore.
func (l *lease) Remove(ctx context.Context, over converge.LeaseRecord) error {
	u, err := l.readExact(ctx, over)
	if u == nil || err != nil {
		return err
	}
	return staleError(l.c.kube.DeleteExact(ctx, u, true))
}

// staleError is the error of a write over what has changed.
func staleError(err error) error {
	if errors.Is(err, kube.ErrConflict) || errors.Is(err, kube.ErrNotFound) {
		return converge.ErrLeaseStale
	}
	return err
}
