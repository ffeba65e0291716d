package image

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Container is the file system of every image: there are shells and core
// utilities in it, and CUDA's sample where GPUs are asked for.
func Container(name string, gpus bool) *disk.Disk {
	d := disk.New()
	v := disk.ViewOf(d)
	for _, dir := range []string{"/usr/bin", "/tmp", "/dev", "/etc", "/root"} {
		must(v.MkdirAll(dir, 0o755))
	}
	must(v.Symlink("usr/bin", "/bin"))
	for _, name := range slices.Concat(coreutils, downloads, locks) {
		must(v.WriteFile("/usr/bin/"+name, disk.Program(name), 0o755))
	}
	if gpus {
		must(v.WriteFile("/usr/bin/nvidia-smi", disk.Program("nvidia-smi"), 0o755))
		must(v.MkdirAll("/cuda-samples", 0o755))
		must(v.WriteFile("/cuda-samples/vectorAdd", disk.Program("vectorAdd"), 0o755))
		must(v.WriteFile("/usr/bin/python3", disk.Program("gpu-python3"), 0o755)) // with PyTorch and TensorFlow
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		must(v.Device("/dev/"+name, fs.ModeCharDevice|0o666))
	}
	must(v.WriteFile("/dev/termination-log", nil, 0o666))
	must(v.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644))
	must(v.WriteFile("/etc/group", []byte("root:x:0:\n"), 0o644))
	if strings.Contains(name, "jupyter/") { // docker-stacks-foundation is FROM ubuntu:24.04
		noble, _ := ofRelease("noble")
		must(v.WriteFile("/etc/os-release", []byte(noble.osRelease), 0o644))
	}
	return d
}
