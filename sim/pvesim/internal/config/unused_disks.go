package config

import (
	"strconv"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// KeepUnused notes a volume that the VM has and does not use, and returns the key.
func KeepUnused(v *world.VM, volid string) string {
	free := ""
	for i := 255; i >= 0; i-- {
		switch k := "unused" + strconv.Itoa(i); v.Conf[k] {
		case volid:
			return ""
		case "":
			free = k
		}
	}
	if free != "" {
		v.Set(free, volid)
	}
	return free
}
