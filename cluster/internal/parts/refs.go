package parts

import (
	"github.com/cps-gpu/homelab/converge"
)

// Refs are steps by the name of the node, or host, that they are about.
type Refs map[string]*converge.Ref
