package gpu

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// What is said of DKMS was seen on dkms 3.2.2 of Debian 13, run over trees of its own
// with a trivial module; Ubuntu 24.04 has 3.0.11, whose texts differ in a few words.
const (
	dkmsTree  = "/var/lib/dkms"
	buildTime = 3 * time.Minute // NVIDIA's modules on four cores
)

// dkmsSource is NVIDIA's modules as source.
type dkmsSource struct{ branch, version, flavour string }

var dkmsSources = regexp.MustCompile(`^nvidia-(?:dkms-(\d+(?:-server)?)(-open)?|kernel(-open)?-dkms)$`)

// SourceOf reads the name of a package of such source; ok is false for another's.
func SourceOf(name, version string) (s dkmsSource, ok bool) {
	m := dkmsSources.FindStringSubmatch(name)
	if m == nil {
		return s, false
	}
	s = dkmsSource{branch: m[1], version: upstream(version), flavour: "proprietary"}
	if s.branch == "" {
		s.branch, _, _ = strings.Cut(s.version, ".")
	}
	if m[2]+m[3] != "" {
		s.flavour = "open"
	}
	return s, true
}

func (s dkmsSource) dir() string                   { return dkmsTree + "/nvidia/" + s.version }
func (s dkmsSource) buildDir(kernel string) string { return s.dir() + "/" + kernel + "/x86_64" }

func dkmsModule(kernel string) string {
	return "/usr/lib/modules/" + kernel + "/updates/dkms/nvidia.ko"
}

// DKMS builds modules on the guest's own disk.
type DKMS struct {
	p    *machine.Proc
	fs   *disk.View // root's
	disk *disk.Disk
}

// NewDKMS is DKMS as it works for a program.
func NewDKMS(p *machine.Proc) *DKMS {
	return &DKMS{p: p, fs: p.FS.AsRoot(), disk: p.Sys.Config.Disk}
}

// source is what is installed to be built; nil: nothing is.
func (d *DKMS) source() *dkmsSource {
	for _, name := range slices.Sorted(maps.Keys(disk.Database(d.disk))) {
		s, ok := SourceOf(name, disk.Database(d.disk)[name].Version)
		if _, err := d.fs.Stat(s.dir()); ok && err == nil {
			return &s
		}
	}
	return nil
}

func (d *DKMS) there(name string) bool {
	_, err := d.fs.Stat(name)
	return err == nil
}

func (d *DKMS) headers(kernel string) bool {
	return disk.Database(d.disk)["linux-headers-"+kernel].Version != ""
}

// install is "dkms build" and "dkms install" of a kernel's modules.
func (d *DKMS) install(ctx context.Context, s dkmsSource, kernel string) int {
	if d.there(s.buildDir(kernel)) {
		return 0
	}
	if !d.headers(kernel) {
		fmt.Fprintf(d.p.Stderr, "\nError! Your kernel headers for kernel %s cannot be found at /lib/modules/%[1]s/build or /lib/modules/%[1]s/source.\n"+
			"Please install the linux-headers-%[1]s package or use the --kernelsourcedir option to tell DKMS where it's located.\n", kernel)
		return 21
	}
	log := s.dir() + "/build/make.log"
	d.fs.Save(log, "", 0o644)
	if d.p.Wait(ctx, buildTime) != nil {
		return 1 // and the half-made build stays, as of one that was killed
	}
	text := fmt.Sprintf("DKMS (dkms-3.2.2) make.log for nvidia/%s for kernel %s (x86_64)\n%s\n\nBuilding module(s)\n# command: make -j%d KERNELRELEASE=%[2]s\n",
		s.version, kernel, time.Now().UTC().Format("Mon Jan _2 15:04:05 UTC 2006"), d.p.Sys.Config.CPUs)
	if bad := d.breaks(s); bad != "" {
		d.fs.Save(log, text+bad+"\n# exit code: 2\n# elapsed time: 00:01:07\n----------------------------------------------------------------\n", 0o644)
		d.p.Printf("Building module(s)...(bad exit status: 2)\nFailed command:\nmake -j%d KERNELRELEASE=%s\n", d.p.Sys.Config.CPUs, kernel)
		fmt.Fprintf(d.p.Stderr, "\nError! Bad return status for module build on kernel: %s (x86_64)\nConsult %s for more information.\n", kernel, log)
		return 10
	}
	_ = d.fs.RemoveAll(s.dir() + "/build")
	d.fs.Save(s.buildDir(kernel)+"/log/make.log", text+"\n# exit code: 0\n", 0o644)
	d.fs.Save(s.buildDir(kernel)+"/module/nvidia.ko", s.version, 0o644)
	d.fs.Save(dkmsModule(kernel), strings.Join([]string{s.branch, s.version, s.flavour}, " "), 0o644)
	d.p.Printf("Building module(s)... done.\nInstalling /lib/modules/%s/updates/dkms/nvidia.ko\nRunning depmod... done.\n", kernel)
	d.p.Sys.RecordChange("modules " + s.version + " built for " + kernel)
	return 0
}

