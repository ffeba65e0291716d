package programs

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// device is how much of a device's data dd reads, whatever it is asked for: a file of that size
// stands for one of any size.
const device = 1 << 20

// The speed of disks and networks, in bytes a second.
const (
	readSpeed, writeSpeed = 1.6e9, 8e8
	slowness              = 50
)

// copying is a run of dd.
type copying struct {
	from, to string
	quiet    bool
}

// runDD copies a file. It takes no time, and says how long it would have taken.
func runDD(_ context.Context, p *machine.Proc) int {
	c := copying{from: "-"}
	for _, a := range p.Args[1:] {
		switch key, value, _ := strings.Cut(a, "="); key {
		case "if":
			c.from = value
		case "of":
			c.to = value
		case "status":
			c.quiet = value == "none"
		}
	}
	if code := c.volumeError(p); code != 0 {
		return code
	}
	data, err := c.read(p)
	if err != nil {
		return p.Fail("failed to open '%s': %s", c.from, disk.Strerror(err))
	}
	if c.to == "" {
		_, _ = p.Stdout.Write(data)
	} else if err := p.FS.WriteFile(p.Abs(c.to), data, 0o666); err != nil {
		return p.Fail("failed to open '%s': %s", c.to, disk.Strerror(err))
	}
	if p.Box != nil && !c.quiet { // nobody reads it on a machine
		c.say(p, len(data))
	}
	return 0
}

func (c copying) read(p *machine.Proc) ([]byte, error) {
	data, err := input(p, c.from)
	if path.Dir(c.from) == "/dev" && err == nil && len(data) == 0 && c.from != "/dev/null" {
		data = bytes.Repeat([]byte{'x'}, device)
	}
	return data, err
}

// volumeError says why a volume takes no data, as busybox's dd does (coreutils/dd.c, 1.37).
func (c copying) volumeError(p *machine.Proc) int {
	var why syscall.Errno
	p.Sys.Faulty(func(f machine.Faults) bool { why = f.VolumesRefuse; return false })
	switch {
	case why == 0 || !onVolume(p, c.to):
		return 0
	case why == syscall.ENOSPC:
		return p.Fail("error writing '%s': %s", c.to, disk.Strerror(why))
	}
	return p.Fail("can't open '%s': %s", c.to, disk.Strerror(why))
}

// onVolume reports whether a file of a container is on a volume.
func onVolume(p *machine.Proc, file string) bool {
	if p.Box == nil || file == "" {
		return false
	}
	for _, at := range p.Box.Volumes {
		if strings.HasPrefix(p.Abs(file), path.Clean(at)+"/") {
			return true
		}
	}
	return false
}

// say prints the last line of busybox's dd.
func (c copying) say(p *machine.Proc, bytes int) {
	speed := 8e9 // memory
	switch {
	case onVolume(p, c.to):
		speed = writeSpeed
	case onVolume(p, c.from):
		speed = readSpeed
	}
	if speed != 8e9 && p.Sys.Faulty(func(f machine.Faults) bool { return f.VolumesAreSlow }) {
		speed /= slowness
	}
	seconds := float64(bytes) / speed
	_, _ = fmt.Fprintf(p.Stderr, "%d bytes (%sKB) copied, %f seconds, %.1fMB/s\n", bytes, strconv.Itoa(bytes>>10), seconds, speed/1e6)
}
