package cluster

import (
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/nvidia"
)

// toolkit is NVIDIA's container toolkit as machines get it: from mirror.folder, or from NVIDIA's repository.
func (c *site) toolkit() nvidia.Toolkit {
	return nvidia.Toolkit{Folder: c.spec.Mirror.NVIDIA(), Digests: c.ToolkitDigests}
}

// checkFiles says which files that machines get from here are missing or, of NVIDIA's, not what they should be.
func (c *site) checkFiles() error {
	missing := c.distribution().CheckFiles()
	if c.toolkit().Folder == "" || len(c.spec.DriverNodes()) == 0 {
		return missing
	}
	if err := c.toolkit().CheckFolder(); err != nil {
		return errors.Join(missing, fmt.Errorf("%w\n  homelab images:mirror puts them there", err))
	}
	return missing
}
