package nvidia

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goldenJSON compares a value with a file, as JSON, or writes the file with -update.
func goldenJSON(t *testing.T, file string, have any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(have))
	text := b.Bytes()
	if *update {
		require.NoError(t, os.WriteFile(file, text, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(text), "go test ./nvidia -update")
}

// each runs a test for every text of a folder.
func each(t *testing.T, glob string, test func(t *testing.T, text string, golden string)) {
	t.Helper()
	files, err := filepath.Glob(glob)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			test(t, string(text), strings.TrimSuffix(file, filepath.Ext(file))+".json")
		})
	}
}

// Texts that ubuntu-drivers printed on real machines, with what else was on the screen.
func TestParseOffers(t *testing.T) {
	each(t, "testdata/ubuntu-drivers/*.txt", func(t *testing.T, text, file string) {
		goldenJSON(t, file, parseOffers(text))
	})
}

func FuzzParseOffers(f *testing.F) {
	f.Add("nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-generic)\n")
	f.Add("nvidia-driver-570-server-open\nudevadm hwdb is deprecated.\n")
	f.Add("nvidia-driver-001\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, o := range parseOffers(text) {
			require.Contains(t, text, "nvidia-driver-"+o.String())
			require.Contains(t, text, o.Modules)
		}
	})
}

func offersOf(t *testing.T, name string) []Offer {
	t.Helper()
	text, err := os.ReadFile("testdata/ubuntu-drivers/" + name + ".txt")
	require.NoError(t, err)
	return parseOffers(string(text))
}

// The choice is among what the machine's archive has for its cards.
func TestOffersDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		gpus   []string
		policy Policy
		want   string // the driver, or a part of the refusal
	}{
		"both are there":    {[]string{a100}, Policy{Offers: offersOf(t, "noble-2026")}, "580-server-open"},
		"the other is":      {[]string{a100}, Policy{Offers: parseOffers("nvidia-driver-595-server-open, (kernel modules provided by linux-modules-nvidia-595-server-open-generic)")}, "595-server-open"},
		"pinned, there":     {[]string{a100}, Policy{Branch: "595", Offers: offersOf(t, "noble-2026")}, "595-server-open"},
		"pinned, not there": {[]string{a100}, Policy{Branch: "595", Offers: parseOffers("nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-generic)")}, "NVIDIA driver 595-server-open does not fit: the machine's archive does not offer it for its cards; ubuntu-drivers lists 580-server-open: write 580-server-open"},
		"ended ones only":   {[]string{a100}, Policy{Offers: offersOf(t, "noble-2024")}, "ubuntu-drivers lists 535-server-open, 535-server, 470-server: run apt-get update there"},
		"N7, no modules":    {[]string{a100}, Policy{Offers: parseOffers("nvidia-driver-580-server-open, (kernel modules provided by nvidia-dkms-580-server-open)")}, "the archive has no prebuilt modules of it for the machine's kernel, only nvidia-dkms-580-server-open: run apt-get update there, or write mode: dkms"},
		"without, by DKMS":  {[]string{a100}, Policy{Build: true, Offers: parseOffers("nvidia-driver-580-server-open, (kernel modules provided by nvidia-dkms-580-server-open)")}, "580-server-open"},
		"bare":              {[]string{a100}, Policy{Offers: parseOffers("nvidia-driver-580-server-open")}, "the archive has no prebuilt modules of it for the machine's kernel: run"},
		"desktop only":      {[]string{a100}, Policy{Offers: parseOffers("nvidia-driver-575-open")}, "580-server-open"},
		"too old for all":   {[]string{k80}, Policy{Offers: offersOf(t, "noble-2024")}, "branch 470 is the last for NVIDIA Tesla K80 (Kepler): remove the GPU from the machine"},
		"installed stays":   {[]string{a100}, Policy{Installed: "580-server-open", Offers: offersOf(t, "noble-2024")}, "580-server-open"},
		"lts":               {[]string{a100}, Policy{Branch: LTS}, "580-server-open"},
		"lts, old":          {[]string{v100}, Policy{Branch: LTS}, "580-server"},
		"production":        {[]string{a100}, Policy{Branch: Production}, "595-server-open"},
		"production, kept":  {[]string{a100}, Policy{Branch: Production, Installed: "595-server-open"}, "595-server-open"},
		"production, old":   {[]string{v100}, Policy{Branch: Production}, "NVIDIA driver 595-server does not fit: branch 580 is the last for NVIDIA Tesla V100 PCIe 16GB (Volta): write 580-server"},
		"lts on Debian":     {[]string{a100}, Policy{Branch: LTS, System: "debian-13", Build: true}, "NVIDIA's repository for Debian 13 has no series of that branch"},
	} {
		t.Run(name, func(t *testing.T) {
			d, why, err := SelectDriverBranch(ids(t, tc.gpus...), tc.policy)
			if _, refused := parseDriver(tc.want); refused != nil {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, d.String(), why)
		})
	}
	_, why, err := SelectDriverBranch(ids(t, a100), Policy{Branch: Production})
	require.NoError(t, err)
	require.Contains(t, why, "pinned by production, supported until March 2027")
	_, why, err = SelectDriverBranch(ids(t, a100), Policy{Offers: parseOffers("nvidia-driver-595-server-open, (kernel modules provided by linux-modules-nvidia-595-server-open-generic)")})
	require.NoError(t, err)
	require.Contains(t, why, "580: the machine's archive does not offer it for its cards; ubuntu-drivers lists 595-server-open")
}

