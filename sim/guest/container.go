package guest

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
	"mvdan.cc/sh/v3/expand"
)

// cards are those of the machine's that the container was given.
func cardsOf(b *box, all []card) []card {
	switch b.visible {
	case "void", "none":
		return nil
	case "all":
		return all
	case "":
		return all[:min(b.count, len(all))]
	}
	var out []card
	names := strings.Split(b.visible, ",")
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
func (s *system) container(ctx context.Context, c plane.Container) (code int, output, terminationLog string) {
	if !s.enter() {
		return exitKilled, "", ""
	}
	defer s.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.Context(), cancel)()
	b := &box{visible: c.Env["NVIDIA_VISIBLE_DEVICES"], count: c.GPUs}
	cards, failed := s.nvml()
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
	env := []string{"PATH=" + searchPath, "HOME=/root", "HOSTNAME=container"}
	for k, val := range c.Env {
		env = append(env, k+"="+val)
	}
	var mu sync.Mutex
	var out bytes.Buffer
	w := &lockedWriter{mu: &mu, w: &out}
	p := &proc{sys: s, box: b, fs: v, user: disk.RootUser(), env: expand.ListEnviron(env...), dir: "/", args: c.Args,
		stdin: bytes.NewReader(nil), stdout: w, stderr: w, shell: "sh"}
	if len(c.Args) == 0 {
		return 0, "", ""
	}
	if _, err := p.find(c.Args[0]); err != nil {
		return 128, "exec: \"" + c.Args[0] + "\": " + strings.ToLower(disk.Strerror(notThere(err))), ""
	}
	code = p.exec(ctx)
	log, _ := image.ReadFile("/dev/termination-log")
	mu.Lock()
	defer mu.Unlock()
	return code, out.String(), string(log[:min(len(log), maxTermination)])
}

// runVectorAdd is NVIDIA's sample: it computes where a GPU is visible and works.
func runVectorAdd(_ context.Context, p *proc) int {
	p.printf("[Vector addition of 50000 elements]\n")
	cards, failed := p.visible()
	if want := p.env.Get("CUDA_VISIBLE_DEVICES"); want.IsSet() && failed == nil {
		first, _, _ := strings.Cut(want.String(), ",")
		cards = cardsOf(&box{visible: first}, cards)
		if first == "" {
			cards = nil
		}
	}
	if failed != nil || len(cards) == 0 {
		p.printf("Failed to allocate device vector A (error code no CUDA-capable device is detected)!\n")
		return 1
	}
	if p.sys.faulty(func(f Faults) bool { return f.CUDAFails }) {
		p.printf("Copy input data from the host memory to the CUDA device\nFailed to launch vectorAdd kernel (error code unspecified launch failure)!\n")
		return 1
	}
	p.printf("Copy input data from the host memory to the CUDA device\nCUDA kernel launch with 196 blocks of 256 threads\n" +
		"Copy output data from the CUDA device to the host memory\nTest PASSED\nDone\n")
	return 0
}
