package nvidia

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/remote"
)

// Fabric is the switches between the GPUs of a machine (HGX boards). Without NVIDIA's fabric
// manager, no program can use the GPUs: CUDA says "system not yet initialized".
type Fabric struct {
	Switches []string // PCI addresses of NVSwitches in the machine
	NVLink5  []string // network cards behind which NVSwitches of NVLink 5 are (B200 and newer)
	Enabled  bool     // the fabric manager starts at boot
	Active   bool     // it runs
}

const fabricService = "nvidia-fabricmanager"

// parseFabric reads the section of observe.sh.
func parseFabric(text string) Fabric {
	var f Fabric
	for _, line := range lines(text) {
		kind, what, _ := strings.Cut(line, " ")
		switch kind {
		case "nvswitch":
			f.Switches = append(f.Switches, what)
		case "nvlink5":
			f.NVLink5 = append(f.NVLink5, what)
		case "enabled":
			f.Enabled = what == "enabled"
		case "active":
			f.Active = what == "active"
		}
	}
	return f
}

// fabricPackages are those of the fabric manager; it must be of the driver's version, so it is
// held with it.
func (r Recipe) fabricPackages() []string {
	if r.Fabric == "" {
		return nil
	}
	way := distro.FabricManager(r.source() != nil)
	if r.Fabric == NVLink5 {
		return r.fillNames(append(way, distro.NVLink5()...))
	}
	return r.fillNames(way)
}

// FabricKind is the kind of switches between a machine's GPUs.
type FabricKind string

// The kinds.
const (
	NVSwitch FabricKind = "nvswitch"
	NVLink5  FabricKind = "nvlink5" // needs nvlsm, which only NVIDIA's repositories have
)

func (f Fabric) kind() FabricKind {
	switch {
	case len(f.NVLink5) > 0:
		return NVLink5
	case len(f.Switches) > 0:
		return NVSwitch
	default:
		return ""
	}
}

// diffFabric says whether the fabric manager runs and is of the driver's version, on a machine
// whose GPUs are connected by switches.
func (r Recipe) diffFabric(s DriverState) converge.Diff {
	if r.Fabric == "" {
		return nil
	}
	var d converge.Diff
	manager := r.fabricPackages()[0]
	have, there := s.Packages[manager]
	if version, _, _ := strings.Cut(have[strings.IndexByte(have, ':')+1:], "-"); there && s.Loaded != "" && version != s.Loaded {
		d = append(d, converge.Field{Path: "fabricmanager", Have: version, Want: s.Loaded,
			Note: fmt.Sprintf("the fabric manager must be of the driver's version: apt-get install %s=%s* there, or upgrade the driver", manager, s.Loaded)})
	}
	switch {
	case !s.Fabric.Enabled:
		d = append(d, converge.Field{Path: "fabricmanager", Have: "not enabled", Want: "enabled", Effect: converge.Create})
	case s.Loaded != "" && !s.Fabric.Active:
		d = append(d, converge.Field{Path: "fabricmanager", Have: "stopped", Want: "running", Effect: converge.Create,
			Note: fmt.Sprintf("the GPUs are connected by switches, and no program can use them without it (system not yet initialized): journalctl -u %s there says why it stopped", fabricService)})
	}
	return d
}

// startFabric enables the fabric manager, and starts it where the driver is loaded.
func (r Recipe) startFabric(ctx context.Context, on remote.Runner, s DriverState) error {
	if r.Fabric == "" {
		return nil
	}
	args := []string{"systemctl", "enable", fabricService}
	if s.Loaded != "" {
		args = []string{"systemctl", "enable", "--now", fabricService}
	}
	if err := remote.Run(ctx, on, args...); err != nil {
		return fmt.Errorf("start NVIDIA's fabric manager: %w", err)
	}
	return nil
}

// repairFabric starts a fabric manager that does not run.
func (r Recipe) repairFabric(ctx context.Context, on remote.Runner, s DriverState) error {
	if r.diffFabric(s).Empty() {
		return nil
	}
	return r.startFabric(ctx, on, s)
}
