package parts

import (
	"github.com/cps-gpu/homelab/converge"
)

// Refs are steps by the name of their node or host.
type Refs map[string]*converge.Ref
