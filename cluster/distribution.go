package cluster

import (
	"errors"

	"github.com/cps-gpu/homelab/cluster/internal/k3snodes"
	"github.com/cps-gpu/homelab/cluster/internal/kubeadmnodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/remote"
)

// distributionOn returns the Kubernetes of a file on machines that root reaches. This is the one place that knows which
// there are.
func distributionOn(s *spec.Spec, root func(machine string) remote.Runner) distribution.Distribution {
	if s != nil && s.Distribution == spec.DistributionKubeadm {
		return kubeadmnodes.New(s, root)
	}
	return k3snodes.New(s, root)
}

// errNoTalos is the error for a file of another program.
var errNoTalos = errors.New("distribution: talos needs another program with the same commands: " +
	"go -C talos build -o ~/bin/homelab ./cmd/homelab, in a clone of homelab (docs/talos.md)")

// CheckDistribution says why b does not have the Kubernetes of a file.
func (b Backend) CheckDistribution(s *spec.Spec) error {
	if _, ok := b.Distribution.(distribution.Maker); s.Distribution == spec.DistributionTalos && !ok {
		return errNoTalos
	}
	return nil
}

func (c *site) distribution() distribution.Distribution {
	if c.spec.Distribution == spec.DistributionTalos {
		other := c.Distribution.(distribution.Maker) // which New has checked
		return other(distribution.Site{Spec: c.spec, Root: c.nodes.Root, Dial: c.nodes.DialTo, ReadStart: c.nodes.ReadStart, Token: c.Token, Dir: c.Dir})
	}
	return distributionOn(c.spec, c.nodes.Root)
}

// imager is what the machines boot, if that is an image of their own; else nil.
func (c *site) imager() distribution.Imager {
	i, _ := c.distribution().(distribution.Imager)
	return i
}

// Lacks says why a command cannot be done with the Kubernetes of a file; nil: it can.
func (b Backend) Lacks(s *spec.Spec, command string) error { return b.facts(s).Lacks[command] }

// ImagesOf says what lists the images of the Kubernetes of a file itself; "": its release of K3s.
func (b Backend) ImagesOf(s *spec.Spec) string { return b.facts(s).Images }

func (b Backend) facts(s *spec.Spec) distribution.Facts {
	if other, ok := b.Distribution.(distribution.Maker); ok && s.Distribution == spec.DistributionTalos {
		return other(distribution.Site{Spec: s}).Facts()
	}
	return distributionOn(s, nil).Facts()
}
