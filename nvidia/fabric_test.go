package nvidia

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

const hgx = "nvswitch 0000:0c:00.0\nnvswitch 0000:0d:00.0\n"

// On machines with switches between the GPUs, the fabric manager is a part of the driver: of its
// version, held with it, enabled and running.
func TestFabricManager(t *testing.T) {
	observed := func(fabric, packages string) DriverState {
		s, err := parseObservation(strings.Replace(healthy(t), "\n=== smi\n", "\n=== fabric\n"+fabric+"\n=== smi\n", 1))
		require.NoError(t, err)
		for _, p := range strings.Fields(packages) {
			name, version, _ := strings.Cut(p, "=")
			s.Packages[name], s.Held = version, append(s.Held, name)
		}
		return s
	}
	const right = "nvidia-fabricmanager-580=580.173.02-0ubuntu0.24.04.1"
	for name, tc := range map[string]struct {
		fabric, packages string
		want             string
	}{
		"no switches":     {"", "", ""},
		"switches":        {hgx, "", "package/nvidia-fabricmanager-580: installed (does not exist yet)\nhold/nvidia-fabricmanager-580: may change by itself → held\nfabricmanager: not enabled → enabled"},
		"runs":            {hgx + "enabled enabled\nactive active\n", right, ""},
		"stopped":         {hgx + "enabled enabled\nactive failed\n", right, "fabricmanager: stopped → running"},
		"another version": {hgx + "enabled enabled\nactive active\n", "nvidia-fabricmanager-580=580.126.16-0ubuntu0.24.04.1", "fabricmanager: 580.126.16 → 580.173.02"},
		"NVLink 5":        {"nvlink5 /sys/class/infiniband/mlx5_4/device/vpd\n", right, "package/nvlsm: installed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := observed(tc.fabric, tc.packages)
			got := driver580.ForMachine(s).Diff(s).String()
			if tc.want == "" {
				require.Empty(t, got)
				return
			}
			for _, want := range strings.Split(tc.want, "\n") {
				require.Contains(t, got, strings.TrimSuffix(want, " (does not exist yet)"))
			}
		})
	}
	debian := Recipe{Driver: Driver{595, Open}, System: "debian-13", Build: true, Fabric: NVLink5}
	require.Subset(t, debian.Packages(), []string{"nvidia-fabricmanager", "nvlsm", "infiniband-diags"})
	require.ErrorContains(t, Recipe{Driver: Driver{580, Open}, Fabric: NVLink5}.available(t.Context(), nil, DriverState{}), "install nvlsm there")
}

// It is enabled with the driver, and started once the driver is loaded.
func TestFabricManagerStarts(t *testing.T) {
	for loaded, want := range map[string]string{"": "systemctl enable nvidia-fabricmanager", "580.173.02": "systemctl enable --now nvidia-fabricmanager"} {
		var ran []string
		r := remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
			ran = append(ran, strings.Join(c.Args, " "))
			if c.Stdout != nil {
				_, _ = io.WriteString(c.Stdout, "")
			}
			return nil
		})
		recipe := driver580
		require.NoError(t, recipe.repairFabric(t.Context(), r, DriverState{Loaded: loaded}))
		require.Empty(t, ran, "no switches")
		recipe.Fabric = NVSwitch
		require.NoError(t, recipe.repairFabric(t.Context(), r, DriverState{Loaded: loaded}))
		require.Equal(t, []string{want}, ran)
	}
}
