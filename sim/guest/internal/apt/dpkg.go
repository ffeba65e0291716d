package apt

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

func runAptMark(_ context.Context, p *machine.Proc) int {
	_, args := getopt.Parse(p.Args[1:])
	if len(args) == 0 {
		return p.Fail("a command is needed")
	}
	d := p.Sys.Config.Disk
	switch args[0] {
	case "showhold":
		for _, name := range d.Holds() {
			p.Printf("%s\n", name)
		}
		return 0
	case "hold", "unhold":
	case "manual", "auto", "showmanual":
		return 0
	default:
		fmt.Fprintf(p.Stderr, "E: Invalid operation %s\n", args[0])
		return exitFailed
	}
	hold := args[0] == "hold"
	if p.User.UID != 0 {
		fmt.Fprintln(p.Stderr, "E: Could not create temporary file for /var/lib/apt/extended_states - mkstemp (13: Permission denied)")
		return exitFailed
	}
	for _, name := range args[1:] {
		old, ok := disk.Database(d)[name]
		if _, known := archive.InUbuntu(name); !ok && !known {
			fmt.Fprintf(p.Stderr, "E: Unable to locate package %s\nE: No packages found\n", name)
			return exitFailed
		}
		if !ok || old.Held == hold {
			p.Printf("%s was already %s.\n", name, map[bool]string{true: "set on hold", false: "not on hold"}[hold])
			continue
		}
		_ = disk.EditPackages(d, func(all map[string]disk.Package) { q := all[name]; q.Held = hold; all[name] = q })
		p.Sys.RecordChange("package " + name + " " + args[0])
		p.Printf("%s %s.\n", name, map[bool]string{true: "set on hold", false: "canceled hold on"}[hold])
	}
	return 0
}

// runDpkg is dpkg-query -W [-f FORMAT], dpkg -l, -s, and --print-architecture.
func runDpkg(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "f", "showformat")
	if getopt.Has(opts, "print-architecture") {
		p.Printf("amd64\n")
		return 0
	}
	all := disk.Database(p.Sys.Config.Disk)
	format := getopt.Last(opts, "f", "showformat")
	if format == "" {
		format = "${binary:Package}\t${Version}\n"
	}
	switch {
	case getopt.Has(opts, "l", "list"):
		format = "${db:Status-Abbrev} ${Package} ${Version} amd64\n"
	case getopt.Has(opts, "s", "status"):
		format = "Package: ${Package}\nStatus: ${Status}\nVersion: ${Version}\n\n"
	case !getopt.Has(opts, "W", "show"):
		_ = p.Fail("error: only -W, -l, -s and --print-architecture are simulated")
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
			p.Printf("%s", dpkgFormat(format, name, all[name]))
		}
		if !found {
			fmt.Fprintf(p.Stderr, "%s: no packages found matching %s\n", p.Name(), pattern)
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
