package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/qemu"
	"github.com/cps-gpu/homelab/spec"
)

// guestsOf returns the guests that the file wants in the lab; the zero value for simulated
// ones. It does not set the image.
func (s *Session) guestsOf() labctl.Guests {
	if s.Spec == nil || !s.Spec.LabGuests.QEMU {
		return labctl.Guests{}
	}
	first := s.Spec.Nodes[0].Network // all have the same
	return labctl.Guests{Network: first.Prefix.Masked(), Gateway: first.Gateway, Internet: s.Spec.LabGuests.Internet}
}

// labGuests prepares this machine for real VMs, if the file wants them.
func (s *Session) labGuests(ctx context.Context) (labctl.Guests, error) {
	running, err := labctl.Find(ctx, LabDir())
	if err == nil && s.Spec == nil {
		return running.Guests, nil
	}
	g := s.guestsOf()
	if err == nil || !g.Real() { // a running lab has all of this
		g.Image = running.Guests.Image
		return g, nil
	}
	l := s.Spec.LabGuests
	if runtime.GOOS != "linux" {
		return g, failedf(invalid, "%s: guests: qemu needs Linux, and this is %s", l.Place, runtime.GOOS)
	}
	if lacks := qemu.Lacks(); len(lacks) > 0 {
		return g, failedf(invalid, "%s: guests: qemu needs programs that are not on this machine: apt-get install %s", l.Place, strings.Join(lacks, " "))
	}
	if err := s.hasMemory(); err != nil {
		return g, err
	}
	g.Image = l.Image
	if g.Image == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return g, fmt.Errorf("image of the lab's VMs: %w", err)
		}
		progress.Say(ctx, "looking for the image of Debian 13, which is made once and takes two or three minutes")
		image, err := qemu.Debian(ctx, filepath.Join(cache, "homelab"))
		if err != nil {
			return g, failed(invalid, fmt.Errorf("%s: guests: qemu: %w", l.Place, err))
		}
		g.Image = filepath.Dir(image.Disk)
	}
	g.Image, err = filepath.Abs(g.Image)
	return g, err
}

// labHas refuses a lab whose VMs are not what the file wants.
func (s *Session) labHas(lab labctl.State) error {
	asked := s.guestsOf()
	asked.Image = lab.Guests.Image
	if asked == lab.Guests {
		return nil
	}
	return failedf(invalid, "the lab runs with %s, and %s asks for %s\n"+
		"end it with go tool mage lab:stop, and the next command starts one that does; its contents will be lost",
		lab.Guests, s.Spec.Name, asked)
}

// beside is the memory that QEMU itself needs for each VM.
const beside = 200 * spec.MiB

// hasMemory refuses VMs that have more memory together than this machine has free.
func (s *Session) hasMemory() error {
	var sum spec.Size
	for _, n := range s.Spec.Machines() {
		sum += n.Memory + beside
	}
	free, err := available("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("free memory of this machine: %w", err)
	}
	if sum > free {
		return failedf(invalid, "%s: guests: qemu: the VMs and QEMU need %s of memory, and this machine has %s free: give them less memory, or have fewer",
			s.Spec.LabGuests.Place, (sum+spec.MiB-1)/spec.MiB*spec.MiB, free/spec.MiB*spec.MiB)
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
