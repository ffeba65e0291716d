package nvidia

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/converge"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

// What "dkms status" of 3.0 to 3.4 prints, and what that of 2 did.
func TestParseDKMS(t *testing.T) {
	for line, want := range map[string]ModuleBuild{
		"nvidia/595.71.05, 6.12.107+deb13-amd64, x86_64: installed":                       {"nvidia", "595.71.05", "6.12.107+deb13-amd64", "x86_64", "installed", ""},
		"nvidia/595.71.05, 6.12.107+deb13-amd64, x86_64: built":                           {"nvidia", "595.71.05", "6.12.107+deb13-amd64", "x86_64", "built", ""},
		"nvidia/595.71.05: added":                                                         {"nvidia", "595.71.05", "", "", "added", ""},
		"nvidia/595.71.05: broken":                                                        {"nvidia", "595.71.05", "", "", "broken", ""},
		"nvidia/580.173.02, 6.8.0-90-generic, x86_64: installed (original_module exists)": {"nvidia", "580.173.02", "6.8.0-90-generic", "x86_64", "installed", "original_module exists"},
		"nvidia/580.173.02, 6.8.0-90-generic, x86_64: installed (Original modules exist) (Differences between built and installed modules)": {
			"nvidia", "580.173.02", "6.8.0-90-generic", "x86_64", "installed", "Original modules exist, Differences between built and installed modules"},
		"nvidia/580.173.02, 6.8.0-90-generic, x86_64: installed (WARNING! Diff between built and installed module!)(WARNING! Missing some built modules!)": {
			"nvidia", "580.173.02", "6.8.0-90-generic", "x86_64", "installed", "WARNING! Diff between built and installed module!, WARNING! Missing some built modules!"},
		"nvidia, 580.173.02, 6.8.0-90-generic, x86_64: installed-weak from 6.8.0-88-generic": {"nvidia", "580.173.02", "6.8.0-90-generic", "x86_64", "installed-weak", ""},
		"nvidia, 535.54.03, 5.15.0-91-generic, x86_64: installed":                            {"nvidia", "535.54.03", "5.15.0-91-generic", "x86_64", "installed", ""},
	} {
		assert.Equal(t, []ModuleBuild{want}, parseDKMS(line+"\n"), line)
	}
	assert.Empty(t, parseDKMS("\nError! nvidia/1: Missing the module source directory or the symbolic link pointing to it.\nManual intervention is required!\n"))
}

func FuzzParseDKMS(f *testing.F) {
	f.Add("nvidia/595.71.05, 6.12.107+deb13-amd64, x86_64: installed (Original modules exist)\nnvidia/1: added\n")
	f.Add("a, b, c, d: installed-weak from e\n(((: )\n")
	f.Fuzz(func(t *testing.T, out string) {
		for _, b := range parseDKMS(out) {
			assert.NotEmpty(t, b.Module)
			assert.NotEmpty(t, b.Version)
			assert.NotEmpty(t, b.State)
			assert.Equal(t, b.Kernel == "", b.Arch == "")
		}
	})
}

func TestNextKernel(t *testing.T) {
	s := DriverState{Kernel: "6.8.0-88-generic", Packages: map[string]string{
		"linux-image-generic": "x", "linux-image-6.8.0-88-generic": "x", "linux-image-6.8.0-100-generic": "x", "linux-image-6.8.0-101-generic-unsigned": "x",
	}}
	assert.Equal(t, "6.8.0-100-generic", s.NextKernel(), "by number, and not by letter")
	assert.Equal(t, "6.1.0", DriverState{Kernel: "6.1.0"}.NextKernel())
}

