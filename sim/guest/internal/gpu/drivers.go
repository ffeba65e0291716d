package gpu

import (
	"context"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runUbuntuDrivers is ubuntu-drivers list --gpgpu.
func runUbuntuDrivers(_ context.Context, p *machine.Proc) int {
	_, args := getopt.Parse(p.Args[1:])
	if len(args) == 0 || args[0] != "list" {
		return p.Fail("only list is simulated")
	}
	if len(Cards(p.Sys.Config.PCI)) == 0 {
		return 0
	}
	for _, b := range []string{"595-server-open", "580-server-open", "595-server", "580-server"} {
		p.Printf("nvidia-driver-%s, (kernel modules provided by linux-modules-nvidia-%s-generic)\n", b, b)
	}
	return 0
}
