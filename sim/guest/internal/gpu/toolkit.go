package gpu

import (
	"context"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runVectorAdd is NVIDIA's sample: it computes where a GPU is visible and works.
func runVectorAdd(_ context.Context, p *machine.Proc) int {
	p.Printf("[Vector addition of 50000 elements]\n")
	cards, failed := visible(p)
	if want := p.Env.Get("CUDA_VISIBLE_DEVICES"); want.IsSet() && failed == nil {
		first, _, _ := strings.Cut(want.String(), ",")
		cards = VisibleCards(&machine.Box{Visible: first}, cards)
		if first == "" {
			cards = nil
		}
	}
	// On a divided card programs compute on an instance only.
	cards = slices.DeleteFunc(slices.Clone(cards), func(c Card) bool { return c.mig && len(c.usable()) == 0 })
	if failed != nil || len(cards) == 0 {
		p.Printf("Failed to allocate device vector A (error code no CUDA-capable device is detected)!\n")
		return 1
	}
	if p.Sys.Faulty(func(f machine.Faults) bool { return f.CUDAFails }) {
		address, _, _ := strings.Cut(cards[0].Address, ".")
		p.Sys.Kmsg("NVRM: Xid (PCI:%s): 31, pid=%d, name=vectorAdd, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f42_00000000", address, 4242)
		p.Printf("Copy input data from the host memory to the CUDA device\nFailed to launch vectorAdd kernel (error code unspecified launch failure)!\n")
		return 1
	}
	p.Printf("Copy input data from the host memory to the CUDA device\nCUDA kernel launch with 196 blocks of 256 threads\n" +
		"Copy output data from the CUDA device to the host memory\nTest PASSED\nDone\n")
	return 0
}

// runToolkit is NVIDIA's container toolkit as far as one asks for its version.
func runToolkit(_ context.Context, p *machine.Proc) int {
	file, err := p.Find(p.Args[0])
	if err != nil {
		return p.Fail("%v", err)
	}
	data, _ := p.FS.ReadFile(file)
	version := upstream(disk.Value(data, "version"))
	if opts, _ := getopt.Parse(p.Args[1:]); !getopt.Has(opts, "version", "v") {
		return p.Fail("only --version is simulated")
	}
	p.Printf("%s version %s\n", map[bool]string{true: "NVIDIA Container Toolkit CLI", false: "NVIDIA Container Runtime"}[p.Name() == "nvidia-ctk"], version)
	return 0
}
