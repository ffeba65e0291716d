package chart

import (
	"context"
	"errors"

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/kube"
)

// Client installs releases in one cluster.
type Client struct {
	kube   *kube.Client
	source Source
}

// NewClient makes a Client. It does not connect yet.
func NewClient(k *kube.Client, s Source) *Client { return &Client{kube: k, source: s} }

// State is a release as it is in the cluster.
type State struct {
	Installed bool
	Chart     string // name-version
	Revision  int
	Status    string     // Helm's own word, e.g. deployed, failed, pending-upgrade
	Changes   drift.Diff // what an upgrade would change, secrets masked; empty: nothing to do
	Waiting   []string   // what is not ready yet, in words: "deployment jupyterhub/hub: 0 of 1 pods are ready"
}

// Observe looks at a release: whether it is there, what an upgrade to r would
// change, and what of it is not ready.
func (c *Client) Observe(ctx context.Context, r Release) (State, error) {
	return State{}, errors.New("not yet")
}

// Diff says how a release differs from what was asked, readiness included.
func (r Release) Diff(have State) drift.Diff { return nil }

// Apply installs or upgrades r, unless have says that nothing is to be done, and
// waits until everything in it is ready. On failure the release is as it was before.
func (c *Client) Apply(ctx context.Context, r Release, have State) error {
	return errors.New("not yet")
}

// Uninstall takes a release away. One that is not there is fine.
func (c *Client) Uninstall(ctx context.Context, namespace, name string) error {
	return errors.New("not yet")
}

// Installed is a release that is in the cluster.
type Installed struct {
	Namespace, Name, Chart, Version, Status string
	Revision                                int
}

// List returns the releases of all namespaces, by namespace and name.
func (c *Client) List(ctx context.Context) ([]Installed, error) { return nil, errors.New("not yet") }
