// Package databases checks a file's databases.
package databases

import (
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// Check checks the databases of a file. Its nodes and storage are complete.
func Check(c *decode.Checker, s *spec.Spec) {
	if s.Platform.Postgres == nil {
		return
	}
	for i := range s.Platform.Postgres.Databases {
		d := &s.Platform.Postgres.Databases[i]
		// PostgreSQL has databases and a role of these names; a name of CloudNativePG's has at most 50 letters.
		if !decode.DNSLabel.MatchString(d.Name) || d.Name[0] < 'a' || len(d.Name) > 50 || slices.Contains([]string{"postgres", "template0", "template1"}, d.Name) {
			c.Wrong(d, fmt.Sprintf("%q cannot be a database's name", d.Name), "write at most 50 lower-case letters, digits and hyphens, beginning with a letter; not postgres, template0 or template1")
		}
		if !decode.DNSLabel.MatchString(d.Namespace) {
			c.Wrong(&d.Namespace, fmt.Sprintf("%q cannot be a namespace", d.Namespace), "write lower-case letters, digits and hyphens, e.g. databases")
		}
		for _, q := range s.Platform.Queues {
			if slices.Contains(q.Namespaces, d.Namespace) {
				c.Wrong(&d.Namespace, fmt.Sprintf("the servers of %s would wait in the queue %s", d.Name, q.Name), "write another namespace")
			}
		}
		c.CheckRange(&d.Instances, "instances", 1, 9)
		if n := len(s.Nodes); n > 0 && d.Instances > n {
			c.Wrong(&d.Instances, fmt.Sprintf("%d servers of %s are requested, and there are %d nodes", d.Instances, d.Name, n), fmt.Sprintf("write %d or less: they are on different nodes", n))
		}
		if d.Size < spec.GiB {
			c.Wrong(&d.Size, fmt.Sprintf("%s is too little for a database", d.Size), "write 10GiB or more")
		}
		if scratch := s.Platform.Storage.Scratch; scratch != nil && d.StorageClass == scratch.Class {
			c.Wrong(&d.StorageClass, fmt.Sprintf("the database %s would be on scratch disks, whose contents may be lost", d.Name), "write a class with permanent volumes")
		}
	}
}