func TestRecipes(t *testing.T) {
	ubuntu := Recipe{Driver: Driver{580, Open}, Build: true}
	assert.Equal(t, "580-server-open, built by DKMS", ubuntu.String())
	assert.Equal(t, []string{"linux-generic", "build-essential", "dkms", "nvidia-dkms-580-server-open", "nvidia-headless-no-dkms-580-server-open",
		"nvidia-utils-580-server", "libnvidia-decode-580-server", "libnvidia-encode-580-server"}, ubuntu.Packages())
	d := Recipe{Driver: Driver{580, Open}}.diffInstalled(DriverState{Packages: map[string]string{"nvidia-dkms-580-server-open": "580.95.05"}})
	assert.Contains(t, d, converge.Field{Path: FieldMode, Have: "dkms", Want: "prebuilt", Effect: converge.Restart, Note: "packages to remove: nvidia-dkms-580-server-open"})
	debian := Recipe{Driver: Driver{595, Proprietary}, System: "debian-13", Build: true}
	assert.Equal(t, "595-proprietary, built by DKMS", debian.String())
	assert.Equal(t, []string{"linux-image-amd64", "linux-headers-amd64", "build-essential", "dkms", "nvidia-driver-pinning-595", "nvidia-driver-cuda", "nvidia-kernel-dkms"}, debian.Packages())
	debian.Flavour = Open
	assert.Contains(t, debian.Packages(), "nvidia-kernel-open-dkms")
	for _, r := range []Recipe{ubuntu, debian} {
		for _, held := range r.Holds() {
			assert.False(t, strings.HasPrefix(held, "linux-"), "%s: DKMS builds for each kernel, so that it may move", held)
		}
	}
}

// The repository of Debian 13 begins with branch 590.
func TestBranchesOfDebian(t *testing.T) {
	policy := Policy{System: "debian-13", Build: true}
	d, why, err := SelectDriverBranch(ids(t, a100), policy)
	require.NoError(t, err)
	assert.Equal(t, Driver{595, Open}, d)
	assert.Equal(t, "595-server-open: NVIDIA's production branch, until March 2027; NVIDIA's repository for Debian 13 begins with 590; for NVIDIA A100-PCIE-40GB (Ampere)", why)
	_, _, err = SelectDriverBranch(ids(t, v100), policy)
	assert.EqualError(t, err, "no NVIDIA driver fits: branch 580 is the last for NVIDIA Tesla V100 PCIe 16GB (Volta), and NVIDIA's repository for Debian 13 begins with 590: write image: ubuntu-24.04, which has it")
	policy.Branch = "580"
	_, _, err = SelectDriverBranch(ids(t, a100), policy)
	assert.ErrorContains(t, err, "NVIDIA's repository for Debian 13 has no series of that branch; supported are 595")
}

// A build that failed ends with what the compiler said and what to do.
func TestBuildError(t *testing.T) {
	for log, want := range map[string]string{
		"nv-mmap.c:482:9: error: implicit declaration of function 'in_irq'":        "pin a newer branch",
		"/bin/sh: 1: cc: not found":                                                "apt-get install build-essential",
		"fatal error: error writing to /tmp/ccX.s: No space left on device":        "give the node a larger one",
		"gcc: fatal error: Killed signal terminated program cc1":                   "give the node 4 GiB or more",
		"Your kernel headers for kernel 6.12.88+deb13-amd64 cannot be found at /x": "upgrade the kernel and restart",
	} {
		e := &BuildError{Kernel: "6.12.107+deb13-amd64", Log: []string{log}, Err: errors.New("dkms failed")}
		assert.Contains(t, e.Error(), "dkms failed\n  make.log ends with:\n    "+log)
		assert.Contains(t, e.Error(), want)
	}
	assert.Equal(t, "strange", (&BuildError{Err: errors.New("strange")}).Error(), "no advice is better than a wrong one")
}

// scripted answers each look with the next of several, the last one again and again.
func scripted(t *testing.T, ran *[]string, looks ...string) remote.Runner {
	t.Helper()
	return remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		if cmd.Args[0] != "sh" {
			*ran = append(*ran, strings.TrimPrefix(cmd.String(), "env DEBIAN_FRONTEND=noninteractive "))
			return nil
		}
		_, err := io.WriteString(cmd.Stdout, looks[0])
		if len(looks) > 1 {
			looks = looks[1:]
		}
		return err
	})
}

