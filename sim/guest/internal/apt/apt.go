package apt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/archive"
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/internet"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/systemd"
)

// Programs returns the programs of apt and dpkg.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"apt": runApt, "apt-get": runApt,
		"apt-mark": runAptMark,
		"dpkg":     runDpkg, "dpkg-query": runDpkg,
	}
}

// exitFailed is apt-get's exit status for everything that goes wrong.
const exitFailed = 100

func runApt(ctx context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "o", "t", "c")
	if len(args) == 0 {
		return p.Fail("a command is needed")
	}
	if path.Base(p.Args[0]) == "apt" {
		fmt.Fprint(p.Stderr, "\nWARNING: apt does not have a stable CLI interface. Use with caution in scripts.\n\n")
	}
	if p.User.UID != 0 {
		fmt.Fprintln(p.Stderr, "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)")
		return exitFailed
	}
	apt := &apt{p: p, fs: p.FS.AsRoot(), disk: p.Sys.Config.Disk}
	apt.download, apt.simulate = getopt.Has(opts, "d", "download-only"), getopt.Has(opts, "s", "simulate")
	switch args[0] {
	case "update":
		return apt.update(ctx)
	case "install":
		apt.again = getopt.Has(opts, "reinstall")
		return apt.install(ctx, args[1:], getopt.Has(opts, "allow-change-held-packages"))
	case "remove", "purge", "autoremove":
		return apt.remove(args[1:])
	case "upgrade", "dist-upgrade", "full-upgrade":
		return apt.upgrade(ctx, args[1:], args[0] != "upgrade" || getopt.Has(opts, "with-new-pkgs"), getopt.Has(opts, "allow-change-held-packages"))
	case "clean", "autoclean":
		return 0
	}
	fmt.Fprintf(p.Stderr, "E: Invalid operation %s\n", args[0])
	return exitFailed
}

// apt works on the guest's own disk.
type apt struct {
	p    *machine.Proc
	fs   *disk.View // root's, and not counted as the caller's changes: the package is
	disk *disk.Disk

	again, download, simulate bool              // --reinstall, --download-only, --simulate
	files                     map[string]string // versions of the packages whose files the command names
}

// unreachable says why an archive's server cannot be reached, "" where it answers, whatever it
// does. A machine that was given no internet has all archives at hand.
func (a *apt) unreachable(ctx context.Context, uri string) string {
	if strings.HasPrefix(uri, "https://") && a.cached() {
		return "Invalid response from proxy: HTTP/1.1 403 CONNECT denied"
	}
	if a.p.Sys.Config.Internet == nil {
		return ""
	}
	if _, err := a.p.Download(ctx, uri); err != nil && !errors.Is(err, internet.ErrNotFound) {
		return "Could not connect"
	}
	return ""
}

// cached reports whether https goes through the proxy for http, as it does where apt is
// not given another (apt-transport-https(1)). The proxies for http here are caches of
// packages, which refuse CONNECT.
func (a *apt) cached() bool {
	conf, _ := a.fs.ReadFile(ProxyFile)
	return strings.Contains(string(conf), "Acquire::http::Proxy") && !strings.Contains(string(conf), "Acquire::https::Proxy")
}

func (a *apt) update(ctx context.Context) int {
	code := 0
	for i, s := range sources(a.fs) {
		if key, err := a.fs.ReadFile(s.key); !s.trusted && s.key != "" && (err != nil || len(key) == 0) {
			fmt.Fprintf(a.p.Stderr, "W: GPG error: %s  InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY\n", s.uri)
			fmt.Fprintf(a.p.Stderr, "E: The repository '%s  InRelease' is not signed.\n", s.uri)
			code = exitFailed
			continue
		}
		if why := a.unreachable(ctx, s.uri); why != "" {
			fmt.Fprintf(a.p.Stderr, "W: Failed to fetch %s  %s\nW: Some index files failed to download. They have been ignored, or old ones used instead.\n", s.uri, why)
			continue // which apt-get does not count as a failure
		}
		a.p.Printf("Get:%d %s InRelease\n", i+1, s.uri)
		if err := a.fs.WriteFile("/var/lib/apt/lists/"+s.listFile(), []byte(s.uri+"\n"), 0o644); err != nil {
			fmt.Fprintf(a.p.Stderr, "E: %s\n", disk.Strerror(err))
			return exitFailed
		}
	}
	a.p.Printf("Reading package lists...\n")
	return code
}

// find finds a package in the indexes that update has fetched.
func (a *apt) find(name string) (archive.Release, bool) {
	r, ok := a.release(name)
	if (r.Origin == archive.Kubernetes || r.Origin == archive.CRIO) && len(r.Versions) > 1 { // a repository has one minor
		r.Versions = slices.DeleteFunc(slices.Clone(r.Versions), func(v string) bool {
			minor := "/v" + strings.Join(strings.SplitN(v, ".", 3)[:2], ".") + "/"
			return !slices.ContainsFunc(sources(a.fs), func(s aptSource) bool { return s.has(r.Origin) && strings.Contains(s.uri, minor) })
		})
		ok = ok && len(r.Versions) > 0
	}
	return r, ok && slices.ContainsFunc(sources(a.fs), func(s aptSource) bool {
		_, err := a.fs.Stat("/var/lib/apt/lists/" + s.listFile())
		return err == nil && s.has(r.Origin)
	})
}