// breaks is what the compiler says when it does not come through; "" when it does.
func (d *DKMS) breaks(s dkmsSource) string {
	if !d.there("/usr/bin/gcc") {
		return "make[1]: cc: No such file or directory\n/bin/sh: 1: cc: not found\nmake: *** [Makefile:115: modules] Error 127\n"
	}
	if !d.p.Sys.Faulty(func(f machine.Faults) bool { return f.ModuleDoesNotBuild }) {
		return ""
	}
	at := s.dir() + "/build/nvidia/nv-mmap.c"
	return "  CC [M]  nvidia/nv-mmap.o\n" + at + ": In function ‘nv_encode_caching’:\n" +
		at + ":482:9: error: implicit declaration of function ‘in_irq’; did you mean ‘in_hardirq’? [-Wimplicit-function-declaration]\n" +
		"  482 |     if (in_irq())\n      |         ^~~~~~\ncc1: some warnings being treated as errors\n" +
		"make[3]: *** [scripts/Makefile.build:246: nvidia/nv-mmap.o] Error 1\nmake: *** [Makefile:115: modules] Error 2\n"
}

// Add is the end of a package of source's installation, "common.postinst": it is built
// for all kernels whose headers are there.
func (d *DKMS) Add(ctx context.Context, s dkmsSource) int {
	if d.there(s.dir()) {
		d.p.Printf("Removing old nvidia/%s DKMS files...\n", s.version)
		d.Remove(s)
	}
	d.fs.Save(s.dir()+"/source", "/usr/src/nvidia-"+s.version+"\n", 0o644)
	d.p.Printf("Loading new nvidia/%s DKMS files...\n", s.version)
	kernels := d.Kernels()
	if len(kernels) == 0 {
		d.p.Printf("WARNING: No kernel headers were found, skipping module build.\n         To get the headers for the running kernel (%s)\n"+
			"         please install the linux-headers-%[1]s package.\n", d.p.Sys.Kernel())
		return 0
	}
	d.p.Printf("Building for %s\n", strings.Join(kernels, " and "))
	for _, kernel := range kernels {
		d.p.Printf("\nBuilding initial module nvidia/%s for %s\n", s.version, kernel)
		if code := d.install(ctx, s, kernel); code != 0 {
			return code
		}
	}
	return 0
}

// Kernels are those that are installed with their headers, oldest first.
func (d *DKMS) Kernels() []string {
	var out []string
	for name := range disk.Database(d.disk) {
		if k, ok := strings.CutPrefix(name, "linux-image-"); ok && d.headers(k) && k[0] >= '0' && k[0] <= '9' {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, machine.CompareVersions)
	return out
}

// Remove is "dkms remove --all", with which a package of source goes.
func (d *DKMS) Remove(s dkmsSource) {
	entries, _ := d.fs.ReadDir(s.dir())
	for _, e := range entries {
		_ = d.fs.Remove(dkmsModule(e.Name()))
	}
	_ = d.fs.RemoveAll(s.dir())
	d.p.Printf("Deleting module nvidia/%s completely from the DKMS tree.\n", s.version)
}

// Autoinstall is what the hooks of kernels and headers run, too.
func (d *DKMS) Autoinstall(ctx context.Context, kernel string) int {
	s := d.source()
	if s == nil || d.there(s.buildDir(kernel)) {
		return 0
	}
	if !d.headers(kernel) {
		return d.install(ctx, *s, kernel)
	}
	d.p.Printf("Autoinstall of module nvidia/%s for kernel %s (x86_64)\n", s.version, kernel)
	code := d.install(ctx, *s, kernel)
	if code == 0 {
		d.p.Printf("\nAutoinstall on %s succeeded for module(s) nvidia.\n", kernel)
		return 0
	}
	d.p.Printf("\nAutoinstall on %s failed for module(s) nvidia(%d).\n", kernel, code)
	fmt.Fprint(d.p.Stderr, "\nError! One or more modules failed to install during autoinstall.\nRefer to previous errors for more information.\n")
	return 11
}

// status prints a line for each kernel that modules were built for.
func (d *DKMS) status() int {
	s := d.source()
	if s == nil {
		return 0
	}
	entries, _ := d.fs.ReadDir(s.dir())
	none := true
	for _, e := range entries {
		if d.there(path.Join(s.dir(), e.Name(), "x86_64")) {
			none = false
			d.p.Printf("nvidia/%s, %s, x86_64: %s\n", s.version, e.Name(), map[bool]string{true: "installed", false: "built"}[d.there(dkmsModule(e.Name()))])
		}
	}
	if none {
		d.p.Printf("nvidia/%s: added\n", s.version)
	}
	return 0
}

// runDKMS is dkms status, dkms autoinstall [-k KERNEL] and dkms remove MODULE/VERSION --all.
func runDKMS(ctx context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "k", "m", "v")
	d := NewDKMS(p)
	switch {
	case len(args) == 1 && args[0] == "status":
		return d.status()
	case p.User.UID != 0:
		fmt.Fprint(p.Stderr, "\nError! You must be root to use this command.\n")
		return 1
	case len(args) == 2 && args[0] == "remove" && d.source() != nil && args[1] == "nvidia/"+d.source().version && getopt.Has(opts, "all"):
		d.Remove(*d.source())
		return 0
	case len(args) == 1 && args[0] == "autoinstall":
		kernel := getopt.Last(opts, "k")
		if kernel == "" {
			kernel = p.Sys.Kernel()
		}
		return d.Autoinstall(ctx, kernel)
	}
	return p.Fail("only status, autoinstall and remove --all are simulated")
}
