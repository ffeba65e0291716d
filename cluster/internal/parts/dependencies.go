package parts

import (
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/kube/addon"
)

// Ground are the dependencies of the platform.
type Ground struct {
	API   *converge.Ref   // the Kubernetes API answers, and pods have a network
	Nodes []*converge.Ref // every node accepts the pods that it should
	Gpus  []*converge.Ref // every GPU can be requested
	Files []*converge.Ref // the NFS server of this cluster exports its disk
}

// dependencies are the steps that a part waits for.
func (g Ground) dependencies(p addon.Recipe, ready Refs) []*converge.Ref {
	needs := []*converge.Ref{g.API}
	if p.GPUs {
		needs = append(needs, g.Gpus...)
	}
	if p.Name == "nfs" {
		needs = append(needs, g.Files...)
	}
	for _, name := range p.Needs {
		needs = append(needs, ready[name])
	}
	return needs
}

// Add installs what runs on Kubernetes for its users, each part as soon as its dependencies are
// ready. It returns the last steps.
func (s *Steps) Add(up *converge.Graph, on Ground) []*converge.Ref {
	pieces := s.Pieces()
	ready := Refs{}

	// The parts that homelab applies itself, and the dependencies of Fleet.
	before, after := platform.Split(pieces)
	for _, p := range before {
		ready[p.Name] = s.AddPart(up, p, on, ready)
	}

	// The parts that Fleet deploys: one push contains all of them.
	all := []*converge.Ref{s.fleetSteps(up, pieces, on, ready)}

	// The parts that depend on something that Fleet deploys.
	for _, p := range after {
		ready[p.Name] = s.AddPart(up, p, on, ready)
	}
	for _, p := range pieces {
		all = append(all, ready[p.Name])
	}
	return all
}

// AddPart adds the steps of a part that homelab applies itself, and returns the last of them.
func (s *Steps) AddPart(up *converge.Graph, p addon.Recipe, on Ground, ready Refs) (last *converge.Ref) {
	needs := on.dependencies(p, ready)
	then := func(step converge.Step, more ...*converge.Ref) {
		last = up.Add(step, append(needs, more...)...)
		needs = []*converge.Ref{last}
	}
	if len(p.Secrets) > 0 { // Secrets that its chart refers to by name
		then(s.secretsStep(p))
	}
	if p.Release != nil {
		then(s.chartStep(p))
	}
	if p.ObjectsApart() { // objects of kinds that its chart has added
		then(s.objectsStep(p))
	}
	if p.Name == addon.ModelGatewayName {
		then(s.modelKeysStep())
	}
	for _, probe := range p.Probes { // a storage class is ready after a volume was written and read
		then(s.storageStep(probe), on.Nodes...)
	}
	return last
}