// release is a package as some archive of the machine's distribution has it.
func (a *apt) release(name string) (archive.Release, bool) {
	r, ok := archive.Find(image.DistroOf(a.p.Sys.Root()).ID, name, a.disk)
	if a.p.Sys.Faulty(func(f machine.Faults) bool { return f.ArchiveMovesOn }) {
		r = r.MovedOn()
	}
	return r, ok
}

// order adds a package and what it needs to want, by name.
func (a *apt) order(name, version string, want map[string]string) string {
	r, ok := a.find(name)
	if file := a.files[name]; file != "" && (version == "" || version == file) {
		version, ok = file, true
		r, _ = a.release(name)
		r.Versions = []string{file}
	}
	if !ok {
		return "E: Unable to locate package " + name
	}
	if i := slices.IndexFunc(r.Versions, func(v string) bool { is, _ := path.Match(version, v); return is }); i >= 0 {
		version = r.Versions[i] // a pattern is allowed
	} else if version != "" {
		return fmt.Sprintf("E: Version '%s' for '%s' was not found", version, name)
	}
	if old, ok := want[name]; ok && (version == "" || old == version) {
		return ""
	}
	if version == "" {
		version = r.Versions[0]
	}
	want[name] = version
	for _, n := range r.Needs {
		if _, there := disk.Database(a.disk)[n]; there {
			continue
		}
		v := ""
		if needed, _ := a.release(n); slices.Contains([]string{archive.Toolkit, archive.NVIDIA}, r.Origin) && needed.Origin == r.Origin {
			v = version
		}
		if _, asked := want[n]; asked {
			continue
		}
		if problem := a.order(n, v, want); problem != "" {
			return fmt.Sprintf("The following packages have unmet dependencies:\n %s : Depends: %s but it is not installable\nE: Unable to correct problems, you have held broken packages.", name, n)
		}
	}
	return ""
}

func (a *apt) install(ctx context.Context, args []string, changeHeld bool) int {
	want := map[string]string{}
	var problems, gone, asked []string
	args, problem := a.readFiles(args)
	if problem != "" {
		fmt.Fprintln(a.p.Stderr, problem)
		return exitFailed
	}
	for _, arg := range args {
		if name, goes := strings.CutSuffix(arg, "-"); goes {
			gone = append(gone, name)
			continue
		}
		name, version, _ := strings.Cut(arg, "=")
		name, _, _ = strings.Cut(name, "/")
		asked = append(asked, name)
		if problem := a.order(name, version, want); problem != "" {
			problems = append(problems, problem)
		}
	}
	for name, version := range want {
		old, there := disk.Database(a.disk)[name]
		switch {
		case there && old.Version == version && !old.Half && !a.again:
			delete(want, name)
		case there && old.Held && !changeHeld:
			problems = append(problems, "E: Held packages were changed and -y was used without --allow-change-held-packages.")
		}
	}
	var given []string
	given, problem = a.giveWay(want, asked, gone)
	if gone = append(gone, given...); problem != "" {
		problems = append(problems, problem)
	}
	a.p.Printf("Reading package lists...\nBuilding dependency tree...\nReading state information...\n")
	if len(problems) > 0 {
		fmt.Fprintln(a.p.Stderr, strings.Join(problems, "\n"))
		return exitFailed
	}
	if a.simulate {
		a.show(want)
		return 0
	}
	var from []aptSource
	if a.fetches(want) {
		from = sources(a.fs)
	}
	for _, s := range from {
		if why := a.unreachable(ctx, s.uri); why != "" {
			fmt.Fprintf(a.p.Stderr, "E: Failed to fetch %s  %s\nE: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n", s.uri, why)
			return exitFailed
		}
	}
	if a.download { // the archive's files are at hand then (apt-get(8), --download-only)
		return 0
	}
	if code := a.remove(gone); code != 0 {
		return code
	}
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if a.p.Wait(ctx, 200*time.Millisecond) != nil { // a dpkg run that was cut short leaves what it has done
			return exitFailed
		}
		a.unpack(ctx, name, want[name]) // and holds it no longer: seen of apt 3.0.3
		_ = disk.EditPackages(a.disk, func(all map[string]disk.Package) { q := all[name]; q.Held = false; all[name] = q })
		if code := a.configure(ctx, name, want[name]); code != 0 {
			failed = append(failed, name)
			_ = disk.EditPackages(a.disk, func(all map[string]disk.Package) { q := all[name]; q.Half = true; all[name] = q })
			fmt.Fprintf(a.p.Stderr, "dpkg: error processing package %s (--configure):\n installed %[1]s package post-installation script subprocess returned error exit status %d\n", name, code)
		}
	}
	if len(failed) > 0 {
		fmt.Fprintf(a.p.Stderr, "Errors were encountered while processing:\n %s\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n", strings.Join(failed, "\n "))
		return exitFailed
	}
	a.p.Printf("0 upgraded, %d newly installed, %d to remove.\n", len(want), len(gone))
	return 0
}