// A kernel that came without its headers gets them, and then its modules; nothing else is touched.
func TestModulesForTheNextKernel(t *testing.T) {
	r := Recipe{Driver: Driver{595, Open}, System: "debian-13", Build: true}
	var text strings.Builder
	text.WriteString("\n=== kernel\n6.12.107+deb13-amd64\n=== packages\nlinux-image-6.12.107+deb13-amd64 1 installed\nlinux-image-6.12.110+deb13-amd64 1 installed\n")
	for _, p := range r.Packages() {
		text.WriteString(p + " 1 installed\n")
	}
	text.WriteString("=== held\n" + strings.Join(r.Holds(), "\n") + "\nlinux-image-amd64\nlinux-headers-amd64\n=== dkms\nnvidia/595.71.05, 6.12.107+deb13-amd64, x86_64: installed\n")
	before, after := text.String()+"=== end\n0\n", text.String()+"nvidia/595.71.05, 6.12.110+deb13-amd64, x86_64: installed\n=== end\n0\n"
	s, err := parseObservation(before)
	require.NoError(t, err)
	assert.Equal(t, "module/6.12.110+deb13-amd64: not built → built by DKMS", r.DiffPackages(s).String())

	var ran []string
	require.NoError(t, InstallDriver(t.Context(), scripted(t, &ran, before, before, after), r))
	assert.Equal(t, []string{
		"apt-get --quiet -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends --allow-change-held-packages linux-headers-6.12.110+deb13-amd64",
		"dkms autoinstall -k 6.12.110+deb13-amd64",
	}, ran)
	ran = nil
	forgot := strings.ReplaceAll(before, "nvidia/595.71.05, 6.12.107+deb13-amd64, x86_64: installed\n", "")
	require.NoError(t, InstallDriver(t.Context(), scripted(t, &ran, forgot, forgot, after), r))
	assert.Contains(t, ran[1], " --reinstall nvidia-kernel-open-dkms", "dkms remove has made it forget the source")
	assert.Contains(t, ran[2], "apt-mark hold nvidia-driver-pinning-595 ", "what apt-get has changed is no longer held")
	ran = nil
	err = InstallDriver(t.Context(), scripted(t, &ran, before), r)
	require.ErrorContains(t, err, "dkms autoinstall -k 6.12.110+deb13-amd64 reported success, but dkms status lists no module")
	require.NoError(t, InstallDriver(t.Context(), scripted(t, &ran, after), r))
}

// Kernels are in the order of their numbers: of two, one is newer or they are the same.
func TestNewer(t *testing.T) {
	order := []string{"6.8.0-88-generic", "6.8.0-89-generic", "6.8.0-90-generic", "6.8.0-100-generic", "6.9.0-1-generic", "6.10.0-1-generic", "7.0.0"}
	for i, a := range order {
		for k, b := range order {
			assert.Equal(t, i > k, newer(a, b), "%s, %s", a, b)
		}
	}
}

// What DKMS says of others' modules hides none of ours.
func TestParseDKMSGoesOn(t *testing.T) {
	assert.Len(t, parseDKMS("Error! zfs/2: Missing the module source directory\nnvidia/595.71.05: added\nwords\nnvidia/580.1: added\n"), 2)
}

// A failure is a build's where a build left a log or the words are a build's; where the
// machine cannot be asked, it stays what it was.
func TestExplained(t *testing.T) {
	const ends = "=== end\n0\n"
	log := "=== kernel\n6.12\n=== make.log\nx.c:1: error: y\n" + ends
	for name, tc := range map[string]struct {
		said string // by the machine; empty: it cannot be asked
		err  string
		want string
	}{
		"a log":           {log, "status 1", "status 1\n  make.log ends with:\n    x.c:1: error: y\n  " + sourceTooOld},
		"its own words":   {ends, "cc: not found", "cc: not found\n  there is no compiler: apt-get install build-essential"},
		"neither":         {ends, "status 1", "status 1"},
		"nobody to ask":   {"", "cc: not found", "cc: not found"},
		"a log and words": {log, "cc: not found", "cc: not found\n  make.log ends with:\n    x.c:1: error: y\n  there is no compiler: apt-get install build-essential"},
	} {
		t.Run(name, func(t *testing.T) {
			r := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
				_, err := io.WriteString(cmd.Stdout, tc.said)
				return err
			})
			first := errors.New(tc.err)
			err := WithBuildLog(t.Context(), r, first)
			require.ErrorIs(t, err, first)
			assert.EqualError(t, err, tc.want)
		})
	}
}

