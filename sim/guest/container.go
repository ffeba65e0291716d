package guest

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// cards are those of the machine's that the container was given.
func cardsOf(b *machine.Box, all []card) []card {
	switch b.Visible {
	case "void", "none":
		return nil
	case "all":
		return all
	case "":
		return all[:min(b.Count, len(all))]
	}
	var out []card
	names := strings.Split(b.Visible, ",")
	for i, c := range all {
		if slices.Contains(names, c.UUID) || slices.Contains(names, strconv.Itoa(i)) {
			out = append(out, c)
		}
	}
	return out
}

// maxTermination is how much of a termination log Kubernetes keeps.
const maxTermination = 4096

// container runs a container's command, see [Node].
func container(s *machine.System, ctx context.Context, c plane.Container) (code int, output, terminationLog string) {
	if !s.Enter() {
		return machine.ExitKilled, "", ""
	}
	defer s.Leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.Context(), cancel)()
	b := &machine.Box{Visible: c.Env["NVIDIA_VISIBLE_DEVICES"], Count: c.GPUs}
	cards, failed := nvml(s)
	image := image.Container(failed == nil && len(cardsOf(b, cards)) > 0)
	v := disk.ViewOf(image)
	v.Umask = 0o022
	for name, data := range c.Files {
		_ = image.WriteFile(name, data, 0o755)
	}
	mounts := []disk.Mount{{At: "/", Disk: image}}
	for at, volume := range c.Volumes {
		_ = v.MkdirAll(at, 0o755)
		mounts = append(mounts, disk.Mount{At: path.Clean(at), Disk: volume})
	}
	v.Mounts = disk.Mounted(mounts...)
	env := []string{"PATH=" + machine.SearchPath, "HOME=/root", "HOSTNAME=container"}
	for k, val := range c.Env {
		env = append(env, k+"="+val)
	}
	var mu sync.Mutex
	var out bytes.Buffer
	w := machine.Locked(&mu, &out)
	p := &machine.Proc{Sys: s, Box: b, FS: v, User: disk.RootUser(), Env: expand.ListEnviron(env...), Dir: "/", Args: c.Args,
		Stdin: bytes.NewReader(nil), Stdout: w, Stderr: w, Shell: "sh"}
	if len(c.Args) == 0 {
		return 0, "", ""
	}
	if _, err := p.Find(c.Args[0]); err != nil {
		return 128, "exec: \"" + c.Args[0] + "\": " + strings.ToLower(disk.Strerror(notThere(err))), ""
	}
	code = p.Exec(ctx)
	log, _ := image.ReadFile("/dev/termination-log")
	mu.Lock()
	defer mu.Unlock()
	return code, out.String(), string(log[:min(len(log), maxTermination)])
}

// runVectorAdd is NVIDIA's sample: it computes where a GPU is visible and works.
func runVectorAdd(_ context.Context, p *machine.Proc) int {
	p.Printf("[Vector addition of 50000 elements]\n")
	cards, failed := visible(p)
	if want := p.Env.Get("CUDA_VISIBLE_DEVICES"); want.IsSet() && failed == nil {
		first, _, _ := strings.Cut(want.String(), ",")
		cards = cardsOf(&machine.Box{Visible: first}, cards)
		if first == "" {
			cards = nil
		}
	}
	if failed != nil || len(cards) == 0 {
		p.Printf("Failed to allocate device vector A (error code no CUDA-capable device is detected)!\n")
		return 1
	}
	if p.Sys.Faulty(func(f machine.Faults) bool { return f.CUDAFails }) {
		p.Printf("Copy input data from the host memory to the CUDA device\nFailed to launch vectorAdd kernel (error code unspecified launch failure)!\n")
		return 1
	}
	p.Printf("Copy input data from the host memory to the CUDA device\nCUDA kernel launch with 196 blocks of 256 threads\n" +
		"Copy output data from the CUDA device to the host memory\nTest PASSED\nDone\n")
	return 0
}