// configure is what a package's scripts do at its end, as far as DKMS goes.
func (a *apt) configure(ctx context.Context, name, version string) int {
	d := gpu.NewDKMS(a.p)
	if s, ok := gpu.SourceOf(name, version); ok {
		return d.Add(ctx, s)
	}
	for _, part := range []string{"linux-headers-", "linux-image-"} { // whichever comes last
		kernel, ok := strings.CutPrefix(name, part)
		if ok && slices.Contains(d.Kernels(), kernel) && d.Autoinstall(ctx, kernel) != 0 {
			return 1 // of run-parts, whatever dkms' own is
		}
	}
	return 0
}

func (a *apt) unpack(ctx context.Context, name, version string) {
	a.p.Printf("Setting up %s (%s) ...\n", name, version)
	r, _ := a.release(name)
	for _, prog := range r.Programs {
		_ = a.fs.WriteFile("/usr/bin/"+prog, disk.Program(prog, "package: "+name, "version: "+version), 0o755)
	}
	if m := archive.ModulePackage.FindStringSubmatch(name); m != nil && strings.HasSuffix(m[3], "-generic") {
		a.fs.Save("/usr/lib/modules/"+m[3]+"/kernel/nvidia-"+m[1]+m[2]+"/nvidia.ko", "nvidia "+archive.DriverVersion(m[1])+"\n", 0o644)
	}
	if m := archive.KernelPackage.FindStringSubmatch(name); m != nil && m[1] == "image" {
		a.fs.Save("/boot/vmlinuz-"+m[2], "kernel "+m[2]+"\n", 0o644)
		a.fs.Save("/run/reboot-required", "*** System restart required ***\n", 0o644) // unattended-upgrades' hook of kernels
	}
	if name == "cri-o" {
		a.unpackCRIO()
	}
	_ = disk.Install(a.disk, name, version)
	a.p.Sys.RecordChange("package " + name + " " + version + " installed")
	if r.Service != "" {
		unit, restart := "/usr/lib/systemd/system/"+r.Service+".service", ""
		if r.Restarts {
			restart = "\nRestart=always\nRestartSec=10"
		}
		a.fs.Save(unit, "[Unit]\nDescription="+name+"\n\n[Service]\nExecStart=/usr/bin/"+r.Programs[0]+restart+"\n\n[Install]\nWantedBy=multi-user.target\n", 0o644)
		if !r.Idle && systemd.Enable(a.p.Sys, r.Service+".service") == nil {
			_ = systemd.Start(ctx, a.p.Sys, r.Service+".service", true)
		}
	}
}

// unpackCRIO are the files of CRI-O's package besides its programs (cri-o/packaging, templates/latest/cri-o).
func (a *apt) unpackCRIO() {
	for _, program := range []string{"crun", "runc", "conmon", "conmonrs"} {
		a.fs.Save("/usr/libexec/crio/"+program, string(disk.Program(program)), 0o755)
	}
	config := "[crio.image]\nsignature_policy = \"/etc/crio/policy.json\"\n\n[crio.runtime]\ndefault_runtime = \"crun\"\n"
	for _, name := range []string{"crun", "runc"} {
		config += fmt.Sprintf("\n[crio.runtime.runtimes.%s]\nruntime_path = \"/usr/libexec/crio/%[1]s\"\nruntime_root = \"/run/%[1]s\"\nmonitor_path = \"/usr/libexec/crio/conmon\"\n", name)
	}
	a.fs.Save("/etc/crio/crio.conf.d/10-crio.conf", config, 0o644)
}

func (a *apt) remove(names []string) int {
	for _, name := range names {
		if _, ok := disk.Database(a.disk)[name]; !ok {
			if _, known := a.find(name); !known {
				fmt.Fprintf(a.p.Stderr, "E: Unable to locate package %s\n", name)
				return exitFailed
			}
			continue
		}
		r, _ := a.release(name)
		if s, ok := gpu.SourceOf(name, disk.Database(a.disk)[name].Version); ok {
			gpu.NewDKMS(a.p).Remove(s)
		}
		if m := archive.ModulePackage.FindStringSubmatch(name); m != nil {
			_ = a.fs.RemoveAll("/usr/lib/modules/" + m[3] + "/kernel/nvidia-" + m[1] + m[2])
		}
		if r.Service != "" {
			_ = systemd.Stop(a.p.Sys, r.Service+".service")
			_ = a.fs.Remove("/usr/lib/systemd/system/" + r.Service + ".service")
		}
		for _, prog := range r.Programs {
			_ = a.fs.Remove("/usr/bin/" + prog)
		}
		_ = disk.EditPackages(a.disk, func(all map[string]disk.Package) { delete(all, name) })
		a.p.Sys.RecordChange("package " + name + " removed")
		a.p.Printf("Removing %s ...\n", name)
	}
	return 0
}
