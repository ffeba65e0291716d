package nvidia

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

// TestAFailedInstallSaysWhy: apt-get describes a repository that it could not reach while
// it reads the lists, under status 0, and of dependencies on its standard output.
func TestAFailedInstallSaysWhy(t *testing.T) {
	r := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		switch {
		case slices.Contains(cmd.Args, "update"):
			_, _ = io.WriteString(cmd.Stderr, "W: Failed to fetch https://nvidia.github.io/libnvidia-container/stable/deb/amd64/InRelease  Invalid response from proxy: HTTP/1.1 403 CONNECT denied\n"+
				"W: Some index files failed to download. They have been ignored, or old ones used instead.\n")
			return nil
		case slices.Contains(cmd.Args, "install"):
			_, _ = io.WriteString(cmd.Stdout, "The following packages have unmet dependencies:\n nvidia-utils-580-server : Depends: libnvidia-compute-580-server but it is not installable\n")
			return &remote.ExitError{Args: cmd.Args, Code: 100, Stderr: "E: Unable to locate package nvidia-container-toolkit\n"}
		}
		return nil
	})
	err := install(t.Context(), r, []string{"nvidia-container-toolkit"}, nil)
	for _, want := range []string{"E: Unable to locate package nvidia-container-toolkit", "unmet dependencies: nvidia-utils-580-server : Depends: libnvidia-compute-580-server",
		"CONNECT denied", "guest.apt"} {
		require.ErrorContains(t, err, want)
	}
}

// Kernels that a cloud image brings by other names are held, too, and what is only not held is held,
// without an installation that would upgrade it.
func TestHoldsInstallNothing(t *testing.T) {
	state := func(held ...string) string {
		var text strings.Builder
		text.WriteString("=== kernel\n6.8.0-90-generic\n=== packages\nlinux-image-virtual 1 installed\nlinux-virtual-hwe-24.04 1 installed\nlinux-image-6.8.0-90-generic 1 installed\n")
		for _, p := range driver580.Packages() {
			text.WriteString(p + " 1 installed\n")
		}
		return text.String() + "=== held\n" + strings.Join(held, "\n") + "\n=== end\n0\n"
	}
	s, err := parseObservation(state(driver580.Holds()...))
	require.NoError(t, err)
	assert.Equal(t, "hold/linux-image-virtual: may change by itself → held; hold/linux-virtual-hwe-24.04: may change by itself → held", driver580.DiffPackages(s).String())
	var ran []string
	require.NoError(t, InstallDriver(t.Context(), scripted(t, &ran, state(driver580.Holds()...)), driver580))
	require.Len(t, ran, 1)
	assert.Contains(t, ran[0], "apt-mark hold linux-generic ")
	assert.Contains(t, ran[0], " linux-image-virtual linux-virtual-hwe-24.04")
	ran = nil
	require.NoError(t, FetchDriver(t.Context(), scripted(t, &ran, state()), driver580), "there is nothing to fetch")
	assert.Empty(t, ran)

	other := driver580
	other.Flavour = Proprietary
	ran = nil
	require.NoError(t, FetchDriver(t.Context(), scripted(t, &ran, state(driver580.Holds()...)), other))
	assert.Contains(t, ran[len(ran)-1], "install --yes --no-install-recommends --allow-change-held-packages --download-only linux-generic linux-modules-nvidia-580-server-generic")
	built := Recipe{Driver: other.Driver, Build: true}
	assert.NotContains(t, built.aptArguments(s), "linux-generic", "DKMS builds for the kernel that is there")
	debian := Recipe{Driver: Driver{595, Open}, System: "debian-13", Build: true}
	assert.Contains(t, debian.aptArguments(DriverState{Packages: map[string]string{"linux-image-amd64": "1"}}), "linux-image-amd64", "headers come with their kernel")
}