// Before it installs packages, a run asks the machine whether its archive has them.
func TestInstallAsksTheArchive(t *testing.T) {
	g := &gpuMachine{kernel: "6.8.0-85-generic", packages: map[string]string{}, files: map[string]string{}, offers: "nvidia-driver-595-server-open, (kernel modules provided by linux-modules-nvidia-595-server-open-generic)\n"}
	err := InstallDriver(t.Context(), g, driver580)
	require.ErrorContains(t, err, "ubuntu-drivers lists 595-server-open: write one of these in nvidia.driver.branch")
	require.Empty(t, g.packages)
	g.offers += "nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-generic)\n"
	require.NoError(t, InstallDriver(t.Context(), g, driver580))
	require.NotEmpty(t, g.packages)
}

// N7: modules are those of the kernel series that the machine runs.
func TestModulesFollowTheKernel(t *testing.T) {
	ga := driver580.ForMachine(DriverState{Kernel: "6.8.0-85-generic"})
	require.Equal(t, driver580.Packages(), ga.Packages())
	hwe := driver580.ForMachine(DriverState{Kernel: "6.17.0-31-generic"})
	require.Subset(t, hwe.Packages(), []string{"linux-generic-hwe-24.04", "linux-modules-nvidia-580-server-open-generic-hwe-24.04", "nvidia-utils-580-server"})
	require.Subset(t, hwe.Holds(), []string{"linux-image-generic-hwe-24.04", "linux-headers-generic-hwe-24.04"})
	next := driver580.ForMachine(DriverState{Kernel: "6.8.0-85-generic", Packages: map[string]string{"linux-image-7.0.0-31-generic": "7.0.0-31.31"}})
	require.True(t, next.HWE, "the kernel that starts next counts")
	require.False(t, driver580.ForMachine(DriverState{}).HWE, "a template in the making")
	require.False(t, Recipe{Driver: driver580.Driver, Build: true}.ForMachine(DriverState{Kernel: "6.17.0-31-generic"}).HWE, "DKMS builds for every kernel")
	require.False(t, Recipe{Driver: Driver{595, Open}, System: "debian-13", Build: true}.ForMachine(DriverState{Kernel: "6.12.48+deb13-amd64"}).HWE)

	for kernel, want := range map[string]bool{"6.8.0-85-generic": false, "6.8.0-1020-kvm": true, "6.8.0-1020-aws": true, "6.8.0-55-lowlatency": true, "6.8.0-1012-gcp": true, "6.8.0-1012-gke": true, "6.12.48+deb13-amd64": false, "": false} {
		require.Equal(t, want, isSpecialKernel(kernel), kernel)
	}
	g := &gpuMachine{kernel: "6.8.0-1020-kvm", packages: map[string]string{}, files: map[string]string{}}
	require.ErrorContains(t, InstallDriver(t.Context(), g, driver580), "the machine starts kernel 6.8.0-1020-kvm, and the prebuilt modules are for kernels of the kind generic")
}
