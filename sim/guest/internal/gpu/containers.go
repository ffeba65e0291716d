package gpu

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// driverImage is NVIDIA's driver container, which builds its modules for the running kernel.
var driverImage = regexp.MustCompile(`/nvidia/driver:(\d+)\.(\d[\d.]*)-ubuntu24\.04$`)

// operatorRuntime is where the GPU operator's toolkit container installs NVIDIA's runtime.
const operatorRuntime = "/usr/local/nvidia/toolkit/nvidia-container-runtime"

// ToolkitEnds is the code of a container that ended with an error, and does not just wait.
const ToolkitEnds = 2

// HostContainer does what containers of the GPU operator do to their machine. done is false for all
// others. A container that cannot do its work yet, or fails, returns another code than 0.
func HostContainer(s *machine.System, image string, env map[string]string) (code int, output string, done bool) {
	if m := driverImage.FindStringSubmatch(image); m != nil {
		if err := LoadContained(s, m[1]+"."+m[2], env["KERNEL_MODULE_TYPE"]); err != nil {
			return 1, err.Error() + "\n", true
		}
		return 0, "Done, now waiting for signal\n", true
	}
	if !strings.Contains(image, "/container-toolkit:") {
		return 0, "", false
	}
	if loadedDriver(s) == nil {
		return 1, "waiting for the driver validations to be ready...\n", true
	}
	// By default it has containerd read its configuration again, which must be where systemd's is
	// (cmd/nvidia-ctk-installer/container/runtime/containerd of nvidia-container-toolkit).
	if env["RUNTIME_RESTART_MODE"] != "none" && env["CONTAINERD_SOCKET"] != "/run/k3s/containerd/containerd.sock" {
		return ToolkitEnds, "Error signaling containerd, attempt 6/6: unable to dial: dial unix /runtime/sock-dir/containerd.sock: connect: no such file or directory\n", true
	}
	v := s.Root()
	if _, err := v.Stat(operatorRuntime); err != nil {
		_ = v.MkdirAll("/usr/local/nvidia/toolkit", 0o755)
		_ = v.WriteFile(operatorRuntime, disk.Program("nvidia-container-runtime", "version: 1.20.0"), 0o755)
	}
	return 0, "Waiting for signal\n", true
}

// LoadContained loads a driver that a container or the machine's image brings, with its libraries.
func LoadContained(s *machine.System, version, kind string) error {
	if loadedDriver(s) != nil {
		return nil
	}
	cards := Cards(s.Config.PCI)
	old := func(c Card) bool { return c.arch < turing }
	branch, _, _ := strings.Cut(version, ".")
	d := &Driver{Branch: branch, Version: version, Open: kind == "open" || kind != "proprietary" && !slices.ContainsFunc(cards, old), unsigned: true, contained: true}
	if s.Config.SecureBoot {
		s.Kmsg("Loading of module with unavailable key is rejected")
		return fmt.Errorf("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service")
	}
	for _, c := range cards {
		if why := d.refuses(c); why != "" {
			s.Kmsg("%s", why)
			continue
		}
		d.usable = append(d.usable, c)
	}
	if len(d.usable) == 0 {
		return fmt.Errorf("modprobe: ERROR: could not insert 'nvidia': No such device")
	}
	machine.StateOf[nvidia](s).p.Store(d)
	nvidiaFiles(s, d)
	return nil
}
