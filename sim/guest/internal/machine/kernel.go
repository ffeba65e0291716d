package machine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// BootKernel is what GRUB starts: the newest kernel that is installed.
func (s *System) BootKernel() string {
	var found []string
	for name := range disk.Database(s.Config.Disk) {
		if k, ok := strings.CutPrefix(name, "linux-image-"); ok && (strings.HasSuffix(k, "-generic") || strings.HasSuffix(k, "-amd64")) && k[0] >= '0' && k[0] <= '9' {
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.MaxFunc(found, CompareVersions)
}

// CompareVersions compares number by number.
func CompareVersions(a, b string) int {
	num := func(s string) (out []int) {
		for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(f)
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(num(a), num(b))
}

// BootIDFile holds what changes whenever the machine boots.
const BootIDFile = "/proc/sys/kernel/random/boot_id"
