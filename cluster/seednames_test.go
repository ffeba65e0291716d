package cluster

import (
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/internal/names"
)

// EarlierSeed is what the first versions would have called the seed of a node, of which
// the keys were a part; for tests outside of this package.
func (c *Cluster) EarlierSeed(node string) (string, error) {
	for _, n := range c.spec.Machines() {
		if n.Name == node {
			doc, err := c.seeds.Earlier(n, c.seeds.AuthorizedKeys())
			if err != nil {
				return "", err
			}
			digest, err := doc.Digest()
			return names.Seed(c.spec, node, digest), err
		}
	}
	return "", members.ErrNoServer
}

// Seed is what a node's seed is called now.
func (c *Cluster) Seed(node string) (string, error) {
	for _, n := range c.spec.Machines() {
		if n.Name == node {
			sd, err := c.seeds.Seed(n)
			return sd.File, err
		}
	}
	return "", members.ErrNoServer
}

// EarlierISO is the seed that the first versions would have made of a node.
func (c *Cluster) EarlierISO(node string) ([]byte, error) {
	for _, n := range c.spec.Machines() {
		if n.Name == node {
			doc, err := c.seeds.Earlier(n, c.seeds.AuthorizedKeys())
			if err != nil {
				return nil, err
			}
			return doc.ISO()
		}
	}
	return nil, members.ErrNoServer
}
