package systemd

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

func runPoweroff(ctx context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:])
	if p.User.UID != 0 {
		return p.Fail("Access denied")
	}
	if getopt.Has(opts, "c") {
		return 0
	}
	reboot := p.Name() == "reboot" || getopt.Has(opts, "r", "reboot")
	for _, a := range args {
		if minutes, ok := strings.CutPrefix(a, "+"); ok && minutes != "0" {
			fmt.Fprintf(p.Stderr, "%s: only now is simulated, not %s\n", p.Name(), a)
			return 1
		}
	}
	p.Sys.RecordChange(map[bool]string{true: "reboot", false: "poweroff"}[reboot])
	p.Sys.PowerOff(reboot)
	return 0
}

func runTimedatectl(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:], "p")
	if getopt.Last(opts, "p") != "NTPSynchronized" || !getopt.Has(opts, "value") {
		return p.Fail("only 'timedatectl show -p NTPSynchronized --value' is simulated")
	}
	synchronized := "yes"
	if p.Sys.Faulty(func(f machine.Faults) bool { return f.ClockAhead }) {
		synchronized = "no"
	}
	p.Printf("%s\n", synchronized)
	return 0
}
