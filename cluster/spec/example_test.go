package spec_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// The words of a cluster file are types that know their own form.
func Example() {
	size, err := unit.ParseSize("96GiB")
	fmt.Println(size.MiB(), err)
	taint, err := spec.ParseTaint("nvidia.com/gpu=present:NoSchedule")
	fmt.Println(taint.Key, err)
	fmt.Println(spec.StableMAC("a100", "gpu1"), "always")
	// Output:
	// 98304 <nil>
	// nvidia.com/gpu <nil>
	// 02:ab:f6:26:ec:82 always
}
