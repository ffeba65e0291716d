package systemd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
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
	p.Sys.Mutated(map[bool]string{true: "reboot", false: "poweroff"}[reboot])
	p.Sys.PowerOff(reboot)
	return 0
}

func runTimedatectl(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "p")
	if len(args) > 1 && args[0] == "set-timezone" {
		if err := p.FS.WriteFile("/etc/timezone", []byte(args[1]+"\n"), 0o644); err != nil {
			return p.Fail("%s", disk.Strerror(err))
		}
		return 0
	}
	zone := "Etc/UTC"
	if data, err := p.FS.ReadFile("/etc/timezone"); err == nil {
		zone = strings.TrimSpace(string(data))
	}
	values := map[string]string{"Timezone": zone, "NTPSynchronized": "yes", "NTP": "yes"}
	if p.Sys.Faulty(func(f machine.Faults) bool { return f.ClockAhead }) {
		values["NTPSynchronized"] = "no"
	}
	if name := getopt.Last(opts, "p"); name != "" {
		if getopt.Has(opts, "value") {
			p.Printf("%s\n", values[name])
		} else {
			p.Printf("%s=%s\n", name, values[name])
		}
		return 0
	}
	p.Printf("               Time zone: %s\nSystem clock synchronized: yes\n             NTP service: active\n              Local time: %s\n", zone, time.Now().UTC().Format(time.DateTime))
	return 0
}

// runPs lists the main processes of running units.
func runPs(_ context.Context, p *machine.Proc) int {
	_, args := getopt.Parse(p.Args[1:], "o", "u", "C")
	unitsOf(p.Sys).mu.Lock()
	defer unitsOf(p.Sys).mu.Unlock()
	found := 1
	for _, u := range unitsOf(p.Sys).all {
		name := strings.TrimSuffix(u.name, ".service")
		if u.pid == 0 {
			continue
		}
		if p.Name() == "pgrep" {
			if len(args) > 0 && strings.Contains(name, args[0]) {
				p.Printf("%d\n", u.pid)
				found = 0
			}
			continue
		}
		found = 0
		p.Printf("%5d ? 00:00:00 %s\n", u.pid, name)
	}
	return found
}
