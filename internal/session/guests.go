package session

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// guestsCanRun refuses real VMs that this machine cannot run, before the lab is built.
func guestsCanRun(want *spec.Spec) error {
	l := want.LabGuests
	if !l.QEMU() {
		return nil
	}
	if runtime.GOOS != "linux" {
		return exitErrorf(invalid, "%s: guests: qemu needs Linux, and this is %s", l.Place, runtime.GOOS)
	}
	var lacks []string
	for _, p := range [][2]string{{"qemu-system-x86_64", "qemu-system-x86"}, {"qemu-img", "qemu-utils"}} { // as Debian calls them
		if _, err := exec.LookPath(p[0]); err != nil {
			lacks = append(lacks, p[1])
		}
	}
	if len(lacks) > 0 {
		return exitErrorf(invalid, "%s: guests: qemu needs programs that are not on this machine: apt-get install %s", l.Place, strings.Join(lacks, " "))
	}
	return hasMemory(want)
}

// qemuMemory is the memory that QEMU itself needs for each VM.
const qemuMemory = 200 * spec.MiB

// hasMemory refuses VMs that have more memory together than this machine has free.
func hasMemory(want *spec.Spec) error {
	var sum spec.Size
	for _, n := range want.Machines() {
		sum += n.Memory + qemuMemory
	}
	free, err := available("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("free memory of this machine: %w", err)
	}
	if sum > free {
		return exitErrorf(invalid, "%s: guests: qemu: the VMs and QEMU need %s of memory, and this machine has %s free: give them less memory, or have fewer",
			want.LabGuests.Place, (sum+spec.MiB-1)/spec.MiB*spec.MiB, free/spec.MiB*spec.MiB)
	}
	return nil
}

// available reads how much memory is available without swapping.
func available(file string) (spec.Size, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib spec.Size
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("%s has no line MemAvailable", file)
}
