package cluster

import (
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/converge"
)

// ground are the dependencies of the platform.
type ground struct {
	api   *converge.Ref   // Kubernetes can be spoken to, and its pods have a network
	nodes []*converge.Ref // every node takes the pods that it should
	gpus  []*converge.Ref // every GPU can be asked for
	files []*converge.Ref // the NFS server that we make exports its disk
}

// under are the steps that a part begins after.
func (g ground) under(p platform.Piece, ready refs) []*converge.Ref {
	needs := []*converge.Ref{g.api}
	if p.Gpus {
		needs = append(needs, g.gpus...)
	}
	if p.Name == platform.NFS {
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

	// The parts that we apply ourselves, and the dependencies of Fleet.
	before, after := platform.Split(pieces)
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
func (c *Cluster) partSteps(up *converge.Graph, p platform.Piece, on ground, ready refs) (last *converge.Ref) {
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
	if p.ObjectsApart() { // kinds that its chart has brought
		then(c.objectsStep(p))
	}
	for _, class := range p.Classes { // storage is there when it was written and read
		then(c.storageStep(p, class), on.nodes...)
	}
	return last
}
