package k3s

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/gpu"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// maxTermination is how much of a termination log Kubernetes keeps.
const maxTermination = 4096

// Container runs a container's command, see [plane.Node].
func Container(ctx context.Context, s *machine.System, c plane.Container) (code int, output, terminationLog string) {
	if !s.Enter() {
		return machine.ExitKilled, "", ""
	}
	defer s.Leave()
	if code, output, done := gpu.HostContainer(s, c.Image, c.Env); done {
		return code, output, ""
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.Context(), cancel)()
	b := &machine.Box{
		Hostname: cmp.Or(c.Env["HOSTNAME"], "container"),
		Visible:  c.Env["NVIDIA_VISIBLE_DEVICES"], Count: c.GPUs, Reloads: s.Reloads.Load(), Volumes: slices.Collect(maps.Keys(c.Volumes)),
	}
	cards, failed := gpu.NVML(s)
	image := image.Container(c.Image, failed == nil && len(gpu.VisibleCards(b, cards)) > 0)
	v := disk.ViewOf(image)
	v.Umask = 0o022
	for name, data := range c.Files {
		_ = image.WriteFile(name, data, 0o755)
	}
	for _, at := range c.Empty {
		_ = v.MkdirAll(at, 0o777)
	}
	mounts := []disk.Mount{{At: "/", Disk: image}}
	for at, volume := range c.Volumes {
		_ = v.MkdirAll(at, 0o755)
		mounts = append(mounts, disk.Mount{At: path.Clean(at), Disk: volume})
	}
	v.Mounts = disk.NewMounts(mounts...)
	env := []string{"PATH=" + machine.SearchPath, "HOME=/root", "HOSTNAME=" + b.Hostname}
	for k, val := range c.Env {
		env = append(env, k+"="+val)
	}
	var mu sync.Mutex
	var out bytes.Buffer
	w := machine.NewLockedWriter(&mu, &out)
	p := &machine.Proc{Sys: s, Box: b, FS: v, User: disk.RootUser(), Env: expand.ListEnviron(env...), Dir: "/", Args: c.Args,
		Stdin: bytes.NewReader(nil), Stdout: w, Stderr: w, Shell: "sh"}
	if len(c.Args) == 0 {
		return 0, "", ""
	}
	if _, err := p.Find(c.Args[0]); err != nil {
		return 128, "exec: \"" + c.Args[0] + "\": " + strings.ToLower(disk.Strerror(machine.NotThere(err))), ""
	}
	code = p.Exec(ctx)
	log, _ := image.ReadFile("/dev/termination-log")
	mu.Lock()
	defer mu.Unlock()
	return code, out.String(), string(log[:min(len(log), maxTermination)])
}
