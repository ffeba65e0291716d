package programs

import (
	"context"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/internet"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runSum is sha256sum, which prints sums and checks none.
func runSum(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	if len(opts) > 0 {
		return p.Fail("only 'sha256sum FILE…' is simulated")
	}
	return each(p, names, func(name string, data []byte) { p.Printf("%s  %s\n", internet.SHA256(data), name) })
}
