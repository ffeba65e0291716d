package cluster

import (
	"context"
	"slices"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
)

// piece is a part of the platform, and how it gets into the cluster.
type piece struct {
	chart.Part
	via string // ViaDirect or ViaFleet

	network  bool     // the pods' network itself: no node is ready before
	base     bool     // Fleet itself, or what it stands on: it cannot come through Fleet
	gpus     bool     // it watches GPUs: not before they can be asked for
	replaces []string // parts that do the same work, and must be gone before

	// late makes the part anew with what only a living cluster can tell; nil: it is
	// as it is.
	late func(context.Context, *kube.Client) (chart.Part, error)

	// assumes says what late adds to what goes into Git.
	assumes []string
}

// nfsPart is the part that makes volumes on the NFS server.
const nfsPart = "nfs"

// ground is what the platform stands on.
type ground struct {
	api   *converge.Ref   // Kubernetes can be spoken to, and its pods have a network
	nodes []*converge.Ref // every node takes the pods that it should
	gpus  []*converge.Ref // every GPU can be asked for
	files []*converge.Ref // the NFS server that we make exports its disk
}

// under are the steps that a part begins after.
func (g ground) under(p piece, ready refs) []*converge.Ref {
	needs := []*converge.Ref{g.api}
	if p.gpus {
		needs = append(needs, g.gpus...)
	}
	if p.Name == nfsPart {
		needs = append(needs, g.files...)
	}
	for _, name := range p.Needs {
		needs = append(needs, ready[name])
	}
	return needs
}

// platform brings up what runs on Kubernetes for the people who use it, each part as
// soon as what it needs is there. It returns the steps after which nothing is missing.
func (c *Cluster) platform(up *converge.Graph, on ground) []*converge.Ref {
	pieces := c.pieces()
	ready := refs{}

	// What we apply ourselves, and what Fleet itself stands on.
	before, after := split(pieces)
	for _, p := range before {
		ready[p.Name] = c.partSteps(up, p, on, ready)
	}

	// What Fleet deploys: one push brings all of it.
	c.fleetSteps(up, pieces, on, ready)

	// What waits for something that Fleet deploys.
	for _, p := range after {
		ready[p.Name] = c.partSteps(up, p, on, ready)
	}
	var all []*converge.Ref
	for _, p := range pieces {
		all = append(all, ready[p.Name])
	}
	return all
}

// partSteps are the steps of a part that we apply ourselves. It is there after the
// last of them.
func (c *Cluster) partSteps(up *converge.Graph, p piece, on ground, ready refs) (last *converge.Ref) {
	needs := on.under(p, ready)
	then := func(s converge.Step, more ...*converge.Ref) {
		last = up.Add(s, append(needs, more...)...)
		needs = []*converge.Ref{last}
	}
	if len(p.Secrets) > 0 { // what its chart knows by name
		then(c.secretsStep(p))
	}
	if p.Release != nil {
		then(c.chartStep(p))
	}
	if p.objectsApart() { // kinds that its chart has brought
		then(c.objectsStep(p))
	}
	for _, class := range p.Classes { // storage is there when it was written and read
		then(c.storageStep(p, class), on.nodes...)
	}
	return last
}

// objectsApart reports whether a part has a step for objects beside its chart's.
func (p piece) objectsApart() bool { return p.Release == nil || len(p.After) > 0 }

// split sorts the parts that we apply ourselves into those that Fleet may wait for,
// and those that wait for something of Fleet's.
func split(pieces []piece) (before, after []piece) {
	late := map[string]bool{}
	for _, p := range pieces {
		waits := slices.ContainsFunc(p.Needs, func(name string) bool { return late[name] })
		switch {
		case p.via == ViaFleet:
			late[p.Name] = true
		case p.Name == gitops: // Fleet's own steps have it
		case waits:
			late[p.Name] = true
			after = append(after, p)
		case !p.network: // the nodes have waited for it
			before = append(before, p)
		}
	}
	return before, after
}
