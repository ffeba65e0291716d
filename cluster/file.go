package cluster

import (
	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

// Load reads a cluster file as [clusterfile.Load] does, and makes the parts of its platform to check
// them too: versions that do not work together, what Fleet cannot deploy, values that charts do not
// know, profiles of the hub for which no node has room.
func Load(path string) (*spec.Spec, error) { return clusterfile.Load(path, platform.Check) }

// Parse is [Load] for a file's contents. The name is for messages, and for finding the files that data
// names by relative paths.
func Parse(filename string, data []byte) (*spec.Spec, error) {
	return clusterfile.Parse(filename, data, platform.Check)
}

// Complete does for a Spec that was written in Go what [Load] does for a file: see
// [clusterfile.Complete].
func Complete(s *spec.Spec) error { return clusterfile.Complete(s, platform.Check) }
