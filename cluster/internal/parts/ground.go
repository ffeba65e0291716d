package parts

import (
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/converge"
)

// Ground are the dependencies of the platform.
type Ground struct {
	API   *converge.Ref   // Kubernetes can be spoken to, and its pods have a network
	Nodes []*converge.Ref // every node takes the pods that it should
	Gpus  []*converge.Ref // every GPU can be asked for
	Files []*converge.Ref // the NFS server that we make exports its disk
}

// under are the steps that a part begins after.
func (g Ground) under(p platform.Piece, ready Refs) []*converge.Ref {
	needs := []*converge.Ref{g.API}
	if p.Gpus {
		needs = append(needs, g.Gpus...)
	}
	if p.Name == platform.NFS {
		needs = append(needs, g.Files...)
	}
	for _, name := range p.Needs {
		needs = append(needs, ready[name])
	}
	return needs
}

// Add brings up what runs on Kubernetes for the people who use it, each part as
// soon as what it needs is there. It returns the steps after which nothing is missing.
func (s *Steps) Add(up *converge.Graph, on Ground) []*converge.Ref {
	pieces := s.Pieces()
	ready := Refs{}

	// The parts that we apply ourselves, and the dependencies of Fleet.
	before, after := platform.Split(pieces)
	for _, p := range before {
		ready[p.Name] = s.AddPart(up, p, on, ready)
	}

	// What Fleet deploys: one push brings all of it.
	s.fleetSteps(up, pieces, on, ready)

	// What waits for something that Fleet deploys.
	for _, p := range after {
		ready[p.Name] = s.AddPart(up, p, on, ready)
	}
	var all []*converge.Ref
	for _, p := range pieces {
		all = append(all, ready[p.Name])
	}
	return all
}

// AddPart are the steps of a part that we apply ourselves. It is there after the
// last of them.
func (s *Steps) AddPart(up *converge.Graph, p platform.Piece, on Ground, ready Refs) (last *converge.Ref) {
	needs := on.under(p, ready)
	then := func(step converge.Step, more ...*converge.Ref) {
		last = up.Add(step, append(needs, more...)...)
		needs = []*converge.Ref{last}
	}
	if len(p.Secrets) > 0 { // what its chart knows by name
		then(s.secretsStep(p))
	}
	if p.Release != nil {
		then(s.chartStep(p))
	}
	if p.ObjectsApart() { // kinds that its chart has brought
		then(s.objectsStep(p))
	}
	for _, class := range p.Classes { // storage is there when it was written and read
		then(s.storageStep(p, class), on.Nodes...)
	}
	return last
}
