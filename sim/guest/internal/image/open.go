package image

import (
	"errors"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/internet"
)

// Open returns the disk in a downloaded image file. It knows the images that
// package internet serves.
func Open(content []byte) (*disk.Disk, error) {
	switch string(content) {
	case internet.Noble:
		return New("noble"), nil
	case internet.Trixie:
		return New("trixie"), nil
	}
	return nil, errors.New("guest: not a disk image that this simulator knows")
}
