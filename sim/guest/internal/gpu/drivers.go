package gpu

import (
	"context"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runUbuntuDrivers is ubuntu-drivers list --gpgpu, of a machine with one kind of card or several:
// what drives any of them is listed. Neither the open modules nor branches after 580 name chips
// before Turing.
func runUbuntuDrivers(_ context.Context, p *machine.Proc) int {
	_, args := getopt.Parse(p.Args[1:])
	if len(args) == 0 || args[0] != "list" {
		return p.Fail("only list is simulated")
	}
	cards := Cards(p.Sys.Config.PCI)
	for _, b := range []string{"595-server-open", "580-server-open", "595-server", "580-server"} {
		if slices.ContainsFunc(cards, func(c Card) bool { return c.arch >= turing || b == "580-server" }) {
			suffix := "generic"
			if !strings.HasPrefix(p.Sys.Kernel(), "6.8.") {
				suffix = "generic-hwe-24.04"
			}
			p.Printf("nvidia-driver-%s, (kernel modules provided by linux-modules-nvidia-%s-%s)\n", b, b, suffix)
		}
	}
	return 0
}