// A change to DKMS or back removes the other packages and releases those that are no longer
// held: in one install, after what must come first.
func TestTheOtherModeGoes(t *testing.T) {
	prebuilt, built := driver580, Recipe{Driver: driver580.Driver, Build: true}
	s := DriverState{Packages: map[string]string{}, Held: prebuilt.Holds()}
	assert.Empty(t, built.frees(s), "nothing of the other mode is there")
	for _, p := range prebuilt.Packages() {
		s.Packages[p] = "1"
	}
	assert.Equal(t, []string{"linux-modules-nvidia-580-server-open-generic"}, built.otherPackages(s))
	free := built.frees(s)
	assert.Contains(t, free, "linux-modules-nvidia-580-server-open-generic")
	assert.NotContains(t, free, "linux-generic", "a kernel does not change by itself in either mode")
	for _, name := range free {
		assert.NotContains(t, built.Holds(), name)
		assert.Contains(t, s.Held, name)
	}
	s.Held = []string{"linux-generic", "linux-modules-nvidia-580-server-open-generic", "nvidia-utils-580-server", "somebody-elses"}
	assert.Equal(t, []string{"linux-modules-nvidia-580-server-open-generic"}, built.frees(s), "what is not held is not freed")
	assert.Empty(t, prebuilt.otherPackages(s))
	assert.Nil(t, prebuilt.frees(s))
}

// The other flavour goes as the other mode does, whatever the mode and the distribution:
// of what is named for either, nothing of the other one stays, and nothing stays held.
func TestTheOtherFlavourGoes(t *testing.T) {
	for _, r := range []Recipe{
		{Driver: Driver{580, Open}}, {Driver: Driver{580, Open}, Build: true}, {Driver: Driver{595, Open}, System: "debian-13", Build: true},
	} {
		t.Run(r.String(), func(t *testing.T) {
			other := r
			other.Flavour = Proprietary
			for _, now := range [][2]Recipe{{r, other}, {other, r}} {
				have, want := now[0], now[1]
				s := DriverState{Packages: map[string]string{"linux-signatures-nvidia-6.8.0-90-generic": "1", "linux-modules-nvidia-570-server-open-generic": "1"}, Held: have.Holds()}
				for _, p := range append(have.Packages(), have.Holds()...) {
					s.Packages[p] = "1"
				}
				var only []string
				for p := range s.Packages {
					if !slices.Contains(append(want.Packages(), want.Holds()...), p) && slices.Contains(append(have.Packages(), have.Holds()...), p) {
						only = append(only, p)
					}
				}
				slices.Sort(only)
				require.NotEmpty(t, only)
				if want.Build { // for which what is prebuilt is of another mode, too
					delete(s.Packages, "linux-signatures-nvidia-6.8.0-90-generic")
					delete(s.Packages, "linux-modules-nvidia-570-server-open-generic")
				}
				assert.Equal(t, only, want.otherPackages(s))
				assert.ElementsMatch(t, only, want.frees(s))
				assert.Contains(t, want.DiffPackages(s).String(), "flavour: "+string(have.Flavour)+" → "+string(want.Flavour)+" [packages to remove: "+strings.Join(only, ", ")+"]")
				assert.Empty(t, have.otherPackages(s))
				assert.Empty(t, have.frees(s))
			}
		})
	}
	kernel := "linux-modules-nvidia-580-server-6.8.0-90-generic"
	s := DriverState{Packages: map[string]string{kernel: "1", "linux-objects-nvidia-580-server-open-6.8.0-90-generic": "1"}}
	assert.Equal(t, []string{kernel}, Recipe{Driver: Driver{580, Open}}.otherPackages(s), "a kernel's own package has the flavour before the kernel")
}

// NVIDIA's own repository wants its pin before the driver; Ubuntu's wants nothing.
func TestThePinComesFirst(t *testing.T) {
	for _, r := range []Recipe{driver580, {Driver: Driver{595, Open}, System: "debian-13", Build: true}} {
		var installs [][]string
		on := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
			if i := slices.Index(cmd.Args, "install"); i > 0 {
				installs = append(installs, cmd.Args[i+1:])
			}
			if cmd.Args[0] == "sh" && cmd.Stdout != nil {
				_, _ = io.WriteString(cmd.Stdout, "=== end\n0\n")
			}
			return nil
		})
		require.NoError(t, r.install(t.Context(), on, DriverState{}))
		if r.source() == nil {
			require.Len(t, installs, 1)
			continue
		}
		require.Len(t, installs, 2)
		assert.Equal(t, "nvidia-driver-pinning-595", installs[0][len(installs[0])-1])
		assert.NotEqual(t, installs[0], installs[1])
	}
}
