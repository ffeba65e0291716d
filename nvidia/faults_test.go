package nvidia

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cps-gpu/homelab/internal/faults"
	"github.com/cps-gpu/homelab/remote"
)

// gpuMachine is as much of a machine as installing a driver sees of it: packages, what
// is held, files, and what DKMS has built.
type gpuMachine struct {
	kernel   string
	packages map[string]string
	held     []string
	files    map[string]string // by path
	built    []string          // kernels
	offers   string            // what ubuntu-drivers lists
	sources  string            // a path without which apt-get finds nothing; may be empty
}

// Run implements remote.Runner.
func (g *gpuMachine) Run(_ context.Context, cmd remote.Cmd) error {
	args := cmd.Args
	switch {
	case args[0] == "sh" && args[2] == observeScript:
		_, err := io.WriteString(cmd.Stdout, g.observation())
		return err
	case args[0] == "sh" && args[2] == offersScript:
		_, err := io.WriteString(cmd.Stdout, g.offers)
		return err
	case args[0] == "sh": // write.sh PATH MODE SIZE
		content, err := io.ReadAll(cmd.Stdin)
		g.files[args[4]] = string(content)
		return err
	case args[0] == "curl":
		g.files[args[slices.Index(args, "--output")+1]] = "key"
	case args[0] == "rm":
		maps.DeleteFunc(g.files, func(path, _ string) bool { return strings.HasPrefix(path, args[2]) })
	case args[0] == "dkms":
		g.built = append(g.built, args[3])
	case args[0] == "apt-mark":
		for _, name := range args[2:] {
			g.held = slices.DeleteFunc(g.held, func(h string) bool { return h == name })
		}
		if args[1] == "hold" {
			g.held = append(g.held, args[2:]...)
		}
	case slices.Contains(args, "install"):
		return g.install(args[slices.Index(args, "install")+1:])
	case !slices.Contains(args, "update"):
		return fmt.Errorf("a command that this machine does not know: %s", cmd)
	}
	return nil
}

func (g *gpuMachine) install(args []string) error {
	if g.sources != "" && g.files[g.sources] == "" {
		return errors.New("E: Unable to locate package")
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "/") {
			if g.files[arg] == "" {
				return errors.New("E: Unsupported file")
			}
			parts := strings.Split(path.Base(arg), "_")
			arg = parts[0] + "=" + parts[1]
		}
		name, version, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(name, "--") {
			continue
		}
		g.held = slices.DeleteFunc(g.held, func(h string) bool { return h == name }) // as apt-get does
		if gone, ok := strings.CutSuffix(name, "-"); ok {
			delete(g.packages, gone)
			continue
		}
		if version == "" {
			version = "580.173.02"
		}
		g.packages[name] = version
	}
	return nil
}

func (g *gpuMachine) observation() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n=== kernel\n%s\n\n=== packages\n", g.kernel)
	for _, name := range slices.Sorted(maps.Keys(g.packages)) {
		fmt.Fprintf(&b, "%s %s installed\n", name, g.packages[name])
	}
	fmt.Fprintf(&b, "\n=== held\n%s\n\n=== dkms\n", strings.Join(g.held, "\n"))
	for _, kernel := range g.built {
		fmt.Fprintf(&b, "nvidia/580.173.02, %s, x86_64: installed\n", kernel)
	}
	return b.String() + "\n=== smi\nnvidia-smi: not found\n\n=== end\n127\n"
}

// TestEveryCommandFails: each command of each verb is lost, unheard, refused, and the
// last that the machine hears. The verb says so; called again, it brings about the rest.
func TestEveryCommandFails(t *testing.T) {
	debian := Recipe{Driver: Driver{595, Open}, System: "debian-13", Build: true}
	built := Recipe{Driver: driver580.Driver, Build: true}
	folder := folderToolkit(t)
	type verb struct {
		make func() *gpuMachine
		do   func(ctx context.Context, r remote.Runner) error
		diff func(s DriverState) string
	}
	empty := func(sources string) func() *gpuMachine {
		return func() *gpuMachine {
			return &gpuMachine{kernel: "6.8.0-85-generic", packages: map[string]string{}, files: map[string]string{}, sources: sources}
		}
	}
	driver := func(r Recipe, m func() *gpuMachine) verb {
		return verb{m, func(ctx context.Context, on remote.Runner) error { return InstallDriver(ctx, on, r) },
			func(s DriverState) string { return r.DiffPackages(s).String() }}
	}
	for name, v := range map[string]verb{
		"driver":      driver(driver580, empty("")),
		"by DKMS":     driver(built, empty("")),
		"of NVIDIA's": driver(debian, empty("/etc/apt/sources.list.d/"+debian.source().File)),
		"other mode": driver(built, func() *gpuMachine {
			g := empty("")()
			_ = g.install(driver580.Packages())
			g.held = driver580.Holds()
			return g
		}),
		"next kernel": driver(debian, func() *gpuMachine {
			g := empty("")()
			_ = g.install(append(debian.Packages(), "linux-image-6.12.110+deb13-amd64"))
			g.held, g.built = debian.Holds(), []string{g.kernel}
			return g
		}),
		"forgotten source": driver(debian, func() *gpuMachine {
			g := empty("")()
			_ = g.install(debian.Packages())
			g.held = debian.Holds()
			return g
		}),
		"toolkit": {empty(toolkitList), func(ctx context.Context, r remote.Runner) error { return InstallToolkit(ctx, r, Toolkit{}) },
			func(s DriverState) string { return Toolkit{}.diffPackages(s).String() }},
		"toolkit of a folder": {empty(""), func(ctx context.Context, r remote.Runner) error { return InstallToolkit(ctx, r, folder) },
			func(s DriverState) string { return folder.diffPackages(s).String() }},
	} {
		t.Run(name, func(t *testing.T) {
			faults.Each(t, []faults.Kind{faults.Lost, faults.Unheard, faults.Refused, faults.Outage}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				g := v.make()
				r := f.Runner(g)
				use(t, faults.Case{
					Do: func() error { return v.do(t.Context(), r) },
					Done: func() string {
						s, err := ObserveDriver(t.Context(), g)
						if err != nil {
							return err.Error()
						}
						return v.diff(s)
					},
				})
			})
		})
	}
	faults.Each(t, []faults.Kind{faults.Lost, faults.Unheard, faults.Refused, faults.CutShort}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
		r := f.Runner(empty("")())
		use(t, faults.Case{Do: func() error { _, err := ObserveDriver(t.Context(), r); return err }})
	})
}
