package guest

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

func runAptMark(_ context.Context, p *proc) int {
	_, args := flags(p.args[1:])
	if len(args) == 0 {
		return p.fail("a command is needed")
	}
	d := p.sys.cfg.Disk
	switch args[0] {
	case "showhold":
		for _, name := range d.Holds() {
			p.printf("%s\n", name)
		}
		return 0
	case "hold", "unhold":
	case "manual", "auto", "showmanual":
		return 0
	default:
		fmt.Fprintf(p.stderr, "E: Invalid operation %s\n", args[0])
		return aptFailed
	}
	hold := args[0] == "hold"
	if p.user.UID != 0 {
		fmt.Fprintln(p.stderr, "E: Could not create temporary file for /var/lib/apt/extended_states - mkstemp (13: Permission denied)")
		return aptFailed
	}
	for _, name := range args[1:] {
		old, ok := disk.Database(d)[name]
		if _, known := archive.InUbuntu(name); !ok && !known {
			fmt.Fprintf(p.stderr, "E: Unable to locate package %s\nE: No packages found\n", name)
			return aptFailed
		}
		if !ok || old.Held == hold {
			p.printf("%s was already %s.\n", name, map[bool]string{true: "set on hold", false: "not on hold"}[hold])
			continue
		}
		_ = disk.EditPackages(d, func(all map[string]disk.Package) { q := all[name]; q.Held = hold; all[name] = q })
		p.sys.mutated("package " + name + " " + args[0])
		p.printf("%s %s.\n", name, map[bool]string{true: "set on hold", false: "canceled hold on"}[hold])
	}
	return 0
}

func runAptCache(_ context.Context, p *proc) int {
	_, args := flags(p.args[1:])
	if len(args) < 2 || args[0] != "policy" && args[0] != "madison" {
		return p.fail("only policy and madison are simulated")
	}
	a := &apt{p: p, fs: p.fs.AsRoot(), disk: p.sys.cfg.Disk}
	for _, name := range args[1:] {
		r, ok := a.find(name)
		if !ok {
			continue
		}
		if args[0] == "madison" {
			for _, v := range r.Versions {
				p.printf(" %s | %s | %s\n", name, v, r.Origin)
			}
			continue
		}
		installed := disk.Database(a.disk)[name].Version
		if installed == "" {
			installed = "(none)"
		}
		p.printf("%s:\n  Installed: %s\n  Candidate: %s\n", name, installed, r.Versions[0])
	}
	return 0
}

// runDpkg is dpkg-query -W [-f FORMAT], dpkg -l, -s, and --print-architecture.
func runDpkg(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "f", "showformat")
	if has(opts, "print-architecture") {
		p.printf("amd64\n")
		return 0
	}
	all := disk.Database(p.sys.cfg.Disk)
	format := last(opts, "f", "showformat")
	if format == "" {
		format = "${binary:Package}\t${Version}\n"
	}
	switch {
	case has(opts, "l", "list"):
		format = "${db:Status-Abbrev} ${Package} ${Version} amd64\n"
	case has(opts, "s", "status"):
		format = "Package: ${Package}\nStatus: ${Status}\nVersion: ${Version}\n\n"
	case !has(opts, "W", "show"):
		_ = p.fail("error: only -W, -l, -s and --print-architecture are simulated")
		return 2
	}
	if len(args) == 0 {
		args = []string{"*"}
	}
	code := 0
	for _, pattern := range args {
		found := false
		for _, name := range slices.Sorted(maps.Keys(all)) {
			ok, err := path.Match(pattern, name)
			if err != nil || !ok || all[name].Version == "" {
				continue
			}
			found = true
			p.printf("%s", dpkgFormat(format, name, all[name]))
		}
		if !found {
			fmt.Fprintf(p.stderr, "%s: no packages found matching %s\n", p.name(), pattern)
			code = 1
		}
	}
	return code
}

func dpkgFormat(format, name string, q disk.Package) string {
	status, abbrev := "install ok installed", "ii "
	state := "installed"
	if q.Half {
		status, abbrev, state = "install ok half-configured", "iF ", "half-configured"
	}
	if q.Held {
		status, abbrev = "hold ok installed", "hi "
	}
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", "${Package}", name, "${binary:Package}", name, "${Version}", q.Version, "${Architecture}", "amd64",
		"${Status}", status, "${db:Status-Abbrev}", abbrev, "${db:Status-Status}", state, "${db:Status-Want}", strings.Fields(status)[0]).Replace(format)
}

// runUbuntuDrivers is ubuntu-drivers list --gpgpu.
func runUbuntuDrivers(_ context.Context, p *proc) int {
	_, args := flags(p.args[1:])
	if len(args) == 0 || args[0] != "list" {
		return p.fail("only list is simulated")
	}
	if len(gpus(p.sys.cfg.PCI)) == 0 {
		return 0
	}
	for _, b := range []string{"595-server-open", "580-server-open", "595-server", "580-server"} {
		p.printf("nvidia-driver-%s, (kernel modules provided by linux-modules-nvidia-%s-generic)\n", b, b)
	}
	return 0
}
