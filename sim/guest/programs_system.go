package guest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

func runPoweroff(ctx context.Context, p *proc) int {
	opts, args := flags(p.args[1:])
	if p.user.UID != 0 {
		return p.fail("Access denied")
	}
	if has(opts, "c") {
		return 0
	}
	reboot := p.name() == "reboot" || has(opts, "r", "reboot")
	for _, a := range args {
		if minutes, ok := strings.CutPrefix(a, "+"); ok && minutes != "0" {
			fmt.Fprintf(p.stderr, "%s: only now is simulated, not %s\n", p.name(), a)
			return 1
		}
	}
	p.sys.mutated(map[bool]string{true: "reboot", false: "poweroff"}[reboot])
	p.sys.PowerOff(reboot)
	return 0
}

func runSysctl(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "p", "load")
	show := func(key, value string) {
		switch {
		case has(opts, "q", "quiet"):
		case has(opts, "n", "values"):
			p.printf("%s\n", value)
		default:
			p.printf("%s = %s\n", key, value)
		}
	}
	if has(opts, "system") || has(opts, "p", "load") {
		if p.user.UID != 0 {
			return p.fail("permission denied")
		}
		if file := last(opts, "p", "load"); file != "" {
			data, err := p.fs.ReadFile(p.abs(file))
			if err != nil {
				return p.fail("cannot open \"%s\": %s", file, disk.Strerror(err))
			}
			p.sys.sysctlLines(data)
			return 0
		}
		p.sys.applySysctl()
		return 0
	}
	code := 0
	for _, a := range args {
		key, value, set := strings.Cut(a, "=")
		if set || has(opts, "w") && set {
			if p.user.UID != 0 {
				code = p.fail("permission denied on key \"%s\"", key)
				continue
			}
			p.sys.put(sysctlPath(key), value+"\n", 0o644)
			show(key, value)
			continue
		}
		data, err := p.fs.ReadFile(sysctlPath(key))
		if err != nil {
			code = p.fail("cannot stat %s: No such file or directory", sysctlPath(key))
			continue
		}
		show(key, strings.TrimSpace(string(data)))
	}
	return code
}

func runTimedatectl(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "p")
	if len(args) > 1 && args[0] == "set-timezone" {
		if err := p.fs.WriteFile("/etc/timezone", []byte(args[1]+"\n"), 0o644); err != nil {
			return p.fail("%s", disk.Strerror(err))
		}
		return 0
	}
	zone := "Etc/UTC"
	if data, err := p.fs.ReadFile("/etc/timezone"); err == nil {
		zone = strings.TrimSpace(string(data))
	}
	values := map[string]string{"Timezone": zone, "NTPSynchronized": "yes", "NTP": "yes"}
	if name := last(opts, "p"); name != "" {
		if has(opts, "value") {
			p.printf("%s\n", values[name])
		} else {
			p.printf("%s=%s\n", name, values[name])
		}
		return 0
	}
	p.printf("               Time zone: %s\nSystem clock synchronized: yes\n             NTP service: active\n              Local time: %s\n", zone, time.Now().UTC().Format(time.DateTime))
	return 0
}

// runPs lists the main processes of running units.
func runPs(_ context.Context, p *proc) int {
	_, args := flags(p.args[1:], "o", "u", "C")
	unitsOf(p.sys).mu.Lock()
	defer unitsOf(p.sys).mu.Unlock()
	found := 1
	for _, u := range unitsOf(p.sys).all {
		name := strings.TrimSuffix(u.name, ".service")
		if u.pid == 0 {
			continue
		}
		if p.name() == "pgrep" {
			if len(args) > 0 && strings.Contains(name, args[0]) {
				p.printf("%d\n", u.pid)
				found = 0
			}
			continue
		}
		found = 0
		p.printf("%5d ? 00:00:00 %s\n", u.pid, name)
	}
	return found
}

// systemProgram are the programs of systemd, of the kernel's settings and of
// cloud-init.
func systemProgram(name string) Program {
	switch name {
	case "systemctl":
		return runSystemctl
	case "journalctl":
		return runJournalctl
	case "cloud-init":
		return runCloudInit
	case "ip":
		return runIP
	case "iptables-save", "iptables-restore", "ip6tables-save", "ip6tables-restore":
		return runIPTables
	case "exportfs":
		return runExportfs
	case "poweroff", "reboot", "shutdown":
		return runPoweroff
	case "sysctl":
		return runSysctl
	case "timedatectl":
		return runTimedatectl
	case "swapoff", "netplan", "update-initramfs":
		return func(context.Context, *proc) int { return 0 }
	case "systemd-detect-virt":
		return func(_ context.Context, p *proc) int { p.printf("kvm\n"); return 0 }
	case "uptime":
		return runUptime
	case "ps", "pgrep":
		return runPs
	}
	return nil
}
